use serde::{Deserialize, Serialize};

/// How the API server reaches what runs on nodes: pods behind webhooks and aggregated APIs, and,
/// where a node's own address can't be dialled, its kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// A route to each node's pod range in the shared namespace, by the steward.
    #[default]
    Routes,
    /// Through agents on the nodes, which dial the control plane themselves.
    Konnectivity,
    /// Nodes are reached on their network, pods are not.
    None,
}

impl Reach {
    pub const ALL: [Self; 3] = [Self::Routes, Self::Konnectivity, Self::None];

    /// As it is written in flags and the configuration file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Konnectivity => "konnectivity",
            Self::None => "none",
        }
    }
}
