use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A program of the control plane that runs in a container of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Component {
    /// The do-nothing container whose network namespace all others share.
    #[serde(rename = "owner")]
    Owner,
    #[serde(rename = "dnsmasq")]
    Dnsmasq,
    #[serde(rename = "etcd")]
    Etcd,
    /// In etcd's place with [`super::Backend::Kine`].
    #[serde(rename = "kine")]
    Kine,
    #[serde(rename = "kube-apiserver")]
    ApiServer,
    #[serde(rename = "kube-controller-manager")]
    ControllerManager,
    #[serde(rename = "kube-scheduler")]
    Scheduler,
    /// The control plane's end of konnectivity; only there with [`super::Reach::Konnectivity`].
    #[serde(rename = "konnectivity-server")]
    Konnectivity,
    /// Only there when it is asked for ([`super::Registry`]).
    #[serde(rename = "registry")]
    Registry,
    /// What follows the nodes once `up` has returned: routes, roles, spreading.
    #[serde(rename = "steward")]
    Steward,
}

impl Component {
    /// In start order; removal goes the other way.
    pub const ALL: [Self; 10] = [
        Self::Owner,
        Self::Dnsmasq,
        Self::Etcd,
        Self::Kine,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Konnectivity,
        Self::Registry,
        Self::Steward,
    ];

    /// Whether it is part of each cluster, whatever its settings ([`super::ClusterSpec::runs`]).
    pub fn is_in_every_cluster(self) -> bool {
        !matches!(self, Self::Etcd | Self::Kine | Self::Konnectivity | Self::Registry)
    }

    /// Whether it is of the cluster's Kubernetes version.
    pub fn is_kubernetes(self) -> bool {
        matches!(self, Self::ApiServer | Self::ControllerManager | Self::Scheduler)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Dnsmasq => "dnsmasq",
            Self::Etcd => "etcd",
            Self::Kine => "kine",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Konnectivity => "konnectivity-server",
            Self::Registry => "registry",
            Self::Steward => "steward",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Settings of one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentSpec {
    pub component: Component,
    /// Flags without their dashes; they replace hoist's own of the same name, lists of names excepted
    /// ([`crate::phases::flags`]). A flag that is given more than once has a value a line.
    #[serde(default)]
    pub extra_args: BTreeMap<String, String>,
    /// Memory limit in bytes, swap excluded.
    pub memory_bytes: u64,
    /// CPU limit in thousandths of a core.
    pub cpu_millis: u32,
}

impl ComponentSpec {
    /// The value of a flag of the user's: the last one, as components take it of those that are no lists.
    pub fn arg(&self, flag: &str) -> Option<&str> {
        self.extra_args.get(flag).map(|value| value.lines().last().unwrap_or_default())
    }

    /// Limits far above what an idle cluster takes: they stop a runaway, they don't save memory.
    pub fn default_for(component: Component) -> Self {
        const MIB: u64 = 1 << 20;
        let (memory_mib, cpu_millis) = match component {
            Component::Owner => (32, 500),
            Component::Dnsmasq => (128, 1000),
            // The tmpfs pages of the data volume are charged to the store on top of its heap.
            Component::Etcd | Component::Kine => (3072, 8000),
            Component::ApiServer => (4096, 16000),
            Component::ControllerManager | Component::Scheduler => (2048, 8000),
            Component::Konnectivity => (1024, 4000),
            // The page cache of what is pushed counts too.
            Component::Registry => (1024, 4000),
            Component::Steward => (256, 1000),
        };
        Self { component, extra_args: BTreeMap::new(), memory_bytes: memory_mib * MIB, cpu_millis }
    }
}
