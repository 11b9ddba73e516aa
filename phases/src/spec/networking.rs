use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// The network of the nodes: br0 in the shared namespace. Fixed, because every cluster has a
/// namespace of its own and kubevirtci's machines expect these addresses.
pub const NODE_SUBNET: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 66, 0), 24);

/// The address of the control plane, of dnsmasq and the nodes' gateway, on br0.
pub const CONTROL_PLANE_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 66, 2);

/// Where the API server listens in the shared namespace.
pub const API_PORT: u16 = 6443;

/// Smallest pod subnet: kube-controller-manager hands a /24 to each node, and two nodes must fit.
const MAX_POD_PREFIX: u8 = 23;

/// Smallest service subnet: the cluster DNS address is its tenth.
const MAX_SERVICE_PREFIX: u8 = 28;

/// Largest service subnet that kube-apiserver accepts (`--service-cluster-ip-range`: at most 20 bits).
const MIN_SERVICE_PREFIX: u8 = 12;

/// Address ranges inside the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Networking {
    pub pod_subnet: Ipv4Net,
    pub service_subnet: Ipv4Net,
    pub dns_domain: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NetworkingError {
    #[error("{field} {net}: overlaps {other_name} {other}")]
    Overlap { field: &'static str, net: Ipv4Net, other_name: String, other: Ipv4Net },
    #[error("{field} {net}: the prefix must be between /{min} and /{max}")]
    PrefixLength { field: &'static str, net: Ipv4Net, min: u8, max: u8 },
    #[error("networking.dnsDomain {0:?}: must be a DNS name such as cluster.local")]
    DnsDomain(String),
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            pod_subnet: Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16),
            service_subnet: Ipv4Net::new_assert(Ipv4Addr::new(10, 96, 0, 0), 12),
            dns_domain: "cluster.local".to_owned(),
        }
    }
}

impl Networking {
    /// Every rule these ranges break, among themselves and against `taken`: the named networks
    /// of the engine, which the control plane could no longer reach.
    pub fn problems(&self, taken: &[(String, Ipv4Net)]) -> Vec<NetworkingError> {
        let mut problems = Vec::new();
        let ranges = [
            ("networking.podSubnet", self.pod_subnet, 8, MAX_POD_PREFIX),
            ("networking.serviceSubnet", self.service_subnet, MIN_SERVICE_PREFIX, MAX_SERVICE_PREFIX),
        ];
        for (field, net, min, max) in ranges {
            if !(min..=max).contains(&net.prefix_len()) {
                problems.push(NetworkingError::PrefixLength { field, net, min, max });
            }
            let nodes = ("the node network".to_owned(), NODE_SUBNET);
            for (name, other) in taken.iter().chain([&nodes]) {
                if overlap(net, *other) {
                    let other_name = name.clone();
                    problems.push(NetworkingError::Overlap { field, net, other_name, other: *other });
                }
            }
        }
        for (name, other) in taken.iter().filter(|(_, other)| overlap(NODE_SUBNET, *other)) {
            problems.push(NetworkingError::Overlap {
                field: "the node network (fixed)",
                net: NODE_SUBNET,
                other_name: name.clone(),
                other: *other,
            });
        }
        if overlap(self.pod_subnet, self.service_subnet) {
            problems.push(NetworkingError::Overlap {
                field: "networking.podSubnet",
                net: self.pod_subnet,
                other_name: "serviceSubnet".to_owned(),
                other: self.service_subnet,
            });
        }
        if !is_dns_name(&self.dns_domain) {
            problems.push(NetworkingError::DnsDomain(self.dns_domain.clone()));
        }
        problems
    }

    /// ClusterIP of the `kubernetes` Service: the first address (kubeadm `GetAPIServerVirtualIP`).
    pub fn kubernetes_service(&self) -> IpAddr {
        nth(self.service_subnet, 1)
    }

    /// ClusterIP of the cluster DNS: the tenth address (kubeadm `GetDNSIP`).
    pub fn dns_service(&self) -> IpAddr {
        nth(self.service_subnet, 10)
    }
}

fn nth(net: Ipv4Net, offset: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(u32::from(net.network()).saturating_add(offset)))
}

fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
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
mod tests {
    use super::*;

    fn networking(pods: &str, services: &str) -> Networking {
        let net = |s: &str| s.parse().unwrap_or_default();
        Networking { pod_subnet: net(pods), service_subnet: net(services), ..Networking::default() }
    }

    #[test]
    fn defaults_are_sound() {
        let networking = Networking::default();
        assert_eq!(networking.problems(&[]), []);
        assert_eq!(networking.kubernetes_service().to_string(), "10.96.0.1");
        assert_eq!(networking.dns_service().to_string(), "10.96.0.10");
    }

    #[test]
    fn overlap_names_both_sides() {
        let taken =
            [("engine network bridge".to_owned(), Ipv4Net::new_assert(Ipv4Addr::new(172, 17, 0, 0), 16))];
        let problems = networking("172.16.0.0/12", "172.17.3.0/24").problems(&taken);
        let text: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "networking.podSubnet 172.16.0.0/12: overlaps engine network bridge 172.17.0.0/16",
                "networking.serviceSubnet 172.17.3.0/24: overlaps engine network bridge 172.17.0.0/16",
                "networking.podSubnet 172.16.0.0/12: overlaps serviceSubnet 172.17.3.0/24",
            ]
        );
    }

    #[test]
    fn kind_2970_the_node_network_is_checked_against_the_engines() {
        let taken = [
            ("engine network lab".to_owned(), Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 64, 0), 20)),
            ("engine network bridge".to_owned(), Ipv4Net::new_assert(Ipv4Addr::new(172, 17, 0, 0), 16)),
        ];
        let text: Vec<_> = Networking::default().problems(&taken).iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            ["the node network (fixed) 192.168.66.0/24: overlaps engine network lab 192.168.64.0/20"]
        );
    }

    #[test]
    fn refuses_ranges_no_component_can_work_with() {
        assert_eq!(networking("10.244.0.0/24", "10.96.0.0/12").problems(&[]).len(), 1);
        assert_eq!(networking("10.244.0.0/16", "10.96.0.0/30").problems(&[]).len(), 1);
        assert_eq!(networking("192.168.0.0/16", "10.96.0.0/12").problems(&[]).len(), 1);
    }
}
