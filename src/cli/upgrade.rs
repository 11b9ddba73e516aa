//! `hoist upgrade`: another version of Kubernetes for the control plane of a cluster that is there.
//!
//! It is a run of the phases for the cluster as it should be then; the order is that of the phase
//! `upgrade`. Here is judged what may be, and decided what a run that failed leaves.

use std::sync::Arc;
use std::time::Instant;

use hoist_phases::causes;
use hoist_phases::engine::PhaseFailure;
#[cfg(test)]
use hoist_phases::phases::PhaseId;
use hoist_phases::phases::images;
use hoist_phases::phases::preflight::{PreflightError, Problem};
use hoist_phases::phases::preview::preview;
use hoist_phases::phases::unsettled;
use hoist_phases::phases::upgrade::rules::{self, Refusal};
use hoist_phases::phases::upgrade::{UpgradeError, is_whole, rolled_out, stale};
use hoist_phases::ports::{KubeApi, KubeConnect as _, Runtime as _};
use hoist_phases::spec::{ClusterName, ClusterSpec, Component, KubernetesVersion};

use super::args::{Global, UpgradeArgs};
use super::plan;
use super::session::{self, Session};
use super::signals::interrupted;
use super::up::{self, UpError};
use crate::cluster::kube::Connector;
use crate::config::{self, Settings};
use crate::error::BoxError;
use crate::images::Release;
use crate::report::{self, Style};
use crate::runtime::Engine;

/// The module whose version tells whether two releases have the same etcd.
const ETCD: &str = "go.etcd.io/etcd/server/v3";

#[derive(Debug, thiserror::Error)]
pub enum UpgradeCommandError {
    #[error("cluster {name} can't be upgraded{}", lines(.refusals))]
    Refused { name: ClusterName, refusals: Vec<Refusal> },
    #[error(
        "cluster {name}: an upgrade to {to} has not ended: {} of another version; `hoist upgrade --name {name} \
         --kubernetes {to}` goes on with it, and others come after it", components(.left)
    )]
    Unfinished { name: ClusterName, to: KubernetesVersion, left: Vec<Component> },
    #[error(
        "cluster {0}: its nodes' versions can't be asked for; the API server has to answer before it is upgraded, \
         `hoist up` mends what it can"
    )]
    NoAnswer(ClusterName, #[source] BoxError),
    #[error("the addons of before are not all replaced")]
    Addons(#[source] BoxError),
    #[error("cluster {name} stays at {from}; what was replaced is put back")]
    PutBack { name: ClusterName, from: KubernetesVersion, source: BoxError },
    #[error(
        "cluster {name} is on its way to {to}; when the cause is mended, `hoist upgrade --name {name} --kubernetes \
         {to}` goes on"
    )]
    Halfway { name: ClusterName, to: KubernetesVersion, source: BoxError },
}

fn lines(refusals: &[Refusal]) -> String {
    refusals.iter().map(|refusal| format!("\n- {refusal}")).collect()
}

fn components(components: &[Component]) -> String {
    let names: Vec<_> = components.iter().map(|component| component.name()).collect();
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}

pub(super) async fn run(global: &Global, args: UpgradeArgs) -> Result<(), BoxError> {
    let UpgradeArgs { kubernetes, plan, timeout, progress } = args;
    let to = KubernetesVersion::parse(&kubernetes)?;
    let timeout = config::time_limit("--timeout", &timeout)?;
    let session = Session::new(global)?;
    let _lock = session.state.lock()?;
    let present = session.spec()?;
    let wanted = wanted(&present, to);
    if plan {
        refuse(&session.name, present.kubernetes, to, &[])?;
        let tried = session.state.unsettled()?;
        let steps = unsettled::revise(preview(Some(&present), &wanted)?, &tried, &wanted)?;
        return Ok(report::data(plan::text(&steps))?);
    }
    let engine = session::engine().await?;
    judge(&session, &engine, &present, &wanted).await?;

    let mut settings = config::settings(Default::default(), None, wanted, None)?;
    (settings.timeout, settings.progress) = (timeout, progress);
    let style = Style::choose(settings.progress, global.no_color);
    session.state.begin(&present, &settings.spec)?;
    session.state.write_spec(&settings.spec)?;
    match bring_up(&engine, &session, &settings, style).await {
        Ok(()) => {
            session.state.settled()?;
            up::afterwards(&session).await;
            summary(&present, &settings.spec);
            Ok(())
        }
        Err(error) => Err(failed(&session, &engine, &present, settings, style, error).await?),
    }
}

/// The cluster as it should be; the same again goes on with an upgrade that has not ended.
fn wanted(present: &ClusterSpec, to: KubernetesVersion) -> ClusterSpec {
    if to == present.kubernetes {
        return present.clone();
    }
    let etcd = |version: KubernetesVersion| Release::of(&version.to_string()).module_version(ETCD);
    rules::upgraded(present, to, etcd(present.kubernetes) == etcd(to))
}

/// Everything that forbids an upgrade, before anything is touched.
async fn judge(
    session: &Session,
    engine: &Arc<Engine>,
    present: &ClusterSpec,
    wanted: &ClusterSpec,
) -> Result<(), BoxError> {
    let (name, from, to) = (&session.name, present.kubernetes, wanted.kubernetes);
    if to != from {
        // What is wrong without anybody being asked is told even where nobody answers.
        refuse(name, from, to, &[])?;
        let left = stale(&engine.list(Some(name.as_str())).await?, present);
        if !left.is_empty() {
            return Err(UpgradeCommandError::Unfinished { name: name.clone(), to: from, left }.into());
        }
        let kubelets = kubelets(session).await;
        let kubelets = kubelets.map_err(|error| UpgradeCommandError::NoAnswer(name.clone(), error))?;
        refuse(name, from, to, &kubelets)?;
    }
    let missing = engine.missing_images(&images::needed(wanted)).await?;
    if missing.is_empty() { Ok(()) } else { Err(PreflightError(vec![Problem::Images(missing)]).into()) }
}

fn refuse(
    name: &ClusterName,
    from: KubernetesVersion,
    to: KubernetesVersion,
    kubelets: &[(String, String)],
) -> Result<(), UpgradeCommandError> {
    let refused = |refusals| UpgradeCommandError::Refused { name: name.clone(), refusals };
    rules::check(from, to, kubelets).map_err(refused)
}

/// Names of the nodes with the versions of their kubelets.
async fn kubelets(session: &Session) -> Result<Vec<(String, String)>, BoxError> {
    let api = Connector.connect(&session.kubeconfig()?).await?;
    let nodes = api.list("v1", "Node", None).await?;
    let text = |node: &serde_json::Value, pointer: &str| {
        node.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let kubelet = |node| (text(node, "/metadata/name"), text(node, "/status/nodeInfo/kubeletVersion"));
    Ok(nodes.iter().map(kubelet).collect())
}

/// As `up` does it, and until pods of the addons are of the new version too.
async fn bring_up(
    engine: &Arc<Engine>,
    session: &Session,
    settings: &Settings,
    style: Style,
) -> Result<(), BoxError> {
    let begin = Instant::now();
    up::bring_up(engine, session, settings, style).await?;
    let api: Arc<dyn KubeApi> = Connector.connect(&session.kubeconfig()?).await?;
    let left = settings.timeout.saturating_sub(begin.elapsed()).max(up::LEAST_WAIT);
    tokio::select! {
        result = rolled_out(api.as_ref(), &settings.spec, left) => {
            result.map_err(|error| UpgradeCommandError::Addons(error).into())
        }
        signal = interrupted() => Err(signal.map_or_else(BoxError::from, |signal| UpError::Interrupted(signal).into())),
    }
}

/// What a run that failed leaves. Up to the API server the one before is put back: without one there is no
/// cluster. After that the cluster works with what it has, and the same command goes on.
async fn failed(
    session: &Session,
    engine: &Arc<Engine>,
    present: &ClusterSpec,
    settings: Settings,
    style: Style,
    error: BoxError,
) -> Result<BoxError, BoxError> {
    let (name, from, to) = (session.name.clone(), present.kubernetes, settings.spec.kubernetes);
    if from == to {
        return Ok(UpgradeCommandError::Halfway { name, to, source: error }.into());
    }
    let found = engine.list(Some(name.as_str())).await?;
    let back = match at(&error) {
        Some(Component::Etcd | Component::Kine) => rules::put_back(present, &settings.spec, false),
        Some(Component::ApiServer) => rules::put_back(present, &settings.spec, true),
        None if is_whole(&found, present) => {
            session.state.write_spec(present)?;
            return Ok(error);
        }
        _ => return Ok(UpgradeCommandError::Halfway { name, to, source: error }.into()),
    };
    report::tell(format_args!("putting back what was of {from}: {}", causes(error.as_ref())));
    session.state.write_spec(&back)?;
    let settings = Settings { spec: back, ..settings };
    up::bring_up(engine, session, &settings, style).await?;
    session.state.settled()?;
    Ok(UpgradeCommandError::PutBack { name, from, source: error }.into())
}

/// The component that a failed run could not replace.
fn at(error: &BoxError) -> Option<Component> {
    let Some(UpError::Phase(PhaseFailure { source, .. })) = error.downcast_ref() else { return None };
    source.downcast_ref().map(|error: &UpgradeError| error.component)
}

fn summary(present: &ClusterSpec, wanted: &ClusterSpec) {
    let ClusterSpec { name, kubernetes, nodes, .. } = wanted;
    let was = match present.kubernetes == *kubernetes {
        true => String::new(),
        false => format!(", and was {}", present.kubernetes),
    };
    report::tell(format_args!("\ncluster {name} is of Kubernetes {kubernetes}{was}"));
    let older: Vec<_> =
        nodes.iter().filter_map(|node| Some(format!("{} ({})", node.name(), node.version?))).collect();
    if !older.is_empty() {
        report::tell(format_args!(
            "nodes keep their kubelets until they are replaced, by `hoist node add --name {name}` and `hoist node \
             remove`: {}",
            older.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use hoist_phases::spec::BootstrapToken;

    use super::*;

    #[test]
    fn etcd_is_replaced_where_the_release_has_another() -> Result<(), BoxError> {
        let token = BootstrapToken::generate().map_err(|_| "no random numbers")?;
        let mut present = config::defaults(ClusterName::new("c")?, token);
        for (from, to, same) in [
            ("v1.34.4", "v1.35.4", true),
            ("v1.35.4", "v1.36.3", true),
            ("v1.36.3", "v1.37.2", false),
            ("v1.36.2", "v1.36.3", true),
        ] {
            present.kubernetes = KubernetesVersion::parse(from)?;
            let wanted = wanted(&present, KubernetesVersion::parse(to)?);
            assert_eq!(wanted.held.contains_key("etcd"), same, "{from} to {to}");
        }
        assert_eq!(wanted(&present, present.kubernetes), present);
        Ok(())
    }

    #[test]
    fn the_component_that_failed_is_found_in_the_error() {
        let failure =
            |source| BoxError::from(UpError::Phase(PhaseFailure { phase: PhaseId::Upgrade, source }));
        for component in [Component::Etcd, Component::ApiServer, Component::Scheduler] {
            let version = KubernetesVersion::DEFAULT;
            let error = failure(UpgradeError { component, version, source: "why".into() }.into());
            assert_eq!(at(&error), Some(component));
        }
        // The images of addons that a node doesn't take.
        assert_eq!(at(&failure("why".into())), None);
        assert_eq!(at(&"interrupted".into()), None);
    }
}
