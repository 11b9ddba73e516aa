//! `hoist pause` and `hoist resume`.

use hoist_phases::ports::{Runtime as _, Status};

use super::args::{Global, ResumeArgs};
use super::session::{self, Session, SessionError};
use crate::cluster::pause;
use crate::cluster::ready::{self, Level, Target};
use crate::error::BoxError;
use crate::{config, report};

pub(super) async fn pause(global: &Global) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let engine = session::engine().await?;
    if !session::has_containers(&engine, &session.name).await? {
        return Err(SessionError::NoCluster(session.name).into());
    }
    // After the question whether there is such a cluster: the lock makes its directory.
    let _lock = session.state.lock()?;
    let frozen = pause::pause(engine.as_ref(), session.name.as_str()).await?;
    report::tell(match frozen {
        0 => format!("nothing of cluster {} runs", session.name),
        count => format!("paused cluster {} ({count} containers)", session.name),
    });
    Ok(())
}

/// Returns when the API server is ready and all nodes are.
pub(super) async fn resume(global: &Global, args: &ResumeArgs) -> Result<(), BoxError> {
    let timeout = config::time_limit("--timeout", &args.timeout)?;
    let session = Session::new(global)?;
    let engine = session::engine().await?;
    let containers = engine.list(Some(session.name.as_str())).await?;
    if containers.is_empty() {
        return Err(SessionError::NoCluster(session.name).into());
    }
    let _lock = session.state.lock()?;
    if !containers.iter().any(|container| container.status == Status::Paused) {
        report::tell(format_args!("cluster {} is not paused", session.name));
        return Ok(());
    }
    let count = pause::resume(engine.as_ref(), session.name.as_str()).await?;
    let (spec, admin) = (session.spec()?, session.kubeconfig()?);
    let level = if spec.nodes.is_empty() { Level::Api } else { Level::Nodes };
    let target = Target::new(&spec, engine.as_ref(), &admin)?;
    ready::wait(&target, level, timeout, |_, _| {}).await?;
    report::tell(format_args!("resumed cluster {} ({count} containers)", session.name));
    Ok(())
}
