//! `hoist status`.

use hoist_phases::ports::KubeConnect as _;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::args::{Format, Global};
use super::session::{self, Session, SessionError};
use crate::cluster::identity;
use crate::cluster::kube::Connector;
use crate::cluster::status::{Overall, Status, status};
use crate::error::BoxError;
use crate::report;

/// A cluster is there, but not as it should be: the data is on stdout all the same.
#[derive(Debug, thiserror::Error)]
#[error("cluster {cluster} is {overall}")]
pub struct NotWell {
    pub cluster: String,
    pub overall: Overall,
}

pub(super) async fn run(global: &Global, format: Format) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let status = look(&session).await?;
    report::output::formatted(format, &status, text)?;
    match status.overall {
        Overall::Running => Ok(()),
        overall => Err(NotWell { cluster: status.cluster, overall }.into()),
    }
}

/// The status of a cluster that is there.
pub(super) async fn look(session: &Session) -> Result<Status, BoxError> {
    let engine = session::engine().await?;
    // Without keys, or with half of them, the containers still tell most.
    let api = match session.kubeconfig() {
        Ok(admin) => Some(Connector.connect(&admin).await?),
        Err(_) => None,
    };
    let spec = session.spec_if_any().ok().flatten();
    let noted = identity::noted(&session.state).ok().flatten();
    let (api, name) = (api.as_deref(), session.name.as_str());
    let status = status(engine.as_ref(), api, name, spec.as_ref(), noted.as_deref()).await?;
    if status.overall == Overall::Absent {
        return Err(SessionError::NoCluster(session.name.clone()).into());
    }
    Ok(status)
}

pub(super) fn text(status: &Status) -> String {
    let mut text = format!("cluster {}: {}\n\n", status.cluster, status.overall);
    let components = status.components.iter().map(|component| {
        [
            component.name.clone(),
            component.state.clone(),
            component.version.map(|version| version.to_string()).unwrap_or_default(),
            component.restarts.to_string(),
            component.started.clone().unwrap_or_default(),
            component.endpoint.clone().unwrap_or_default(),
        ]
    });
    text += &report::table(["COMPONENT", "STATE", "VERSION", "RESTARTS", "STARTED", "ENDPOINT"], components);
    if !status.nodes.is_empty() {
        text.push('\n');
        text += &nodes(status);
    }
    if !status.ports.is_empty() {
        let rows = status.ports.iter().map(|port| {
            let node = port.node.clone().unwrap_or_else(|| "any".to_owned());
            [port.host.clone(), port.protocol.to_string(), port.port.to_string(), node]
        });
        text += &format!("\n{}", report::table(["HOST", "PROTOCOL", "PORT", "NODE"], rows));
    }
    for problem in &status.problems {
        text += &format!("\nproblem: {problem}");
    }
    for note in &status.notes {
        text += &format!("\nnote: {note}");
    }
    if !status.problems.is_empty() || !status.notes.is_empty() {
        text.push('\n');
    }
    text
}

/// The table of nodes, as `node list` shows it too.
pub(super) fn nodes(status: &Status) -> String {
    let rows = status.nodes.iter().map(|node| {
        let ready = match node.ready {
            Some(true) => "Ready",
            Some(false) => "NotReady",
            None => "unknown",
        };
        [
            node.name.clone(),
            match (node.kind.clone().unwrap_or_default(), &node.accelerator) {
                (kind, Some(accelerator)) => format!("{kind} ({accelerator})"),
                (kind, None) => kind,
            },
            ready.to_owned(),
            node.container.clone().unwrap_or_else(|| "-".to_owned()),
            node.version.clone().unwrap_or_default(),
            node.addresses.join(","),
            node.joined
                .as_deref()
                .and_then(|joined| age(joined, OffsetDateTime::now_utc()))
                .unwrap_or_default(),
        ]
    });
    report::table(["NODE", "KIND", "READY", "CONTAINER", "VERSION", "ADDRESSES", "AGE"], rows)
}

/// Time since a moment in RFC 3339.
fn age(since: &str, now: OffsetDateTime) -> Option<String> {
    let since = OffsetDateTime::parse(since, &Rfc3339).ok()?;
    // Clocks of one machine, yet one may have been set.
    let secs = u64::try_from((now - since).whole_seconds()).unwrap_or_default();
    Some(report::span(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let age = |secs: i64| {
            age(
                "2026-01-01T00:00:00Z",
                OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(1_767_225_600 + secs),
            )
        };
        for (secs, text) in
            [(-5, "0s"), (0, "0s"), (45, "45s"), (200, "3m20s"), (3_600, "1h"), (190_800, "2d5h")]
        {
            assert_eq!(age(secs).as_deref(), Some(text));
        }
        assert_eq!(super::age("yesterday", OffsetDateTime::UNIX_EPOCH), None);
    }
}
