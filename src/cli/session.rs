//! What most commands need first: the name, the engine, the state directory.

use std::sync::Arc;

use hoist_phases::ports::{Runtime as _, Store as _};
use hoist_phases::spec::{ClusterName, ClusterSpec};

use super::args::Global;
use crate::error::BoxError;
use crate::runtime::Engine;
use crate::store::{StateDir, StateError, StateRoot};

/// Relative path of the admin's kubeconfig in the state directory.
pub(super) const KUBECONFIG: &str = "kubeconfig";

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("there is no cluster {0}")]
    NoCluster(ClusterName),
    #[error("cluster {0} has no kubeconfig yet")]
    NoKubeconfig(ClusterName),
    #[error("kubeconfig of cluster {0}: is not text in UTF-8")]
    Encoding(ClusterName),
    #[error("containers of a cluster {name} are there, but its keys in {path} are not")]
    Orphan { name: ClusterName, path: String },
}

/// One cluster by name, whether or not it is there.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) name: ClusterName,
    pub(super) state: StateDir,
}

impl Session {
    pub(super) fn new(global: &Global) -> Result<Self, BoxError> {
        Self::named(crate::config::name(global, None)?)
    }

    pub(super) fn named(name: ClusterName) -> Result<Self, BoxError> {
        let state = StateRoot::from_environment()?.cluster(&name);
        Ok(Self { name, state })
    }

    /// The specification the cluster was made with.
    pub(super) fn spec(&self) -> Result<ClusterSpec, BoxError> {
        match self.state.read_spec() {
            Err(StateError::Absent { .. }) => Err(SessionError::NoCluster(self.name.clone()).into()),
            other => Ok(other?),
        }
    }

    /// The same when a cluster may be absent.
    pub(super) fn spec_if_any(&self) -> Result<Option<ClusterSpec>, StateError> {
        match self.state.read_spec() {
            Ok(spec) => Ok(Some(spec)),
            Err(StateError::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The admin's kubeconfig.
    pub(super) fn kubeconfig(&self) -> Result<String, BoxError> {
        if !self.state.exists() {
            return Err(SessionError::NoCluster(self.name.clone()).into());
        }
        let content =
            self.state.read(KUBECONFIG)?.ok_or_else(|| SessionError::NoKubeconfig(self.name.clone()))?;
        String::from_utf8(content).map_err(|_| SessionError::Encoding(self.name.clone()).into())
    }
}

/// The engine, found by the environment.
pub(super) async fn engine() -> Result<Arc<Engine>, BoxError> {
    Ok(Arc::new(Engine::connect().await?))
}

/// Whether the engine has anything of a cluster.
pub(super) async fn has_containers(engine: &Engine, name: &ClusterName) -> Result<bool, BoxError> {
    Ok(!engine.list(Some(name.as_str())).await?.is_empty())
}
