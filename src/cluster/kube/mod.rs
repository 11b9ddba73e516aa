//! The Kubernetes API over the `kube` crate's client.
//!
//! Objects are plain JSON values here: what hoist applies is typed where it is made, and what it
//! reads it reads by field. Requests go out once; whether a failure is worth another try is the
//! caller's to say ([`KubeError::is_transient`]).

mod access;
mod api;
mod contained;
mod request;
mod resource;
mod server_side;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use hoist_phases::ports::{KubeApi, KubeConnect, KubeError};

pub use access::{Access, AccessError};
pub use api::Api;
pub use resource::{KINDS, Resource};

/// Makes API clients from kubeconfigs. TLS is always verified, and no proxy variable of the
/// environment is heeded: the API server is on this host or on the engine's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Connector;

#[async_trait]
impl KubeConnect for Connector {
    async fn connect(&self, kubeconfig: &str) -> Result<Arc<dyn KubeApi>, KubeError> {
        Ok(Arc::new(Access::from_kubeconfig(kubeconfig)?.connect()?))
    }
}
