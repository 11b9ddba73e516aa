//! `hoist logs`: what a component wrote, or the journal of a node.

use std::pin::pin;

use bollard::container::LogOutput;
use futures_util::StreamExt as _;
use hoist_phases::phases::machines;
use hoist_phases::ports::{ContainerState, Runtime as _, label};
use hoist_phases::spec::ClusterName;

use super::args::{Global, LogsArgs};
use super::session::{self, Session, SessionError};
use crate::error::BoxError;
use crate::report;
use crate::runtime::Engine;

#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error("cluster {cluster} has no component or node {of:?}; it has {have}")]
    Unknown { cluster: ClusterName, of: String, have: String },
    #[error("journal of {node} can't be read: journalctl ended with code {code}")]
    Journal { node: String, code: i64 },
}

pub(super) async fn run(global: &Global, args: LogsArgs) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let engine = session::engine().await?;
    let containers = engine.list(Some(session.name.as_str())).await?;
    if containers.is_empty() {
        return Err(SessionError::NoCluster(session.name).into());
    }
    let LogsArgs { of, follow, tail } = args;
    let Some(found) = containers.iter().find(|container| called(container) == Some(of.as_str())) else {
        let have: Vec<_> = containers.iter().filter_map(called).collect();
        return Err(LogsError::Unknown { cluster: session.name, of, have: have.join(", ") }.into());
    };
    if found.labels.contains_key(label::NODE) {
        return journal(&engine, found, &of, tail, follow).await;
    }
    let mut lines = pin!(engine.log_lines(&found.name, Some(tail), follow));
    while let Some(line) = lines.next().await {
        report::data(line?.text)?;
    }
    Ok(())
}

/// Node name, or else component name.
fn called(container: &ContainerState) -> Option<&str> {
    container.labels.get(label::NODE).or_else(|| container.labels.get(label::ROLE)).map(String::as_str)
}

/// systemd writes nothing to the container's own output: the journal has kubelet and containerd.
async fn journal(
    engine: &Engine,
    container: &ContainerState,
    node: &str,
    tail: u32,
    follow: bool,
) -> Result<(), BoxError> {
    let lines = format!("--lines={tail}");
    let mut command = vec!["journalctl", "--no-pager", lines.as_str()];
    command.extend(follow.then_some("--follow"));
    let kind = container.labels.get(label::KIND).map_or("", String::as_str);
    let command = machines::on_kind(kind, &command);
    let show = |part| match part {
        LogOutput::StdErr { message } => {
            report::tell(String::from_utf8_lossy(&message).trim_end());
            Ok(())
        }
        other => report::data(other.into_bytes()).map_err(BoxError::from),
    };
    match engine.watch(&container.name, &command, show).await? {
        0 => Ok(()),
        code => Err(LogsError::Journal { node: node.to_owned(), code }.into()),
    }
}
