//! `hoist down`.

use super::args::Global;
use super::session::{self, Session};
use crate::cluster::down::{down, down_but_state};
use crate::error::BoxError;
use crate::report;

pub(super) async fn run(global: &Global, cluster: Option<String>) -> Result<(), BoxError> {
    let named = Global { name: cluster.or_else(|| global.name.clone()), ..global.clone() };
    let session = Session::new(&named)?;
    let _lock = session.state.lock()?;
    let engine = session::engine().await?;
    let merged = crate::kubeconfig::unmerge_if_merged(&session.state, &session.name);
    // The state directory notes which kubeconfig it was: another `down` then finishes.
    let removal = match &merged {
        Ok(_) => down(engine.as_ref(), &session.state).await?,
        Err(_) => down_but_state(engine.as_ref(), &session.state).await?,
    };
    let removed = removal.into_result()?;
    if merged? {
        report::tell("took the cluster out of your kubeconfig");
    }
    if removed.is_empty() {
        report::tell(format_args!("there is no cluster {}", session.name));
    } else {
        report::tell(format_args!("removed cluster {} ({} things)", session.name, removed.len()));
    }
    Ok(())
}
