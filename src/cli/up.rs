//! `hoist up`: puts settings, lock, engine, phases and readiness together, and takes back what a
//! failed run has made.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hoist_phases::causes;
use hoist_phases::engine::{Events, PhaseFailure, Plan, run as run_plan};
use hoist_phases::events::Event;
use hoist_phases::phases::{Context, Outputs, PHASES, PhaseId, running};
use hoist_phases::pki::CertId;
use hoist_phases::ports::{KubeConnect as _, Ports, Store as _};
use hoist_phases::spec::ClusterSpec;
use tokio::sync::mpsc::unbounded_channel;

use super::args::{Global, Progress, UpArgs};
use super::cleanup::{forget_nodes, take_back};
use super::session::{self, KUBECONFIG, Session, SessionError};
use super::signals::{Interrupted, interrupted};
use super::{export, images};
use crate::cluster::down::Snapshot;
use crate::cluster::kube::Connector;
use crate::cluster::ready::{self, ReadyError, Target};
use crate::cluster::{identity, pause};
use crate::config::{self, Settings, UsersCa};
use crate::error::BoxError;
use crate::kubeconfig;
use crate::report::{self, Profile, Record, Style, Times};
use crate::runtime::Engine;

/// How often it is looked whether the API can be asked for readiness.
const POLL: Duration = Duration::from_millis(20);

/// Least time the readiness levels get, however late the phases were.
pub(super) const LEAST_WAIT: Duration = Duration::from_secs(1);

/// In the state directory.
const LAST_PROFILE: &str = "last-up.json";

/// Time for the display to show the last events.
const DISPLAY_END: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum UpError {
    #[error(transparent)]
    Phase(#[from] PhaseFailure),
    #[error(transparent)]
    NotReady(#[from] ReadyError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("not done within {} s; still under way: {}", timeout.as_secs(), names(.running))]
    Timeout { timeout: Duration, running: Vec<PhaseId> },
    #[error("the cluster's kubeconfig")]
    Kubeconfig(#[source] BoxError),
    #[error(
        "--ca-cert (ca.cert): the cluster has another CA, which its nodes trust, as after `hoist certs renew --ca`; leave it \
         out, or make the cluster anew"
    )]
    OtherCa,
}

pub(super) async fn run(global: &Global, args: UpArgs) -> Result<(), BoxError> {
    let (file, name) = config::begin(global, &args)?;
    let session = Session::named(name.clone())?;
    let _lock = session.state.lock()?;
    let present = session.spec_if_any()?;
    let settings = config::finish(args, file, name, present.clone()).await?;
    super::config::tell_notes(&settings);
    if let Some(present) = &present {
        config::check_conflict(present, &settings.spec)?;
    }
    let engine = session::engine().await?;
    if present.is_none() && session::has_containers(&engine, &session.name).await? {
        let path = session.state.path().display().to_string();
        return Err(SessionError::Orphan { name: session.name, path }.into());
    }

    images::make_disks(&engine, &settings.spec.kubernetes.to_string(), &settings.disks).await?;
    apply(global, &session, &engine, settings, present.as_ref()).await
}

/// Makes a cluster what the settings say; takes back what a failed run has made, the recorded
/// specification included, so that what is recorded is what was last seen working.
pub(super) async fn apply(
    global: &Global,
    session: &Session,
    engine: &Arc<Engine>,
    settings: Settings,
    present: Option<&ClusterSpec>,
) -> Result<(), BoxError> {
    let before = Snapshot::take(engine.as_ref(), &session.state).await?;
    let style = Style::choose(settings.progress, global.no_color);
    if let Some(present) = present {
        session.state.begin(present, &settings.spec)?;
    }
    let recorded = session.state.write_spec(&settings.spec).map_err(BoxError::from);
    let result = match recorded.and_then(|()| hand_over_ca(session, settings.ca.as_ref())) {
        Ok(()) => bring_up(engine, session, &settings, style).await,
        Err(error) => Err(error),
    };
    if let (Err(error), Some(directory)) = (&result, &settings.export_on_failure)
        // Whoever interrupts waits for the end.
        && !matches!(error.downcast_ref(), Some(UpError::Interrupted(_)))
    {
        export::of_failure(session, &settings.spec, directory, error).await;
    }
    match result {
        Ok(times) => {
            session.state.settled()?;
            afterwards(session).await;
            summary(session, &settings, style, &times);
            Ok(())
        }
        Err(error) if settings.retain => {
            report::tell("what this run has made is kept, as --retain asks");
            Err(error)
        }
        Err(error) => {
            take_back(engine, &session.state, &before).await;
            if let Some(present) = present {
                tell_replaced(engine, session, &before).await;
                session.state.write_spec(present)?;
                forget_nodes(session, &settings.spec, present).await;
            }
            Err(error)
        }
    }
}

/// What follows from a run that went well. The cluster is up, whatever becomes of this.
pub(super) async fn afterwards(session: &Session) {
    let name = &session.name;
    match know_data(session).await {
        Ok(false) => {}
        Ok(true) => report::tell(format_args!(
            "warning: the data of cluster {name} was lost: etcd held it in memory, and its containers had ended; \
             everything but hoist's own objects is gone"
        )),
        Err(error) => {
            report::tell(format_args!(
                "warning: can't tell whose data the cluster has: {}",
                causes(error.as_ref())
            ));
        }
    }
    let refreshed = match session.kubeconfig() {
        Ok(admin) => kubeconfig::refresh(&session.state, name, &admin),
        Err(error) => {
            report::tell(format_args!(
                "warning: kubeconfigs written earlier stay as they are: {}",
                causes(error.as_ref())
            ));
            return;
        }
    };
    for path in refreshed.written {
        report::tell(format_args!("wrote the cluster's access anew into {}", path.display()));
    }
    for error in refreshed.failed {
        report::tell(format_args!(
            "warning: a kubeconfig written earlier is out of date: {}",
            causes(&error)
        ));
    }
}

/// Notes which data the cluster has; `true` when it was another's before.
async fn know_data(session: &Session) -> Result<bool, BoxError> {
    let noted = identity::noted(&session.state)?;
    let api = Connector.connect(&session.kubeconfig()?).await?;
    let Some(present) = identity::present(api.as_ref()).await? else { return Ok(false) };
    if noted.as_ref() == Some(&present) {
        return Ok(false);
    }
    identity::note(&session.state, &present)?;
    Ok(noted.is_some())
}

/// What a failed run has made anew of a cluster that was there is not what is recorded.
async fn tell_replaced(engine: &Engine, session: &Session, before: &Snapshot) {
    let name = session.name.as_str();
    if let Ok(replaced) = before.replaced(engine, name).await
        && !replaced.is_empty()
    {
        report::tell(format_args!(
            "warning: this run has made anew and leaves as it is: {}; `hoist up --name {name}` makes it what it was",
            replaced.join(", ")
        ));
    }
}

/// Puts a CA of the user's where the certs phase finds it; a cluster's CA is never replaced.
fn hand_over_ca(session: &Session, ca: Option<&UsersCa>) -> Result<(), BoxError> {
    let Some(UsersCa { cert, key }) = ca else { return Ok(()) };
    for (path, content) in [(CertId::Ca.cert_path(), cert), (CertId::Ca.key_path(), key)] {
        match session.state.read(&path)? {
            Some(present) if present != *content => return Err(UpError::OtherCa.into()),
            Some(_) => {}
            None => session.state.write(&path, content)?,
        }
    }
    Ok(())
}

/// Runs the phases and waits for readiness, both under one deadline and until a signal comes.
pub(super) async fn bring_up(
    engine: &Arc<Engine>,
    session: &Session,
    settings: &Settings,
    style: Style,
) -> Result<Times, BoxError> {
    let resumed = pause::resume(engine.as_ref(), session.name.as_str()).await?;
    if resumed > 0 {
        report::tell(format_args!("cluster {} was paused; it goes on", session.name));
    }
    let (sender, receiver) = unbounded_channel();
    let display = report::follow(style, receiver);
    let events = Events::new(sender);
    #[cfg(feature = "faults")]
    let events = events.observed(crate::faults::at);
    let ports = Ports {
        runtime: Arc::clone(engine) as _,
        store: Arc::new(session.state.clone()),
        connect: Arc::new(Connector),
    };
    let context = Context {
        spec: Arc::new(settings.spec.clone()),
        ports: ports.timed(&events),
        outputs: Arc::new(Outputs::default()),
        events,
        timeout: settings.timeout,
    };
    let skip = [settings.spec.skip_phases.as_slice(), &settings.skip].concat();
    let plan = Plan::new(PHASES)?.skipping(&skip, "left out by --skip-phase");
    let result = tokio::select! {
        result = phases_and_levels(&plan, &context, settings, session) => result,
        failure = running::watch(&context) => Err(UpError::Phase(failure).into()),
        signal = interrupted() => Err(signal.map_or_else(BoxError::from, |signal| UpError::Interrupted(signal).into())),
    };
    drop(context);
    let record = tokio::time::timeout(DISPLAY_END, display).await;
    let Record { times, profile } = record.ok().and_then(Result::ok).unwrap_or_default();
    write_profile(&profile, settings.profile.as_deref(), session);
    match result {
        Ok(()) => Ok(times),
        Err(error) => Err(with_running(error, times.running)),
    }
}

/// One is kept of the last run in any case, for whoever asks afterwards. What became of the run
/// matters more than whether its profile could be written.
fn write_profile(profile: &Profile, path: Option<&Path>, session: &Session) {
    let title = format!("hoist up: {}", session.name);
    let kept = session.state.path().join(LAST_PROFILE);
    for path in [Some(kept.as_path()), path].into_iter().flatten() {
        match profile.write(path, &title) {
            Ok(page) if path != kept => report::tell(format_args!("where the time went: {}", page.display())),
            Ok(_) => {}
            Err(error) => report::tell(format_args!("warning: no profile: {}", causes(&error))),
        }
    }
}

/// Only the display has seen what was still under way.
fn with_running(error: BoxError, phases: Vec<PhaseId>) -> BoxError {
    match error.downcast::<UpError>() {
        Ok(error) => match *error {
            UpError::Timeout { timeout, .. } => UpError::Timeout { timeout, running: phases }.into(),
            other => other.into(),
        },
        Err(other) => other,
    }
}

fn names(phases: &[PhaseId]) -> String {
    phases.iter().map(|phase| phase.name()).collect::<Vec<_>>().join(", ")
}

async fn phases_and_levels(
    plan: &Plan,
    context: &Context,
    settings: &Settings,
    session: &Session,
) -> Result<(), BoxError> {
    let begin = Instant::now();
    let (finished, phases_end) = tokio::sync::watch::channel(false);
    let phases = async {
        let result = tokio::time::timeout(settings.timeout, run_plan(plan, context)).await;
        let result = result.map_err(|_| UpError::Timeout { timeout: settings.timeout, running: Vec::new() });
        result?.map_err(UpError::Phase)?;
        finished.send_replace(true);
        Ok(())
    };
    // Levels are probed while later phases still run, so that each has its true time.
    let levels = async {
        while context.outputs.api.get().is_err() && !*phases_end.borrow() {
            tokio::time::sleep(POLL).await;
        }
        let admin = session.kubeconfig().map_err(UpError::Kubeconfig)?;
        let target = Target::new(&context.spec, context.ports.runtime.as_ref(), &admin)
            .map_err(|error| UpError::Kubeconfig(error.into()))?;
        let left = settings.timeout.saturating_sub(begin.elapsed()).max(LEAST_WAIT);
        let reached = |level: ready::Level, _| {
            let at_ms = context.events.now_ms();
            context.events.send(Event::Ready { level: level.to_string(), at_ms });
        };
        ready::wait(&target, settings.wait, left, reached).await.map_err(UpError::NotReady)
    };
    tokio::try_join!(phases, levels)?;
    Ok(())
}

fn summary(session: &Session, settings: &Settings, style: Style, times: &Times) {
    if style == Style::Json || settings.progress == Progress::Json {
        return;
    }
    let ClusterSpec { name, kubernetes, nodes, .. } = &settings.spec;
    let end = times.phases.iter().map(|time| time.at_ms).chain(times.levels.iter().map(|(_, at)| *at)).max();
    let took = report::seconds(end.unwrap_or_default());
    let word = if times.changed() { "is up" } else { "was up already" };
    report::tell(format_args!(
        "\ncluster {name} {word}: Kubernetes {kubernetes}, nodes: {}, {took}",
        nodes.len()
    ));
    let path = session.state.path().join(KUBECONFIG);
    report::tell(format_args!("\n    export KUBECONFIG={}\n", path.display()));
}
