//! Where the control plane is reached from elsewhere, and how it reaches nodes and pods: settings
//! that hang together.

use std::net::{IpAddr, SocketAddr};

use hoist_phases::phases::konnectivity::AGENT_PORT;
use hoist_phases::pki::San;
use hoist_phases::spec::{ClusterSpec, Endpoint, Family, Networking, Reach};

use super::problem::{Problem, Problems};

/// Why the address of an endpoint can't be had.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("controlPlaneEndpoint {host:?}: can't be resolved to an address; name an IP address instead")]
    Lookup {
        host: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "controlPlaneEndpoint {host:?}: has no {family} address, which pods need to reach it by Service kubernetes; \
         name a host that has one, or choose another --ip-family"
    )]
    Family { host: String, family: &'static str },
    #[error("controlPlaneEndpoint {host:?}: {address} {why}; name an address that other machines reach")]
    Address { host: String, address: IpAddr, why: String },
}

/// Puts the three into the specification and judges them together.
pub(super) fn apply(
    spec: &mut ClusterSpec,
    endpoint: Option<String>,
    listen: Option<String>,
    reach: Option<String>,
    problems: &mut Problems,
) {
    if let Some(endpoint) = endpoint.and_then(|text| problems.keep(parse_endpoint(&text))) {
        if spec.control_plane_endpoint.is_none() {
            spec.reach = Reach::Konnectivity;
        }
        spec.control_plane_endpoint = Some(endpoint);
    }
    let port = spec.control_plane_endpoint.as_ref().map_or(0, |endpoint| endpoint.port);
    if let Some(listen) = listen.and_then(|text| problems.keep(parse_listen(&text, port))) {
        spec.listen_address = Some(listen);
    }
    if let Some(reach) = reach.and_then(|text| problems.keep(parse_reach(&text))) {
        spec.reach = reach;
    }
    let Some(endpoint) = &spec.control_plane_endpoint else { return };
    if let Some(listen) = spec.listen_address.filter(|listen| listen.port() == 0) {
        let rule =
            "beside a controlPlaneEndpoint the port must be a fixed one; leave it out for the endpoint's";
        problems.push(Problem::new("listenAddress", listen, rule));
    }
    if spec.listen_address.is_none() {
        let rule = "needs a listenAddress (--listen): the API port is published on loopback alone, where no \
                    other machine reaches it";
        problems.push(Problem::new("controlPlaneEndpoint", endpoint, rule));
    }
    if spec.reach != Reach::Konnectivity {
        let rule = "machines behind a controlPlaneEndpoint can only be reached by konnectivity";
        problems.push(Problem::new("reach", spec.reach.as_str(), rule));
    }
}

/// Finds out what a name stands for; addresses are known. Those of families that the cluster hasn't
/// are left out.
///
/// # Errors
/// When the name has no address that pods can use, or one that leads elsewhere.
pub(super) async fn resolve(spec: &mut ClusterSpec) -> Result<(), EndpointError> {
    let networking = &spec.networking;
    let Some(endpoint) = &mut spec.control_plane_endpoint else { return Ok(()) };
    if endpoint.addresses.is_empty() {
        let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let found = found.map_err(|source| EndpointError::Lookup { host: endpoint.host.clone(), source })?;
        let mut addresses: Vec<_> = found.map(|address| address.ip().to_canonical()).collect();
        // Resolvers like to change the order, which says nothing.
        addresses.sort_unstable();
        addresses.dedup();
        endpoint.addresses = addresses;
    }
    endpoint.addresses.retain(|address| networking.has(Family::of(*address)));
    for address in &endpoint.addresses {
        if let Some(why) = unreachable(*address, networking) {
            return Err(EndpointError::Address { host: endpoint.host.clone(), address: *address, why });
        }
    }
    let service = networking.kubernetes_service();
    if endpoint.addresses.iter().any(|address| address.is_ipv4() == service.is_ipv4()) {
        return Ok(());
    }
    let family = if service.is_ipv4() { "IPv4" } else { "IPv6" };
    Err(EndpointError::Family { host: endpoint.host.clone(), family })
}

/// Why an address means something else, or nothing, on another machine.
fn unreachable(address: IpAddr, networking: &Networking) -> Option<String> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let kind = [
        (address.is_loopback(), "is loopback, which each machine has of its own"),
        (address.is_unspecified(), "is no machine's"),
        (address.is_multicast(), "is multicast"),
        (link_local, "is of one link alone"),
    ];
    if let Some((_, why)) = kind.into_iter().find(|(is, _)| *is) {
        return Some(why.to_owned());
    }
    let nodes = Family::of(address).node_subnet();
    let pods = networking.pod_subnet.iter().map(|net| ("networking.podSubnet", net));
    let services = networking.service_subnet.iter().map(|net| ("networking.serviceSubnet", net));
    let mut ranges = pods.chain(services).chain([("the node network", nodes)]);
    let (name, range) = ranges.find(|(_, range)| range.contains(&address))?;
    Some(format!("is in {name} {range}, which is the cluster's own"))
}

fn parse_endpoint(text: &str) -> Result<Endpoint, Problem> {
    let wrong = |rule: &str| Problem::new("controlPlaneEndpoint", format_args!("{text:?}"), rule);
    let shape = || wrong("must be HOST:PORT, such as 203.0.113.7:6443 or api.example.org:6443");
    let (host, port) = text.rsplit_once(':').ok_or_else(shape)?;
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(shape)?;
    if port == AGENT_PORT {
        return Err(wrong("this port is that of konnectivity's agents"));
    }
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let parsed = San::parse(bracketed.unwrap_or(host)).map_err(|_| shape())?;
    match parsed {
        San::Ip(address) if address.is_ipv6() != bracketed.is_some() => Err(shape()),
        San::Ip(address) => Ok(Endpoint { host: address.to_string(), port, addresses: vec![address] }),
        San::Dns(name) if bracketed.is_some() || name.starts_with("*.") => Err(shape()),
        San::Dns(host) => Ok(Endpoint { host, port, addresses: Vec::new() }),
    }
}

fn parse_listen(text: &str, port: u16) -> Result<SocketAddr, Problem> {
    let wrong = |rule: &str| Problem::new("listenAddress", format_args!("{text:?}"), rule);
    let address = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
    let address = address.or_else(|_| text.parse::<SocketAddr>());
    let address =
        address.map_err(|_| wrong("must be IP or IP:PORT of the engine's host, such as 203.0.113.7:6443"))?;
    if address.port() == AGENT_PORT {
        return Err(wrong("this port is that of konnectivity's agents"));
    }
    Ok(address)
}

fn parse_reach(text: &str) -> Result<Reach, Problem> {
    let found = Reach::ALL.into_iter().find(|reach| reach.as_str() == text);
    found.ok_or_else(|| {
        let names = Reach::ALL.map(Reach::as_str).join(", ");
        Problem::new("reach", format_args!("{text:?}"), format_args!("must be one of {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::origin::Origins;

    type Check = Result<(), Box<dyn std::error::Error>>;

    fn endpoint(value: &str) -> Result<Endpoint, Problem> {
        parse_endpoint(value)
    }

    #[test]
    fn endpoints_are_hosts_with_a_port() {
        for (text, host) in [
            ("203.0.113.7:6443", "203.0.113.7"),
            ("[2001:db8::7]:6443", "2001:db8::7"),
            ("API.example.org:6443", "api.example.org"),
        ] {
            let parsed = endpoint(text).map(|endpoint| (endpoint.host, endpoint.port));
            assert_eq!(parsed, Ok((host.to_owned(), 6443)), "{text}");
        }
        let bad = "203.0.113.7 203.0.113.7:0 203.0.113.7:x 2001:db8::7:6443 :6443 *.a.test:6443 0.0.0.0:6443 \
                   a.test:8132 [a.test]:6443 [203.0.113.7]:6443 https://a:6443";
        for text in bad.split_whitespace() {
            assert!(endpoint(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_listen_address_takes_the_port_of_the_endpoint() {
        let listen = |value: &str| parse_listen(value, 7443).map(|at| at.to_string());
        assert_eq!(listen("0.0.0.0"), Ok("0.0.0.0:7443".to_owned()));
        assert_eq!(listen("10.0.0.1:6443"), Ok("10.0.0.1:6443".to_owned()));
        assert_eq!(listen("::"), Ok("[::]:7443".to_owned()));
        for bad in ["", "eth0", "10.0.0.1:", "10.0.0.1:8132", "host:1"] {
            assert!(listen(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn an_endpoint_needs_a_port_that_is_known() -> Check {
        for (listen, right) in [("10.0.0.1:0", false), ("10.0.0.1", true), ("10.0.0.1:7443", true)] {
            let mut spec = spec()?;
            let mut problems = Problems::default();
            let at = Some("203.0.113.7:6443".to_owned());
            apply(&mut spec, at, Some(listen.to_owned()), None, &mut problems);
            assert_eq!(problems.into_result(&Origins::default()).is_ok(), right, "{listen}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn only_addresses_of_the_clusters_families_are_kept() -> Check {
        let mut spec = spec()?;
        let (four, six): (IpAddr, IpAddr) = ("203.0.113.7".parse()?, "2001:db8::7".parse()?);
        let addresses = vec![four, six];
        let both = Endpoint { host: "api.example".to_owned(), port: 6443, addresses: addresses.clone() };
        spec.control_plane_endpoint = Some(both.clone());
        resolve(&mut spec).await?;
        assert_eq!(spec.control_plane_endpoint.map(|endpoint| endpoint.addresses), Some(vec![four]));
        spec.networking.pod_subnet = "10.244.0.0/16,fd10:244::/56".parse()?;
        spec.control_plane_endpoint = Some(both);
        resolve(&mut spec).await?;
        assert_eq!(spec.control_plane_endpoint.map(|endpoint| endpoint.addresses), Some(addresses));
        Ok(())
    }

    fn spec() -> Result<ClusterSpec, Box<dyn std::error::Error>> {
        let token = hoist_phases::spec::BootstrapToken::parse("abcdef.1234567890123456")?;
        Ok(crate::config::defaults(hoist_phases::spec::ClusterName::new("t")?, token))
    }

    #[tokio::test]
    async fn what_leads_nowhere_is_refused() -> Check {
        let mut spec = spec()?;
        for (text, wanted) in [
            ("203.0.113.7:6443", Ok(vec!["203.0.113.7".parse()?])),
            ("nobody.invalid:6443", Err("can't be resolved")),
            ("[2001:db8::7]:6443", Err("has no IPv4 address")),
            ("127.0.0.1:6443", Err("loopback")),
            ("224.0.0.1:6443", Err("multicast")),
            ("169.254.1.1:6443", Err("one link")),
            ("10.244.1.1:6443", Err("networking.podSubnet 10.244.0.0/16")),
            ("10.96.0.1:6443", Err("networking.serviceSubnet 10.96.0.0/12")),
            ("192.168.66.2:6443", Err("the node network 192.168.66.0/24")),
        ] {
            spec.control_plane_endpoint = endpoint(text).ok();
            let result = resolve(&mut spec).await.map_err(|error| error.to_string());
            let addresses = spec.control_plane_endpoint.take().map(|endpoint| endpoint.addresses);
            match wanted {
                Ok(wanted) => assert_eq!((result, addresses), (Ok(()), Some(wanted))),
                Err(wanted) => assert!(result.as_ref().is_err_and(|e| e.contains(wanted)), "{result:?}"),
            }
        }
        Ok(())
    }
}
