//! `hoist node ssh | console | stop | start | restart`: what is done with single machines.

use std::sync::Arc;

use futures_util::future::try_join_all;
use hoist_phases::phases::containers::node_name;
use hoist_phases::phases::preflight::{self, PreflightError};
use hoist_phases::phases::{PhaseId, machines};
use hoist_phases::ports::{Runtime, Status};
use hoist_phases::spec::{ClusterName, ClusterSpec, NodeKind, NodeSpec};

use super::args::{Global, NodeStartArgs};
use super::session::{self, Session};
use super::up;
use crate::cluster::ready::Level;
use crate::config;
use crate::error::BoxError;
use crate::report::{self, Style};
use crate::runtime::Engine;

/// Time for a machine to go down before it is switched off, in seconds: an emulated one needs some.
const STOP_GRACE_SECS: u32 = 90;

/// The phases that a machine needs to be started again.
const NEEDED: [PhaseId; 3] = [PhaseId::Preflight, PhaseId::Network, PhaseId::Machines];

/// Attaches this terminal to the machine's; byte 29 is Ctrl-].
const CONSOLE: [&str; 3] = ["socat", "-,raw,echo=0,escape=29", "UNIX-CONNECT:/run/console.sock"];

#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("cluster {cluster} runs no machine {names}; it has {have}")]
    Unknown { cluster: ClusterName, names: String, have: String },
    #[error("{0} is a container, which has no console; use `hoist node ssh {0}`")]
    NoConsole(String),
    #[error("the command ended with exit code {0}")]
    Command(i64),
}

pub(super) async fn ssh(global: &Global, name: &str, command: &[String]) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let spec = session.spec()?;
    let node = one(&spec, name)?;
    let shell = ["bash".to_owned(), "-l".to_owned()];
    let words: Vec<&str> =
        if command.is_empty() { &shell } else { command }.iter().map(String::as_str).collect();
    let engine = session::engine().await?;
    talk(&engine, &spec, node, &machines::on_node(node, &words), command.is_empty()).await
}

pub(super) async fn console(global: &Global, name: &str) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let spec = session.spec()?;
    let node = one(&spec, name)?;
    if node.kind == NodeKind::Container {
        return Err(MachineError::NoConsole(node.name()).into());
    }
    let engine = session::engine().await?;
    talk(&engine, &spec, node, &CONSOLE, true).await
}

async fn talk(
    engine: &Arc<Engine>,
    spec: &ClusterSpec,
    node: &NodeSpec,
    command: &[&str],
    terminal: bool,
) -> Result<(), BoxError> {
    match engine.interact(&node_name(&spec.name, &node.name()), command, terminal).await? {
        0 => Ok(()),
        code => Err(MachineError::Command(code).into()),
    }
}

pub(super) async fn stop(global: &Global, names: &[String]) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let _lock = session.state.lock()?;
    let spec = session.spec()?;
    let nodes = named(&spec, names)?;
    let engine = session::engine().await?;
    let stopping = nodes.iter().map(|node| {
        let (engine, container) = (Arc::clone(&engine), node_name(&spec.name, &node.name()));
        async move { engine.stop(&container, STOP_GRACE_SECS).await }
    });
    try_join_all(stopping).await?;
    report::tell(format_args!("stopped {}", names.join(", ")));
    Ok(())
}

pub(super) async fn restart(global: &Global, args: &NodeStartArgs) -> Result<(), BoxError> {
    // Nothing is stopped for a start that can't be.
    config::time_limit("--timeout", &args.timeout)?;
    stop(global, &args.names).await?;
    start(global, args).await
}

/// A machine is started by the phases that made it: a restarted one has lost its link.
pub(super) async fn start(global: &Global, args: &NodeStartArgs) -> Result<(), BoxError> {
    let NodeStartArgs { names, timeout } = args;
    let timeout = config::time_limit("--timeout", timeout)?;
    let session = Session::new(global)?;
    let _lock = session.state.lock()?;
    let mut spec = session.spec()?;
    let starting = named(&spec, names)?;
    let engine = session::engine().await?;
    has_memory(engine.as_ref(), &spec, &starting).await?;
    spec.nodes = starting;
    // The level that the cluster reaches by itself: without a CNI no node gets Ready.
    let mut settings = config::settings(Default::default(), None, spec, None)?;
    settings.timeout = timeout;
    settings.skip = PhaseId::ALL.iter().copied().filter(|phase| !NEEDED.contains(phase)).collect();
    settings.wait = settings.wait.min(Level::Nodes);
    let style = Style::choose(settings.progress, global.no_color);
    up::bring_up(&engine, &session, &settings, style).await?;
    report::tell(format_args!("started {}", names.join(", ")));
    Ok(())
}

/// The preflight of a run judges the nodes of that run; those that run already count as well.
async fn has_memory(
    runtime: &dyn Runtime,
    spec: &ClusterSpec,
    starting: &[NodeSpec],
) -> Result<(), BoxError> {
    let (info, containers) = tokio::try_join!(runtime.info(), runtime.list(Some(spec.name.as_str())))?;
    let runs = |node: &NodeSpec| {
        let name = node_name(&spec.name, &node.name());
        containers.iter().any(|container| container.name == name && container.status == Status::Running)
    };
    let nodes = spec.nodes.iter().filter(|node| starting.contains(node) || runs(node));
    match preflight::memory(spec, nodes, &info) {
        None => Ok(()),
        Some(problem) => Err(PreflightError(vec![problem]).into()),
    }
}

fn one<'a>(spec: &'a ClusterSpec, name: &str) -> Result<&'a NodeSpec, MachineError> {
    spec.nodes.iter().find(|node| node.name() == name).ok_or_else(|| unknown(spec, &[name]))
}

fn named(spec: &ClusterSpec, names: &[String]) -> Result<Vec<NodeSpec>, MachineError> {
    let missing: Vec<_> = names.iter().map(String::as_str).filter(|name| one(spec, name).is_err()).collect();
    if !missing.is_empty() {
        return Err(unknown(spec, &missing));
    }
    Ok(spec.nodes.iter().filter(|node| names.contains(&node.name())).cloned().collect())
}

fn unknown(spec: &ClusterSpec, names: &[&str]) -> MachineError {
    let have: Vec<_> = spec.nodes.iter().map(NodeSpec::name).collect();
    let have = if have.is_empty() { "none".to_owned() } else { have.join(", ") };
    MachineError::Unknown { cluster: spec.name.clone(), names: names.join(", "), have }
}
