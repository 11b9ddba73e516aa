//! `hoist list`.

use std::collections::{BTreeMap, BTreeSet};

use hoist_phases::ports::{ContainerState, Runtime as _, Status, label};
use serde::Serialize;

use super::args::Format;
use super::session;
use crate::error::BoxError;
use crate::report;
use crate::store::StateRoot;

/// One line of the list.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    running: usize,
    containers: usize,
    nodes: usize,
    /// Whether keys and configuration are there too.
    state_directory: bool,
}

pub(super) async fn run(format: Format) -> Result<(), BoxError> {
    let engine = session::engine().await?;
    let directories = StateRoot::from_environment()?.clusters()?.iter().map(ToString::to_string).collect();
    let entries = entries(&engine.list(None).await?, &directories);
    report::output::formatted(format, &entries, |entries| {
        let rows = entries.iter().map(|entry| {
            [
                entry.name.clone(),
                format!("{}/{}", entry.running, entry.containers),
                entry.nodes.to_string(),
                if entry.state_directory { "yes" } else { "no" }.to_owned(),
            ]
        });
        report::table(["NAME", "RUNNING", "NODES", "STATE"], rows)
    })?;
    Ok(())
}

fn entries(containers: &[ContainerState], directories: &BTreeSet<String>) -> Vec<Entry> {
    let mut entries: BTreeMap<&str, Entry> = directories
        .iter()
        .map(|name| (name.as_str(), Entry { state_directory: true, ..Entry::default() }))
        .collect();
    for container in containers {
        let Some(name) = container.labels.get(label::CLUSTER) else { continue };
        let entry = entries.entry(name).or_default();
        entry.containers += 1;
        entry.running += usize::from(container.status == Status::Running);
        entry.nodes += usize::from(container.labels.contains_key(label::NODE));
    }
    entries.into_iter().map(|(name, entry)| Entry { name: name.to_owned(), ..entry }).collect()
}
