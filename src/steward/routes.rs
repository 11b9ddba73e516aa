//! Routes from the shared namespace to the pods of each node, so that the API server reaches
//! webhooks and aggregated APIs by their endpoints' addresses.
//!
//! Ours are told from all others by their protocol number; no other is ever touched.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hoist_phases::phases::steward::PodSubnet;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::netlink::{self, NetlinkError};

/// One route: the pods of a node by way of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) destination: IpNet,
    pub(super) gateway: IpAddr,
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} via {}", self.destination, self.gateway)
    }
}

/// What has to be done, removals first: a node that changed its address has one of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) remove: Vec<Route>,
    pub(super) add: Vec<Route>,
}

/// The addresses of the nodes that name a range, oldest node first.
pub(super) type Claims = BTreeMap<IpNet, Vec<IpAddr>>;

/// The ranges that these nodes name. A range that kube-controller-manager doesn't give out is
/// passed over: a kubelet names its own, and with a part of another's it would draw the traffic of
/// that one to itself.
pub(super) fn claims<'a>(nodes: impl IntoIterator<Item = &'a Node>, pod_subnets: &[PodSubnet]) -> Claims {
    let mut claims = Claims::new();
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_by_key(|node| {
        let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created.is_none(), created, node.metadata.name.clone())
    });
    for node in nodes {
        for destination in pod_ranges(node).filter(|range| pod_subnets.iter().any(|net| net.gives(range))) {
            if let Some(gateway) = address(node, destination.addr().is_ipv4()) {
                claims.entry(destination).or_default().push(gateway);
            }
        }
    }
    claims
}

/// One route for each range. Where several nodes name one, the route that is there stays, else
/// the oldest node has it: whoever comes later takes nothing away.
fn wanted(claims: &Claims, present: &BTreeSet<Route>) -> BTreeSet<Route> {
    let route = |(&destination, gateways): (&IpNet, &Vec<IpAddr>)| {
        let routes = || gateways.iter().map(|&gateway| Route { destination, gateway });
        routes().find(|route| present.contains(route)).or_else(|| routes().next())
    };
    claims.iter().filter_map(route).collect()
}

fn pod_ranges(node: &Node) -> impl Iterator<Item = IpNet> {
    let ranges = node.spec.as_ref().map(|spec| spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr));
    ranges.into_iter().flatten().filter_map(|range| range.parse::<IpNet>().ok()).map(|range| range.trunc())
}

/// The node's first internal address of a family.
pub(super) fn address(node: &Node, v4: bool) -> Option<IpAddr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses.iter().filter(|address| address.type_ == "InternalIP");
    internal.filter_map(|address| address.address.parse::<IpAddr>().ok()).find(|ip| ip.is_ipv4() == v4)
}

pub(super) fn decide(wanted: &BTreeSet<Route>, present: &BTreeSet<Route>) -> Change {
    Change {
        remove: present.difference(wanted).copied().collect(),
        add: wanted.difference(present).copied().collect(),
    }
}

/// Brings the namespace's routes to what the nodes claim; gives what was changed. One that the kernel
/// refuses keeps none of the others away.
///
/// # Errors
/// What could not be done, all of it.
pub(super) async fn apply(claims: &Claims) -> (Change, Vec<NetlinkError>) {
    let mut routes = match netlink::Routes::open() {
        Ok(routes) => routes,
        Err(error) => return (Change::default(), vec![error]),
    };
    let present = match routes.ours().await {
        Ok(present) => present,
        Err(error) => return (Change::default(), vec![error]),
    };
    let Change { remove, add } = decide(&wanted(claims, &present), &present);
    let (mut done, mut failed) = (Change::default(), Vec::new());
    for route in remove {
        match routes.remove(route).await {
            Ok(()) => done.remove.push(route),
            Err(error) => failed.push(error),
        }
    }
    for route in add {
        match routes.add(route).await {
            Ok(()) => done.add.push(route),
            Err(error) => failed.push(error),
        }
    }
    (done, failed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Check = Result<(), Box<dyn std::error::Error>>;

    fn node(name: &str, ranges: &[&str], addresses: &[&str]) -> Result<Node, serde_json::Error> {
        let addresses: Vec<_> =
            addresses.iter().map(|a| json!({"type": "InternalIP", "address": a})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"podCIDR": ranges.first(), "podCIDRs": ranges},
            "status": {"addresses": addresses},
        }))
    }

    fn created(mut node: Node, second: u8) -> Result<Node, serde_json::Error> {
        let time = json!(format!("2026-01-01T00:00:{second:02}Z"));
        node.metadata.creation_timestamp = Some(serde_json::from_value(time)?);
        Ok(node)
    }

    fn subnet(subnet: &str, node_mask_size: u8) -> Result<PodSubnet, ipnet::AddrParseError> {
        Ok(PodSubnet { subnet: subnet.parse()?, node_mask_size })
    }

    fn shown(nodes: &[Node], subnets: &[PodSubnet], present: &BTreeSet<Route>) -> Vec<String> {
        wanted(&claims(nodes, subnets), present).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_family_goes_by_the_address_of_its_own() -> Check {
        let subnets = [subnet("10.244.0.0/16", 24)?, subnet("fd00:10:244::/56", 64)?];
        let nodes = [
            node("a", &["10.244.0.0/24", "fd00:10:244::/64"], &["192.168.66.101", "fd00::101"])?,
            node("b", &["10.244.1.0/24", "fd00:10:244:1::/64"], &["192.168.66.102"])?,
            node("no range yet", &[], &["192.168.66.103"])?,
            node("no address yet", &["10.244.3.0/24"], &[])?,
        ];
        assert_eq!(
            shown(&nodes, &subnets, &BTreeSet::new()),
            [
                "10.244.0.0/24 via 192.168.66.101",
                "10.244.1.0/24 via 192.168.66.102",
                "fd00:10:244::/64 via fd00::101",
            ]
        );
        Ok(())
    }

    #[test]
    fn a_node_can_not_draw_other_traffic_to_itself() -> Check {
        let (subnets, none) = ([subnet("10.244.0.0/16", 24)?], BTreeSet::new());
        let address = &["192.168.66.101"][..];
        for range in [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.244.0.0/16",
            "10.244.0.0/17",
            "10.244.1.0/25",
            "10.244.1.7/32",
            "192.168.66.0/24",
            "10.96.0.0/16",
            "no range",
        ] {
            assert_eq!(shown(&[node("a", &[range], address)?], &subnets, &none), [""; 0], "{range}");
        }
        // Nor that of a node whose range it repeats: the oldest keeps it, whatever the names are.
        let twice = [
            created(node("a", &["10.244.1.0/24"], &["192.168.66.101"])?, 2)?,
            created(node("b", &["10.244.1.0/24"], &["192.168.66.102"])?, 1)?,
        ];
        assert_eq!(shown(&twice, &subnets, &none), ["10.244.1.0/24 via 192.168.66.102"]);
        // And the route that is there stays, as long as a node has its address.
        let route = |gateway: &str| -> Result<_, Box<dyn std::error::Error>> {
            Ok(BTreeSet::from([Route { destination: "10.244.1.0/24".parse()?, gateway: gateway.parse()? }]))
        };
        let kept = shown(&twice, &subnets, &route("192.168.66.101")?);
        assert_eq!(kept, ["10.244.1.0/24 via 192.168.66.101"]);
        let moved = shown(&twice, &subnets, &route("192.168.66.103")?);
        assert_eq!(moved, ["10.244.1.0/24 via 192.168.66.102"]);
        Ok(())
    }

    #[test]
    fn only_what_differs_is_changed() -> Check {
        let route = |n: u8, gateway: &str| -> Result<Route, Box<dyn std::error::Error>> {
            Ok(Route { destination: format!("10.244.{n}.0/24").parse()?, gateway: gateway.parse()? })
        };
        let present = BTreeSet::from([route(0, "1.1.1.1")?, route(1, "1.1.1.2")?, route(2, "1.1.1.3")?]);
        let wanted = BTreeSet::from([route(0, "1.1.1.1")?, route(1, "1.1.1.9")?, route(3, "1.1.1.4")?]);
        assert_eq!(
            decide(&wanted, &present),
            Change {
                remove: vec![route(1, "1.1.1.2")?, route(2, "1.1.1.3")?],
                add: vec![route(1, "1.1.1.9")?, route(3, "1.1.1.4")?],
            }
        );
        assert_eq!(decide(&wanted, &wanted), Change::default());
        Ok(())
    }
}
