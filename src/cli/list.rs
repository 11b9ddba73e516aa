//! `hoist list`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hoist_phases::ports::{ContainerState, PublishedPort, Runtime as _, Status, label};
use hoist_phases::spec::networking::API_PORT;
use hoist_phases::spec::{ClusterName, ClusterSpec, mapped};
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
    /// Where the engine's host leads into the cluster.
    ports: Vec<HostPort>,
    /// Whether keys and configuration are there too.
    state_directory: bool,
}

/// A port of the host.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HostPort {
    host: SocketAddr,
    /// `API`, or as the configuration has it; a port of the shared namespace where the state
    /// directory is not there to tell.
    to: String,
}

pub(super) async fn run(format: Format) -> Result<(), BoxError> {
    let engine = session::engine().await?;
    let root = StateRoot::from_environment()?;
    // A record that can't be read is no reason not to list the cluster.
    let record = |name: ClusterName| (name.to_string(), root.cluster(&name).read_spec().ok());
    let directories = root.clusters()?.into_iter().map(record).collect();
    let entries = entries(&engine.list(None).await?, &directories);
    report::output::formatted(format, &entries, |entries| {
        let rows = entries.iter().map(|entry| {
            [
                entry.name.clone(),
                format!("{}/{}", entry.running, entry.containers),
                entry.nodes.to_string(),
                entry
                    .ports
                    .iter()
                    .map(|port| format!("{} to {}", port.host, port.to))
                    .collect::<Vec<_>>()
                    .join(", "),
                if entry.state_directory { "yes" } else { "no" }.to_owned(),
            ]
        });
        report::table(["NAME", "RUNNING", "NODES", "PORTS", "STATE"], rows)
    })?;
    Ok(())
}

fn entries(containers: &[ContainerState], directories: &BTreeMap<String, Option<ClusterSpec>>) -> Vec<Entry> {
    let mut entries: BTreeMap<&str, Entry> = directories
        .keys()
        .map(|name| (name.as_str(), Entry { state_directory: true, ..Entry::default() }))
        .collect();
    for container in containers {
        let Some(name) = container.labels.get(label::CLUSTER) else { continue };
        let entry = entries.entry(name).or_default();
        entry.containers += 1;
        entry.running += usize::from(container.status == Status::Running);
        let spec = directories.get(name).and_then(Option::as_ref);
        entry.ports.extend(container.published.iter().map(|port| leads(port, spec)));
        entry.nodes += usize::from(container.labels.contains_key(label::NODE));
    }
    entries.into_iter().map(|(name, entry)| Entry { name: name.to_owned(), ..entry }).collect()
}

fn leads(port: &PublishedPort, spec: Option<&ClusterSpec>) -> HostPort {
    let PublishedPort { container, host, protocol } = port;
    let mappings = spec.map(|spec| spec.ports.as_slice()).unwrap_or_default();
    let mut mappings = mapped(mappings);
    let to = match mappings.find(|(inner, mapping)| (inner, mapping.protocol) == (container, *protocol)) {
        Some((_, mapping)) => mapping.to_string(),
        None if *container == spec.map_or(API_PORT, ClusterSpec::api_port) => "API".to_owned(),
        None => format!("{container}/{}", protocol.lower()),
    };
    HostPort { host: *host, to }
}
