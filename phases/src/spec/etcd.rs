use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Component, Secret};

/// Where the objects of the API are kept, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdSpec {
    /// Of clusters made before it had this field: an etcd of the cluster's own.
    #[serde(default)]
    pub backend: Backend,
    /// `true` keeps data on disk; `false` (throw-away) keeps it in a tmpfs. Not used when external.
    pub durable: bool,
    /// Whether the store waits until its data is on the disk; as durable as the data when absent.
    #[serde(default)]
    pub fsync: Option<bool>,
    /// Size of the tmpfs in bytes; not used when durable.
    pub tmpfs_bytes: u64,
    /// etcd's own limit of its database in bytes; in a tmpfs below its size, so that etcd refuses
    /// writes before the file system is full (etcd raises NOSPACE, it does not die). kine has none.
    pub quota_bytes: u64,
}

/// What serves etcd's protocol to the API server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A single member of the cluster's own.
    #[default]
    Etcd,
    /// kine on SQLite, of the cluster's own.
    Kine,
    /// Somebody else's etcd.
    External(ExternalEtcd),
}

/// An etcd that is there already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalEtcd {
    /// `https://HOST:PORT` each.
    pub endpoints: Vec<String>,
    /// Keys of this cluster begin with it; two clusters in one etcd need two.
    pub prefix: String,
    /// PEM of what signed the servers' certificates.
    pub ca: String,
    /// PEM of the client's certificate.
    pub cert: String,
    /// PEM of its key.
    pub key: Secret,
}

impl Backend {
    /// As it is written in flags and the configuration file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kine => "kine",
            Self::External(_) => "external",
        }
    }

    /// The component that it is; none when it is somebody else's.
    pub fn component(&self) -> Option<Component> {
        match self {
            Self::Etcd => Some(Component::Etcd),
            Self::Kine => Some(Component::Kine),
            Self::External(_) => None,
        }
    }

    pub fn external(&self) -> Option<&ExternalEtcd> {
        match self {
            Self::External(external) => Some(external),
            Self::Etcd | Self::Kine => None,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl EtcdSpec {
    /// Whether the store calls fsync.
    pub fn syncs(&self) -> bool {
        self.fsync.unwrap_or(self.durable)
    }

    /// Size in bytes of the tmpfs that holds the data; 0 when it is elsewhere.
    pub fn in_memory(&self) -> u64 {
        if self.durable || self.backend.component().is_none() { 0 } else { self.tmpfs_bytes }
    }

    /// Quota in bytes of a durable etcd that is given none: etcd's own default.
    pub const DURABLE_QUOTA: u64 = 2 << 30;
}

impl Default for EtcdSpec {
    fn default() -> Self {
        Self {
            backend: Backend::Etcd,
            durable: false,
            fsync: None,
            tmpfs_bytes: 1 << 30,
            quota_bytes: 768 << 20,
        }
    }
}
