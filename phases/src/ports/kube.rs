use async_trait::async_trait;
use serde_json::Value;

use crate::object::{Object, ObjectRef};

/// What became of an object that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    Created,
    Updated,
    Unchanged,
    /// It exists and isn't ours: left alone.
    Foreign,
}

/// The answer to a request for an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eviction {
    Granted,
    /// A disruption budget forbids it for now; the server's words.
    Blocked(String),
}

#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    #[error("kubeconfig can't be used")]
    Config(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing listens, or the connection broke: worth another try.
    #[error("{operation} {object}: the API server can't be reached")]
    Unreachable {
        operation: &'static str,
        object: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{operation} {object}: {code} {message}")]
    Status { operation: &'static str, object: String, code: u16, message: String },
    #[error("{operation} {object}")]
    Other {
        operation: &'static str,
        object: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl KubeError {
    /// Whether the same request may succeed a moment later while an API server starts.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status { code, .. } => matches!(code, 429 | 500 | 502 | 503 | 504),
            Self::Config(_) | Self::Other { .. } => false,
        }
    }
}

/// The Kubernetes API as the phases need it.
#[async_trait]
pub trait KubeApi: Send + Sync {
    /// Status code and body of a plain GET of a path such as `/readyz?verbose`.
    async fn get_path(&self, path: &str) -> Result<(u16, String), KubeError>;

    /// `None` when there is no such object.
    async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, KubeError>;

    /// All objects of a kind, in all namespaces, optionally of a label selector.
    async fn list(
        &self,
        api_version: &str,
        kind: &str,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, KubeError>;

    /// Makes the object as given, unless an object of that name carries the same content hash
    /// already ([`crate::object`]) or isn't hoist's.
    async fn apply(&self, object: &Object) -> Result<Applied, KubeError>;

    /// Creates an object with a name of the server's choice (`generateName`) and returns it.
    async fn create(&self, object: &Value) -> Result<Value, KubeError>;

    /// Merges a patch (RFC 7396) into an object.
    async fn merge_patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, KubeError>;

    /// Succeeds when the object is gone already.
    async fn delete(&self, object: &ObjectRef) -> Result<(), KubeError>;

    /// Asks for a pod's end with its disruption budgets respected (policy/v1 Eviction); granted
    /// too when there is no such pod.
    async fn evict(&self, namespace: &str, pod: &str) -> Result<Eviction, KubeError>;
}
