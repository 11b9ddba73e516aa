use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Family, KubernetesVersion};

/// Highest node number: addresses are 192.168.66.1NN and MACs end in the two decimal digits.
pub const MAX_NODE_NUMBER: u8 = 99;

/// What a node runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// systemd, containerd and kubelet in a container of the engine, a veth on br0.
    Container,
    /// A virtual machine: qemu in a container of the engine, a tap on br0.
    Vm(VmSize),
}

impl NodeKind {
    /// As it is written in flags and listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Vm(_) => "vm",
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How large a virtual machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmSize {
    pub cpus: u16,
    pub memory_mib: u32,
    /// Size of the disk as the guest sees it; what the guest doesn't write takes no space.
    pub disk_gib: u32,
}

impl Default for VmSize {
    /// kubeadm asks for two processors and 1700 MB of a control-plane node; a worker does with that.
    fn default() -> Self {
        Self { cpus: 2, memory_mib: 2048, disk_gib: 20 }
    }
}

/// Least that a guest boots and joins with.
const MIN_MEMORY_MIB: u32 = 768;

/// Least that holds the image and a few pods.
const MIN_DISK_GIB: u32 = 4;

/// One node that hoist starts and joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpec {
    number: u8,
    pub kind: NodeKind,
    /// The engine's image that its machine is made from; hoist's own of the cluster's version when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Of that image of hoist's own, when the cluster has been upgraded since: the machine stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<KubernetesVersion>,
    /// What its Node is labelled with as it joins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What its Node is tainted with as it joins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// A taint as in a Node (core/v1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NodeError {
    #[error("node number {0}: must be between 1 and {MAX_NODE_NUMBER}")]
    Number(u32),
    #[error("nodes[].vm.{field} {value}: must be at least {min}")]
    TooSmall { field: &'static str, value: u32, min: u32 },
}

impl VmSize {
    /// Checks a size.
    ///
    /// # Errors
    /// Names the field that is too small for a node to boot and join with.
    pub fn checked(self) -> Result<Self, NodeError> {
        let rules = [
            ("cpus", u32::from(self.cpus), 1),
            ("memory", self.memory_mib, MIN_MEMORY_MIB),
            ("disk", self.disk_gib, MIN_DISK_GIB),
        ];
        match rules.into_iter().find(|(_, value, min)| value < min) {
            Some((field, value, min)) => Err(NodeError::TooSmall { field, value, min }),
            None => Ok(self),
        }
    }
}

impl NodeSpec {
    /// # Errors
    /// When the number is outside 1 to [`MAX_NODE_NUMBER`].
    pub fn new(number: u32, kind: NodeKind) -> Result<Self, NodeError> {
        match u8::try_from(number) {
            Ok(small @ 1..=MAX_NODE_NUMBER) => Ok(Self {
                number: small,
                kind,
                image: None,
                version: None,
                labels: BTreeMap::new(),
                taints: Vec::new(),
            }),
            _ => Err(NodeError::Number(number)),
        }
    }

    /// The same with an image other than hoist's own.
    #[must_use]
    pub fn with_image(self, image: Option<String>) -> Self {
        Self { image, ..self }
    }

    /// The same with labels and taints of its Node.
    #[must_use]
    pub fn with_marks(self, labels: BTreeMap<String, String>, taints: Vec<Taint>) -> Self {
        Self { labels, taints, ..self }
    }

    pub fn number(&self) -> u8 {
        self.number
    }

    /// `node01` to `node99`: host name, Kubernetes Node name and DHCP name.
    pub fn name(&self) -> String {
        format!("node{:02}", self.number)
    }

    /// On br0.
    pub fn address(&self, family: Family) -> IpAddr {
        family.node(self.number)
    }

    /// kubevirtci's scheme: the last octet is the node number written in decimal digits.
    pub fn mac(&self) -> String {
        format!("52:55:00:d1:55:{:02}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_follows_the_number() {
        let identity = |n| {
            let node = NodeSpec::new(n, NodeKind::Container)?;
            let addresses = Family::ALL.map(|family| node.address(family).to_string());
            Ok((node.name(), addresses, node.mac()))
        };
        let seven = ["192.168.66.107", "fd00::107"].map(str::to_owned);
        assert_eq!(identity(7), Ok(("node07".into(), seven, "52:55:00:d1:55:07".into())));
        assert_eq!(identity(0), Err(NodeError::Number(0)));
        assert_eq!(identity(100), Err(NodeError::Number(100)));
    }
}
