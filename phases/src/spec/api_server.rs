use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Secret;
use super::networking::API_PORT;

/// What kube-apiserver is started with beyond its flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServerSpec {
    /// Where it listens in the shared namespace.
    #[serde(default = "default_port")]
    pub port: u16,
    /// Admission plugins turned on besides Kubernetes' defaults and NodeRestriction.
    pub admission_plugins: Vec<String>,
    /// An AdmissionConfiguration (apiserver.config.k8s.io/v1), as YAML.
    pub admission_config: Option<String>,
    pub audit: Option<AuditSpec>,
    /// An AuthenticationConfiguration (apiserver.config.k8s.io/v1), as YAML: OIDC and the like.
    #[serde(default)]
    pub authentication_config: Option<String>,
    /// An EncryptionConfiguration (apiserver.config.k8s.io/v1), as YAML, with its keys.
    #[serde(default)]
    pub encryption_config: Option<Secret>,
    /// API groups, versions and resources turned on or off, such as `api/beta`.
    #[serde(default)]
    pub runtime_config: BTreeMap<String, bool>,
}

fn default_port() -> u16 {
    API_PORT
}

impl Default for ApiServerSpec {
    fn default() -> Self {
        Self {
            port: API_PORT,
            admission_plugins: Vec::new(),
            admission_config: None,
            audit: None,
            authentication_config: None,
            encryption_config: None,
            runtime_config: BTreeMap::new(),
        }
    }
}

/// What the API server writes down of the requests it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditSpec {
    /// A Policy (audit.k8s.io/v1), as YAML.
    pub policy: String,
    /// Size at which the log is rotated, in MiB.
    pub log_max_size_mib: u32,
    /// Rotated files kept.
    pub log_max_backups: u32,
}

impl AuditSpec {
    /// Where the log is in kube-apiserver's container, and on the nodes of kubevirtci.
    pub const LOG: &'static str = "/var/log/k8s-audit/k8s-audit.log";

    /// A log that can't fill the engine's disk.
    pub fn new(policy: impl Into<String>) -> Self {
        Self { policy: policy.into(), log_max_size_mib: 100, log_max_backups: 2 }
    }
}
