//! `hoist apply`: manifests of the user's, with replicas kept apart on request.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use hoist_phases::causes;
use hoist_phases::manifest::{Manifest, ManifestError, waves};
use hoist_phases::object::ObjectRef;
use hoist_phases::phases::apply::{ApplyError, may_still_come, persist};
use hoist_phases::phases::placement::{Placed, place};
use hoist_phases::ports::Applied;
use serde::Serialize;
use serde_json::Value;

use super::args::{ApplyArgs, Global};
use super::session::Session;
use crate::cluster::kube::{Access, Api};
use crate::config;
use crate::error::BoxError;
use crate::report;

#[derive(Debug, thiserror::Error)]
pub enum ApplyCommandError {
    #[error("manifest {path}: can't be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{} of {all} objects could not be applied{}{}", failed.len(), lines(.failed), untried_lines(.untried))]
    Failed { all: usize, failed: Vec<ApplyError>, untried: Vec<String> },
}

fn lines(failed: &[ApplyError]) -> String {
    failed.iter().map(|error| format!("\n- {}", causes(error))).collect()
}

fn untried_lines(untried: &[String]) -> String {
    if untried.is_empty() {
        return String::new();
    }
    format!("\nnot attempted after that: {}", untried.join(", "))
}

/// One object that was applied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    /// `created`, `updated` or `unchanged`.
    result: &'static str,
    /// Whether it got something by `--spread`.
    placed: bool,
}

pub(super) async fn run(global: &Global, args: &ApplyArgs) -> Result<(), BoxError> {
    let timeout = config::duration("--timeout", &args.timeout)?;
    let mut documents = Vec::new();
    for path in &args.files {
        let manifest = Manifest::parse(&path.display().to_string(), &read(path)?);
        documents.extend(manifest.map_err(ApplyCommandError::from)?.into_documents());
    }
    let session = Session::new(global)?;
    let api = Access::from_kubeconfig(&session.kubeconfig()?)?.connect()?;
    let policy = session.spec()?.placement.policy;

    let all = documents.len();
    let (mut entries, mut failed) = (Vec::new(), Vec::new());
    let mut waves = waves(documents).into_iter();
    for wave in waves.by_ref() {
        let applied = wave.into_iter().map(|mut document| {
            let placed = if args.spread { place(&mut document, policy.as_ref()) } else { Placed::default() };
            apply(&api, document, placed, timeout)
        });
        for result in join_all(applied).await {
            match result {
                Ok(entry) => entries.push(entry),
                Err(error) => failed.push(error),
            }
        }
        if !failed.is_empty() {
            break;
        }
    }
    report::output::formatted(args.output.output, &entries, |entries| entries.iter().map(line).collect())?;
    if failed.is_empty() {
        return Ok(());
    }
    let untried = waves.flatten().filter_map(|document| Some(ObjectRef::of(&document).ok()?.to_string()));
    Err(ApplyCommandError::Failed { all, failed, untried: untried.collect() }.into())
}

fn read(path: &Path) -> Result<String, ApplyCommandError> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|source| ApplyCommandError::Read { path: path.to_owned(), source })
}

async fn apply(
    api: &Api,
    document: Value,
    Placed { changed, replicas }: Placed,
    timeout: std::time::Duration,
) -> Result<Entry, ApplyError> {
    let reference = ObjectRef::of(&document)?;
    let applied = persist(&reference, timeout, may_still_come, || {
        api.server_side_apply(&reference, &document, replicas)
    })
    .await?;
    let ObjectRef { api_version, kind, namespace, name } = reference;
    let result = match applied {
        Applied::Created => "created",
        Applied::Updated => "updated",
        // Server-side apply knows no strangers.
        Applied::Unchanged | Applied::Foreign => "unchanged",
    };
    let placed = changed || (replicas.is_some() && applied == Applied::Created);
    Ok(Entry { api_version, kind, namespace, name, result, placed })
}

fn line(entry: &Entry) -> String {
    let namespace = entry.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let placed = if entry.placed { ", placed" } else { "" };
    format!("{} {namespace}{} {}{placed}\n", entry.kind, entry.name, entry.result)
}
