//! The resolved description of one cluster: every default filled in, every value checked.
//!
//! A [`ClusterSpec`] is the only input of the phases. It is built once, from the configuration
//! file and flags, by `hoist`'s config module, and kept in the state directory.

mod addon;
mod api_server;
mod component;
mod duration;
mod endpoint;
mod etcd;
mod family;
mod minors;
mod name;
pub mod networking;
mod node;
mod owner;
mod placement;
mod port;
mod proxy;
mod reach;
mod registry;
mod secret;
mod subnets;
mod token;
mod version;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::phases::PhaseId;

pub use addon::Addon;
pub use api_server::{ApiServerSpec, AuditSpec};
pub use component::{Component, ComponentSpec};
pub use duration::TokenTtl;
pub use endpoint::Endpoint;
pub use etcd::{Backend, EtcdSpec, ExternalEtcd};
pub use family::Family;
pub use minors::{KUBEADM_API, MINORS, Minor, MutatingPolicies};
pub use name::{ClusterName, NameError};
pub use networking::{Networking, NetworkingError};
pub use node::{MAX_NODE_NUMBER, NodeError, NodeKind, NodeSpec, Taint, VmSize};
pub use owner::{Attach, Owner};
pub use placement::{
    ELSEWHERE, ELSEWHERE_LABEL, Placement, PlacementPolicy, ROLE_LABEL_PREFIX, RoleNodes, RoleRule, Spread,
    Toleration,
};
pub use port::{FIRST_MAPPED, MAX_MAPPINGS, PortMapping, Protocol, mapped, same_socket};
pub use proxy::{Proxy, without_user};
pub use reach::Reach;
pub use registry::{REGISTRY_HOST, REGISTRY_PORT, Registry};
pub use secret::Secret;
pub use subnets::{Subnets, SubnetsError};
pub use token::{BootstrapToken, TokenError};
pub use version::{KubernetesVersion, VersionError};

/// One cluster, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    pub name: ClusterName,
    /// Whose network namespace the components share.
    #[serde(default)]
    pub owner: Owner,
    pub kubernetes: KubernetesVersion,
    /// Images that stayed as they were when the cluster was upgraded: their versions, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, KubernetesVersion>,
    pub networking: Networking,
    /// Where machines elsewhere reach the control plane; nobody but its own nodes does without.
    #[serde(default)]
    pub control_plane_endpoint: Option<Endpoint>,
    /// Where on the engine's host the API port is published; on loopback when nothing is said, and
    /// port 0 leaves the choice to the engine.
    #[serde(default)]
    pub listen_address: Option<SocketAddr>,
    /// Ports of the engine's host that lead to ports of the nodes.
    #[serde(default)]
    pub ports: Vec<PortMapping>,
    /// A registry of the cluster's own; none unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
    #[serde(default, skip_serializing_if = "Proxy::is_none")]
    pub proxy: Proxy,
    /// Where nodes ask for the images of a registry first, by the name of the registry: URLs, in order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Names and addresses, beyond those hoist knows, that the API server's certificate is valid for.
    pub extra_sans: Vec<String>,
    pub token: BootstrapToken,
    pub token_ttl: TokenTtl,
    pub etcd: EtcdSpec,
    #[serde(default)]
    pub api_server: ApiServerSpec,
    /// A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as YAML.
    #[serde(default)]
    pub scheduler_config: Option<String>,
    /// Turned on or off in every component and on every node.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, bool>,
    /// Fields of the KubeletConfiguration that nodes read when they join, over hoist's.
    #[serde(default)]
    pub kubelet_config: serde_json::Map<String, serde_json::Value>,
    pub cni: Cni,
    pub kube_proxy: KubeProxyMode,
    /// Fields of the KubeProxyConfiguration, over hoist's.
    #[serde(default)]
    pub kube_proxy_config: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    pub reach: Reach,
    /// Of clusters made before it had this field: as of a new one.
    #[serde(default)]
    pub placement: Placement,
    pub components: Vec<ComponentSpec>,
    pub nodes: Vec<NodeSpec>,
    /// In order.
    #[serde(default)]
    pub addons: Vec<Addon>,
    /// Phases that no run of this cluster does.
    #[serde(default)]
    pub skip_phases: Vec<PhaseId>,
}

impl ClusterSpec {
    /// Host name of the control plane, and etcd's name of its member.
    pub fn host_name(&self) -> String {
        format!("hoist-{}", self.name)
    }

    /// The value of the components' flag `--feature-gates`.
    pub fn feature_gates_flag(&self) -> Option<String> {
        let gates = self.feature_gates.iter().map(|(gate, on)| format!("{gate}={on}"));
        (!self.feature_gates.is_empty()).then(|| gates.collect::<Vec<_>>().join(","))
    }

    /// Whether a component is part of this cluster.
    pub fn runs(&self, component: Component) -> bool {
        match component {
            Component::Etcd | Component::Kine => self.etcd.backend.component() == Some(component),
            Component::Konnectivity => self.reach == Reach::Konnectivity,
            Component::Registry => self.registry.is_some(),
            _ => true,
        }
    }

    /// The settings of one component; every component has an entry once a spec is resolved.
    pub fn component(&self, component: Component) -> ComponentSpec {
        self.components
            .iter()
            .find(|entry| entry.component == component)
            .cloned()
            .unwrap_or_else(|| ComponentSpec::default_for(component))
    }
}

/// The pod network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cni {
    /// hoist's default, see docs/decisions.
    #[default]
    KubeRouter,
    /// The user installs one; nodes stay NotReady until then.
    None,
    /// The user's own manifest, read when the configuration was resolved.
    Manifest { origin: String, yaml: String },
}

/// How kube-proxy programs Services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KubeProxyMode {
    #[default]
    Nftables,
    Iptables,
}

impl KubeProxyMode {
    /// The value of `mode` in a KubeProxyConfiguration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }
}

/// The default cluster with one container node, for tests.
#[cfg(test)]
pub(crate) fn test_spec() -> ClusterSpec {
    #[expect(clippy::unwrap_used, reason = "a test that has no spec can't go on")]
    ClusterSpec {
        name: ClusterName::new("sample").unwrap(),
        owner: Owner::Own,
        kubernetes: KubernetesVersion::DEFAULT,
        held: BTreeMap::new(),
        networking: Networking::default(),
        control_plane_endpoint: None,
        listen_address: None,
        ports: Vec::new(),
        registry: None,
        proxy: Proxy::default(),
        mirrors: BTreeMap::new(),
        extra_sans: Vec::new(),
        token: BootstrapToken::parse("abcdef.0123456789abcdef").unwrap(),
        token_ttl: TokenTtl::default(),
        etcd: EtcdSpec::default(),
        api_server: ApiServerSpec::default(),
        scheduler_config: None,
        feature_gates: BTreeMap::new(),
        kubelet_config: serde_json::Map::new(),
        cni: Cni::KubeRouter,
        kube_proxy: KubeProxyMode::Nftables,
        kube_proxy_config: serde_json::Map::new(),
        reach: Reach::Routes,
        placement: Placement::default(),
        components: Component::ALL.map(ComponentSpec::default_for).to_vec(),
        nodes: vec![NodeSpec::new(1, NodeKind::Container).unwrap()],
        addons: Vec::new(),
        skip_phases: Vec::new(),
    }
}
