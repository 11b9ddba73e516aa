//! `hoist export`, and what a failed `up` leaves when it is asked for it.

use std::path::Path;

use hoist_phases::causes;
use hoist_phases::ports::KubeConnect as _;
use hoist_phases::spec::{ClusterSpec, KubernetesVersion};
use serde_json::json;

use super::args::{ExportArgs, Global, UpArgs};
use super::session::{self, Session, SessionError};
use super::{doctor, status};
use crate::cluster::doctor::LONGEST;
use crate::cluster::export::{Content, ExportError, Piece, Sources, Summary, export, vacant};
use crate::cluster::kube::Connector;
use crate::config::{self, Origin};
use crate::error::{BoxError, render};
use crate::report;

/// Lines about what is missing; errors.txt has all.
const SHOWN: usize = 10;

/// Something could not be had; what is there is in the directory all the same.
#[derive(Debug, thiserror::Error)]
#[error("{0} pieces could not be had; errors.txt in the directory says which")]
pub struct Partial(usize);

pub(super) async fn run(global: &Global, args: &ExportArgs) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    vacant(&args.directory)?;
    let spec = session.spec_if_any();
    if matches!(spec, Ok(None))
        && let Ok(engine) = session::engine().await
        && !session::has_containers(&engine, &session.name).await?
    {
        return Err(SessionError::NoCluster(session.name).into());
    }
    let spec = match spec {
        Ok(Some(spec)) => Ok(spec),
        Ok(None) => Err("the cluster's directory is not there".to_owned()),
        Err(error) => Err(causes(&error)),
    };
    let summary = collect(&session, spec.as_ref(), &args.directory, None).await?;
    report::output::formatted(args.output.output, &summary, text)?;
    if summary.missing.is_empty() { Ok(()) } else { Err(Partial(summary.missing.len()).into()) }
}

fn text(summary: &Summary) -> String {
    let Summary { cluster, run, directory, files, missing } = summary;
    let mut text =
        format!("{} files of cluster {cluster} in {} (run {run})\n", files.len(), directory.display());
    for one in missing.iter().take(SHOWN) {
        text += &format!("missing: {}: {}\n", one.path, one.reason.lines().next().unwrap_or_default());
    }
    if missing.len() > SHOWN {
        text += &format!("missing: {} more\n", missing.len() - SHOWN);
    }
    text
}

/// Leaves the evidence of a run that has failed, before anything of it is removed. That it can't be
/// left is only told: the error of the run itself matters more.
pub(super) async fn of_failure(session: &Session, spec: &ClusterSpec, directory: &Path, error: &BoxError) {
    let failure = render(error.as_ref());
    match collect(session, Ok(spec), directory, Some(failure)).await {
        Ok(summary) => {
            let left = match summary.missing.len() {
                0 => String::new(),
                count => format!("; {count} pieces could not be had, see errors.txt"),
            };
            let place = directory.display();
            report::tell(format_args!(
                "what this run came to is in {place} ({} files{left})",
                summary.files.len()
            ));
        }
        Err(error) => {
            let why = causes(&error);
            report::tell(format_args!("warning: nothing could be exported: {why}"));
        }
    }
}

async fn collect(
    session: &Session,
    spec: Result<&ClusterSpec, &String>,
    directory: &Path,
    failure: Option<String>,
) -> Result<Summary, ExportError> {
    let engine = session::engine().await.map_err(|error| causes(error.as_ref()));
    let api = match session.kubeconfig() {
        Ok(admin) => Connector.connect(&admin).await.map_err(|error| causes(&error)),
        Err(error) => Err(causes(error.as_ref())),
    };
    let sources = Sources {
        engine,
        api,
        spec: spec.map_err(Clone::clone),
        cluster: session.name.as_str(),
        state: &session.state,
    };
    let mut more = vec![
        Piece::new("versions.json", async {
            Ok(Content::Json(json!({
                "hoist": env!("CARGO_PKG_VERSION"),
                "kubernetes": spec.map_or(KubernetesVersion::DEFAULT, |spec| spec.kubernetes).to_string(),
                "run": crate::run::id(),
            })))
        }),
        Piece::new("status.txt", async {
            let status = status::look(session).await.map_err(|error| causes(error.as_ref()))?;
            Ok(Content::Text(status::text(&status)))
        }),
        Piece::new("doctor.txt", async {
            let spec = spec.map_err(Clone::clone)?;
            let diagnoses = doctor::examine(session, spec.clone(), true).await;
            Ok(Content::Text(doctor::text(&diagnoses)))
        })
        .within(LONGEST),
        Piece::new("config.yaml", async { settings(spec.map_err(Clone::clone)?.clone()) }),
    ];
    if let Some(failure) = failure {
        more.push(Piece::new("failure.txt", async { Ok(Content::Text(failure)) }));
    }
    export(directory, &sources, more).await
}

/// As `config view` shows them, which leaves out what is secret.
fn settings(spec: ClusterSpec) -> Result<Content, String> {
    let settings = config::settings(UpArgs::default(), None, spec, None).map_err(|error| causes(&error))?;
    Ok(Content::Settings(config::view::yaml(&settings, &Origin::Present)))
}
