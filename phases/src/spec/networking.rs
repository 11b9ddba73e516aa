use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::subnets::{family, nth};
use super::{Family, Subnets};

/// Where the API server listens in the shared namespace.
pub const API_PORT: u16 = 6443;

/// kubeadm and, for IPv6, kube-controller-manager hand out at most 2^16 nodes' ranges.
const MAX_NODE_BITS: u8 = 16;

/// Two nodes must fit.
const MIN_NODE_BITS: u8 = 1;

/// The cluster DNS address is the tenth of a service subnet.
const MIN_SERVICE_BITS: u8 = 4;

/// Largest service subnet that kube-apiserver accepts (`--service-cluster-ip-range`).
const MAX_SERVICE_BITS: u8 = 20;

/// Widest pod subnet: anything wider is no range for one cluster.
const MIN_POD_PREFIX: u8 = 8;

/// Default ranges of pods: 256 nodes each.
pub const DEFAULT_PODS: (Ipv4Net, Ipv6Net) = (
    Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd10, 0x244, 0, 0, 0, 0, 0, 0), 56),
);

/// Default ranges of services.
pub const DEFAULT_SERVICES: (Ipv4Net, Ipv6Net) = (
    Ipv4Net::new_assert(Ipv4Addr::new(10, 96, 0, 0), 12),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd10, 0x96, 0, 0, 0, 0, 0, 0), 112),
);

/// Ranges whose addresses never leave a machine or its link, or name many (RFC 6890, RFC 5771).
const UNUSABLE: [(&str, IpNet); 7] = [
    ("unspecified addresses", v4([0, 0, 0, 0], 8)),
    ("loopback addresses", v4([127, 0, 0, 0], 8)),
    ("link-local addresses", v4([169, 254, 0, 0], 16)),
    ("multicast addresses", v4([224, 0, 0, 0], 4)),
    // Loopback, the unspecified address and IPv4 in disguise.
    ("addresses with a meaning of their own", v6(0, 8)),
    ("link-local addresses", v6(0xfe80, 10)),
    ("multicast addresses", v6(0xff00, 8)),
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(first: u16, prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), prefix))
}

/// Address ranges inside the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Networking {
    pub pod_subnet: Subnets,
    pub service_subnet: Subnets,
    /// Prefix length of the range each node's pods get, of the families in use.
    #[serde(default = "default_node_mask_size_ipv4")]
    pub node_mask_size_ipv4: u8,
    #[serde(default = "default_node_mask_size_ipv6")]
    pub node_mask_size_ipv6: u8,
    pub dns_domain: String,
    /// Of br0 and everything on it, in bytes; that of the engine's network when absent.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// Names that nodes and pods resolve beside those of the cluster.
    #[serde(default)]
    pub dns_records: BTreeMap<String, Vec<IpAddr>>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NetworkingError {
    #[error("{field} {net}: overlaps {other_name} {other}")]
    Overlap { field: &'static str, net: IpNet, other_name: String, other: IpNet },
    #[error(
        "{field} {net}: {what} ({range}) can't be routed between nodes; take a private range such as {example}"
    )]
    Unusable { field: &'static str, net: IpNet, what: &'static str, range: IpNet, example: &'static str },
    #[error("networking.serviceSubnet {net}: the prefix must be between /{min} and /{max}")]
    ServicePrefix { net: IpNet, min: u8, max: u8 },
    #[error(
        "networking.podSubnet {net}: the prefix must be between /{min} and /{max}, since each node gets a /{size} \
         of it (networking.nodeMaskSize{family})",
        family = family_field(*.net)
    )]
    PodPrefix { net: IpNet, size: u8, min: u8, max: u8 },
    #[error("networking.nodeMaskSize{} {size}: must be between {min} and {max}", family_field(*.net))]
    NodeMask { net: IpNet, size: u8, min: u8, max: u8 },
    #[error(
        "networking.serviceSubnet {services}: must have the families of networking.podSubnet {pods}, in the same \
         order; --ip-family chooses fitting ranges for both"
    )]
    Families { pods: Subnets, services: Subnets },
    #[error("networking.dnsDomain {0:?}: must be a DNS name such as cluster.local")]
    DnsDomain(String),
}

fn default_node_mask_size_ipv4() -> u8 {
    24
}

fn default_node_mask_size_ipv6() -> u8 {
    64
}

/// The family as the fields of the configuration spell it.
fn family_field(net: IpNet) -> &'static str {
    match family(net) {
        Family::Ipv4 => "Ipv4",
        Family::Ipv6 => "Ipv6",
    }
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            pod_subnet: Subnets::single(DEFAULT_PODS.0.into()),
            service_subnet: Subnets::single(DEFAULT_SERVICES.0.into()),
            node_mask_size_ipv4: default_node_mask_size_ipv4(),
            node_mask_size_ipv6: default_node_mask_size_ipv6(),
            dns_domain: "cluster.local".to_owned(),
            mtu: None,
            dns_records: BTreeMap::new(),
        }
    }
}

impl Networking {
    /// In order; the first is the primary one.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        self.pod_subnet.families()
    }

    /// The family of the API server's own address, and of Services that ask for none.
    pub fn primary(&self) -> Family {
        family(self.pod_subnet.primary())
    }

    pub fn has(&self, family: Family) -> bool {
        self.families().any(|other| other == family)
    }

    /// The control plane's address on br0, which every node can reach.
    pub fn control_plane(&self) -> IpAddr {
        self.primary().control_plane()
    }

    /// Where nodes and pods reach the API server.
    pub fn api_endpoint(&self) -> SocketAddr {
        SocketAddr::new(self.control_plane(), API_PORT)
    }

    /// First address of each service subnet. The one of the primary family is the ClusterIP of the
    /// `kubernetes` Service (kubeadm `GetAPIServerVirtualIP`).
    pub fn kubernetes_services(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.service_subnet.iter().map(|net| nth(net, 1))
    }

    /// ClusterIP of the `kubernetes` Service.
    pub fn kubernetes_service(&self) -> IpAddr {
        nth(self.service_subnet.primary(), 1)
    }

    /// ClusterIPs of the cluster DNS, one a family: the tenth address (kubeadm `GetDNSIP`).
    pub fn dns_services(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.service_subnet.iter().map(|net| nth(net, 10))
    }

    /// The one of the primary family, which pods ask.
    pub fn dns_service(&self) -> IpAddr {
        nth(self.service_subnet.primary(), 10)
    }

    /// Prefix length of each node's own range.
    pub fn node_mask_size(&self, family: Family) -> u8 {
        match family {
            Family::Ipv4 => self.node_mask_size_ipv4,
            Family::Ipv6 => self.node_mask_size_ipv6,
        }
    }

    /// How many nodes the pod subnets have ranges for.
    pub fn node_ranges(&self) -> u64 {
        let ranges = self.pod_subnet.iter().map(|net| {
            let bits = self.node_mask_size(family(net)).saturating_sub(net.prefix_len());
            1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX)
        });
        ranges.min().unwrap_or_default()
    }

    /// Every rule these ranges break, among themselves and against `taken`: the named networks
    /// of the engine, which the control plane could no longer reach.
    pub fn problems(&self, taken: &[(String, IpNet)]) -> Vec<NetworkingError> {
        let mut problems = self.shape_problems();
        for (field, subnets) in
            [("networking.podSubnet", self.pod_subnet), ("networking.serviceSubnet", self.service_subnet)]
        {
            for net in subnets.iter() {
                problems.extend(unusable(field, net));
                let nodes = ("the node network".to_owned(), family(net).node_subnet());
                problems.extend(overlaps(field, net, taken.iter().chain([&nodes])));
            }
        }
        for family in self.families() {
            problems.extend(overlaps("the node network (fixed)", family.node_subnet(), taken));
        }
        let services: Vec<_> =
            self.service_subnet.iter().map(|net| ("serviceSubnet".to_owned(), net)).collect();
        for net in self.pod_subnet.iter() {
            problems.extend(overlaps("networking.podSubnet", net, &services));
        }
        if !is_dns_name(&self.dns_domain) {
            problems.push(NetworkingError::DnsDomain(self.dns_domain.clone()));
        }
        problems
    }

    /// Families and sizes.
    fn shape_problems(&self) -> Vec<NetworkingError> {
        let mut problems = Vec::new();
        if !self.pod_subnet.families().eq(self.service_subnet.families()) {
            let (pods, services) = (self.pod_subnet, self.service_subnet);
            problems.push(NetworkingError::Families { pods, services });
        }
        for net in self.pod_subnet.iter() {
            let family = family(net);
            let size = self.node_mask_size(family);
            // Room for some pods, and for two nodes in the widest subnet.
            let (min, max) = (MIN_POD_PREFIX + MIN_NODE_BITS, family.bits() - 4);
            if !(min..=max).contains(&size) {
                problems.push(NetworkingError::NodeMask { net, size, min, max });
                continue;
            }
            let min = size.saturating_sub(MAX_NODE_BITS).max(MIN_POD_PREFIX);
            let max = size - MIN_NODE_BITS;
            if !(min..=max).contains(&net.prefix_len()) {
                problems.push(NetworkingError::PodPrefix { net, size, min, max });
            }
        }
        for net in self.service_subnet.iter() {
            let bits = family(net).bits();
            let (min, max) = (bits - MAX_SERVICE_BITS, bits - MIN_SERVICE_BITS);
            if !(min..=max).contains(&net.prefix_len()) {
                problems.push(NetworkingError::ServicePrefix { net, min, max });
            }
        }
        problems
    }
}

fn unusable(field: &'static str, net: IpNet) -> Option<NetworkingError> {
    let (what, range) = UNUSABLE.into_iter().find(|(_, range)| share(net, *range))?;
    let example = match family(net) {
        Family::Ipv4 => "10.32.0.0/16",
        Family::Ipv6 => "fd32::/56",
    };
    Some(NetworkingError::Unusable { field, net, what, range, example })
}

/// Whether two ranges have an address in common.
fn share(a: IpNet, b: IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

fn overlaps<'a>(
    field: &'static str,
    net: IpNet,
    others: impl IntoIterator<Item = &'a (String, IpNet)>,
) -> impl Iterator<Item = NetworkingError> {
    let others = others.into_iter().filter(move |(_, other)| share(net, *other));
    others.map(move |(name, other)| NetworkingError::Overlap {
        field,
        net,
        other_name: name.clone(),
        other: *other,
    })
}

fn is_dns_name(name: &str) -> bool {
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && l.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
#[path = "networking_tests.rs"]
mod tests;
