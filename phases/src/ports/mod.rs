//! The outside world, as small traits. The real ones are in the `hoist` crate; the fakes of the
//! tests can fail on demand and log what was asked of them.

mod kube;
mod runtime;
mod store;
mod timed;

use std::sync::Arc;

pub use kube::{Applied, Eviction, KubeApi, KubeError};
pub use runtime::{
    ContainerPort, ContainerSpec, ContainerState, DeviceRule, EngineInfo, ExecOutput, FileEntry, Mount,
    MountKind, Network, Program, PublishedPort, Runtime, RuntimeError, Status, label,
};
pub use store::{Files, Store, StoreError};

use crate::engine::Events;
use timed::Timed;

/// Everything a phase may touch.
#[derive(Clone)]
pub struct Ports {
    pub runtime: Arc<dyn Runtime>,
    pub store: Arc<dyn Store>,
    pub connect: Arc<dyn KubeConnect>,
}

impl Ports {
    /// The same, each call to engine and API told as an [`Event::Call`](crate::events::Event::Call).
    #[must_use]
    pub fn timed(self, events: &Events) -> Self {
        Self {
            runtime: Arc::new(Timed::new(self.runtime, events)),
            store: self.store,
            connect: Arc::new(Timed::new(self.connect, events)),
        }
    }
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ports")
    }
}

/// Makes a client of the cluster's API from a kubeconfig; the address is known only once the
/// engine has published it.
#[async_trait::async_trait]
pub trait KubeConnect: Send + Sync {
    /// # Errors
    /// When the kubeconfig can't be used; whether a server answers is not tried.
    async fn connect(&self, kubeconfig: &str) -> Result<Arc<dyn KubeApi>, KubeError>;
}
