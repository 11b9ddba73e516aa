use serde::{Deserialize, Serialize};

/// Where the cluster's registry listens in the shared namespace.
pub const REGISTRY_PORT: u16 = 5000;

/// Name that nodes and pods resolve to it.
pub const REGISTRY_HOST: &str = "registry";

/// A registry of the cluster's own, for images that its nodes pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Registry {
    /// Of 127.0.0.1 of the engine's host; 0 is a number of the engine's choice.
    pub port: u16,
}
