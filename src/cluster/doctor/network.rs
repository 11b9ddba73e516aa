//! The cluster's network beside what else is on the engine's host.

use hoist_phases::phases::{network, preflight};
use hoist_phases::spec::{Component, Family, Protocol, same_socket};
use ipnet::IpNet;

use super::{Facts, Silent, State, Told, Verdict};

/// IPv6 needs packets of this size to pass whole (RFC 8200, section 5).
const LEAST_IPV6: u32 = 1280;

/// The network that an engine puts containers on by itself.
const DEFAULT_NETWORKS: [&str; 2] = ["bridge", "podman"];

pub(super) fn mtu(facts: &Facts) -> Verdict {
    let (host, engine) = (facts.host.as_ref()?, facts.engine.as_ref()?);
    let subnets: Vec<_> =
        engine.networks.iter().filter(|(name, _)| DEFAULT_NETWORKS.contains(&name.as_str())).collect();
    let bridge = host.routes.iter().find(|route| subnets.iter().any(|(_, net)| *net == route.destination));
    let unseen = || Silent::Unknown("the engine's network has no route on its host".to_owned());
    let bridge = &bridge.ok_or_else(unseen)?.interface;
    let unread = || Silent::Unknown(format!("{bridge} has no MTU"));
    let mtu = facts.spec.networking.mtu.or_else(|| host.mtus.get(bridge).copied()).ok_or_else(unread)?;
    // Whatever is no bridge of an engine's or loopback may be a way out.
    let engines = |name: &str| {
        host.routes
            .iter()
            .any(|r| r.interface == name && engine.networks.iter().any(|(_, n)| *n == r.destination))
    };
    let outside = |name: &str| name != "lo" && !name.starts_with("veth") && !engines(name);
    let ways = host.routes.iter().map(|route| route.interface.as_str()).filter(|name| outside(name));
    let narrow = ways.filter_map(|name| Some((*host.mtus.get(name)?, name))).min();
    let told = match narrow {
        Some((other, name)) => Told::new(format!("{mtu} bytes, {other} of {name}")),
        None => Told::new(format!("{mtu} bytes")),
    };
    let told = told.when(
        facts.spec.networking.has(Family::Ipv6) && mtu < LEAST_IPV6,
        State::Fail,
        format!("IPv6 needs {LEAST_IPV6} bytes at least: choose networking.mtu, or another engine network"),
    );
    Ok(match narrow {
        Some((other, name)) if other < mtu => told.with(
            State::Warn,
            format!("packets of {mtu} bytes don't fit through {name}, which takes {other}: large transfers may hang"),
            format!("set networking.mtu: {other} in the configuration, or mtu in the engine's own"),
        ),
        _ => told,
    })
}

/// The ranges of the cluster, each with the field that says it.
fn ranges(facts: &Facts) -> Vec<(&'static str, IpNet)> {
    let networking = &facts.spec.networking;
    let pods = networking.pod_subnet.iter().map(|net| ("networking.podSubnet", net));
    let services = networking.service_subnet.iter().map(|net| ("networking.serviceSubnet", net));
    let nodes = networking.families().map(|family| (NODES, family.node_subnet()));
    pods.chain(services).chain(nodes).collect()
}

/// What the ranges call the network between nodes and control plane.
const NODES: &str = "the nodes' network";

pub(super) fn overlap(facts: &Facts) -> Verdict {
    let (host, engine) = (facts.host.as_ref()?, facts.engine.as_ref()?);
    let ranges = ranges(facts);
    let mut told = Told::new(format!(
        "{} beside {} routes of the host",
        ranges.iter().map(|(_, net)| net.to_string()).collect::<Vec<_>>().join(", "),
        host.routes.len()
    ));
    for problem in facts.spec.networking.problems(&engine.networks) {
        told = told.with(State::Fail, problem.to_string(), "choose another range, as the message says");
    }
    let engines = |net: IpNet| engine.networks.iter().any(|(_, other)| *other == net);
    for route in host.routes.iter().filter(|route| !engines(route.destination)) {
        let other = route.destination;
        let meets = |net: &IpNet| net.contains(&other.network()) || other.contains(&net.network());
        for (field, net) in ranges.iter().filter(|(_, net)| meets(net)) {
            let remedy = match *field {
                NODES => {
                    "it can't be moved; nothing in the cluster reaches what is there, and the host is not affected"
                }
                _ => {
                    "choose another range with --pod-subnet or --service-subnet; as it is, pods can't reach what is there"
                }
            };
            told = told.with(
                State::Warn,
                format!("{field} {net} overlaps {other}, which the host reaches through {}", route.interface),
                remedy,
            );
        }
    }
    Ok(told)
}

pub(super) fn ports(facts: &Facts) -> Verdict {
    let listening = &facts.host.as_ref()?.listening;
    // The host tells who listens for TCP alone.
    let published = match facts.spec.owner.attach() {
        Some(_) => Vec::new(),
        None => network::owner(&facts.spec).publish,
    };
    let wanted = published.iter().filter(|port| port.protocol == Protocol::Tcp && port.host.port() != 0);
    let wanted: Vec<_> = wanted.map(|port| port.host).collect();
    let mut told = match wanted.as_slice() {
        [] => Told::new("the engine chooses one that is free"),
        wanted => Told::new(wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    };
    for at in wanted {
        let Some(taken) = listening.iter().find(|other| same_socket(at, **other)) else { continue };
        // A cluster that is there listens itself.
        if let Some(cluster) = &facts.cluster
            && cluster.published.as_ref()?.contains(&at)
        {
            continue;
        }
        told = told.with(
            State::Fail,
            format!("{at} can't be listened on: somebody listens on {taken} of the engine's host"),
            "end who listens there, or choose another with --listen, or in `ports` of the configuration",
        );
    }
    Ok(told)
}

pub(super) fn attach(facts: &Facts) -> Verdict {
    let (Some(attached), Some(owner)) = (&facts.attached, facts.spec.owner.attach()) else {
        return Err(Silent::Skipped("the cluster's network is hoist's own".to_owned()));
    };
    let attached = attached.as_ref()?;
    let mut told = Told::new(format!("container {}", owner.container));
    if let Some(problem) = &attached.problem {
        told = told.with(State::Fail, problem, "start or make that container as docs/kubevirtci.md says");
    }
    let listening = attached.listening.as_deref().unwrap_or_default();
    let wanted = preflight::ports(&facts.spec);
    // DNS and DHCP are the owner's.
    let wanted =
        wanted.iter().filter(|(component, _)| !matches!(component, Component::Owner | Component::Dnsmasq));
    for (component, port) in wanted.filter(|(_, port)| listening.iter().any(|at| at.port() == *port)) {
        told = told.with(
            State::Fail,
            format!("port {port} of {}, which {component} needs, is in use", owner.container),
            "end who listens there",
        );
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use hoist_phases::spec::{Attach, Owner, PortMapping};

    use super::super::testing::{facts, judged};
    use super::super::{Attached, ClusterFacts};
    use super::*;
    use crate::error::BoxError;
    use crate::host::{HostReport, HostRoute};
    use crate::runtime::About;

    type Check = Result<(), BoxError>;

    fn engine() -> Result<About, BoxError> {
        Ok(About { networks: vec![("bridge".to_owned(), "172.17.0.0/16".parse()?)], ..About::default() })
    }

    fn host(routes: &[(&str, &str, u32)]) -> Result<HostReport, BoxError> {
        let mut host = HostReport::default();
        for (destination, interface, mtu) in routes {
            let interface = (*interface).to_owned();
            host.mtus.insert(interface.clone(), *mtu);
            host.routes.push(HostRoute { destination: destination.parse()?, interface });
        }
        Ok(host)
    }

    #[test]
    fn minikube_9528_an_mtu_above_the_hosts_own_warns() -> Check {
        let mut facts = facts()?;
        facts.engine = Ok(engine()?);
        for (docker, eth, state) in
            [(1500, 1500, State::Ok), (1400, 1500, State::Ok), (1500, 1499, State::Warn)]
        {
            facts.host = Ok(host(&[("172.17.0.0/16", "docker0", docker), ("192.0.2.0/24", "eth0", eth)])?);
            assert_eq!(judged(&facts, "bridge-mtu").0, state, "{docker} {eth}");
        }
        facts.host = Ok(host(&[("172.17.0.0/16", "docker0", 1279)])?);
        assert_eq!(judged(&facts, "bridge-mtu").0, State::Ok);
        facts.spec.networking.pod_subnet = "fd10:244::/56".parse()?;
        assert_eq!(judged(&facts, "bridge-mtu").0, State::Fail);
        facts.host = Ok(HostReport::default());
        assert_eq!(judged(&facts, "bridge-mtu").0, State::Unknown);
        Ok(())
    }

    #[test]
    fn kind_2970_ranges_that_overlap_are_told_with_both_names() -> Check {
        let mut facts = facts()?;
        facts.engine = Ok(engine()?);
        for (routes, state, words) in [
            (&[("172.17.0.0/16", "docker0", 0), ("10.243.0.0/16", "eth0", 0)][..], State::Ok, [""; 2]),
            (&[("10.244.7.0/24", "tun0", 0)], State::Warn, ["networking.podSubnet 10.244.0.0/16", "tun0"]),
            (&[("10.0.0.0/8", "wg0", 0)], State::Warn, ["networking.serviceSubnet 10.96.0.0/12", "wg0"]),
            (&[("192.168.66.0/24", "eth1", 0)], State::Warn, ["the nodes' network", "eth1"]),
        ] {
            facts.host = Ok(host(routes)?);
            let (told, said) = judged(&facts, "cidr-overlap");
            assert!(told == state && words.iter().all(|word| said.contains(word)), "{said}");
        }
        facts.spec.networking.pod_subnet = "172.17.0.0/16".parse()?;
        let (told, said) = judged(&facts, "cidr-overlap");
        assert!(told == State::Fail && said.contains("bridge"), "{said}");
        Ok(())
    }

    #[test]
    fn kwok_475_a_port_is_taken_by_whoever_listens_on_it() -> Check {
        let mut facts = facts()?;
        facts.spec.listen_address = Some("192.0.2.1:6443".parse()?);
        let at: SocketAddr = "127.0.0.1:8080".parse()?;
        for (other, state) in [
            ("192.0.2.1:6443", State::Fail),
            ("0.0.0.0:6443", State::Fail),
            ("[::]:6443", State::Fail),
            ("127.0.0.1:6443", State::Ok),
            ("192.0.2.1:6444", State::Ok),
        ] {
            facts.host = Ok(HostReport { listening: vec![other.parse()?], ..HostReport::default() });
            assert_eq!(judged(&facts, "ports").0, state, "{other}");
        }
        facts.host = Ok(HostReport { listening: vec!["192.0.2.1:6443".parse()?], ..HostReport::default() });
        let own = Ok(vec!["192.0.2.1:6443".parse()?]);
        facts.cluster = Some(ClusterFacts { published: own, ..ClusterFacts::unknown("") });
        assert_eq!(judged(&facts, "ports").0, State::Ok, "the cluster's own");
        facts.cluster = Some(ClusterFacts::unknown("no answer"));
        assert_eq!(judged(&facts, "ports"), (State::Unknown, "no answer".to_owned()));

        facts.cluster = None;
        let mapping = |protocol| PortMapping { host: at, port: 80, protocol, node: None };
        facts.host = Ok(HostReport { listening: vec![at], ..HostReport::default() });
        for (protocol, state) in [(Protocol::Tcp, State::Fail), (Protocol::Udp, State::Ok)] {
            facts.spec.ports = vec![mapping(protocol)];
            assert_eq!(judged(&facts, "ports").0, state, "a mapping of {protocol}");
        }
        Ok(())
    }

    #[test]
    fn an_owner_that_is_attached_to_is_judged() -> Check {
        let mut facts = facts()?;
        assert_eq!(judged(&facts, "attach").0, State::Skipped);
        facts.spec.owner = Owner::Attach(Attach { container: "k".to_owned(), prefix: None, registry: None });
        for (problem, port, state) in [
            (None, 22, State::Ok),
            (None, 53, State::Ok),
            (None, 6443, State::Fail),
            (Some("there is no such container".to_owned()), 22, State::Fail),
        ] {
            let at = SocketAddr::new(Family::Ipv4.control_plane(), port);
            facts.attached = Some(Ok(Attached { problem, listening: Ok(vec![at]) }));
            assert_eq!(judged(&facts, "attach").0, state, "{port}");
        }
        Ok(())
    }
}
