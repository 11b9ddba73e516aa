//! dnsmasq's configuration (dnsmasq(8)).

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::spec::networking::Networking;
use crate::spec::{ClusterSpec, Family, MAX_NODE_NUMBER, NodeKind, NodeSpec, REGISTRY_HOST};

/// Serves names and leases in the families of the cluster. Every node number has its lease and name
/// reserved, so that a node added later needs no reload.
pub(super) fn configuration(spec: &ClusterSpec) -> String {
    let networking = &spec.networking;
    let mut conf = format!(
        "interface=br0\n\
         except-interface=lo\n\
         bind-dynamic\n\
         user=nobody\n\
         group=nogroup\n\
         log-facility=-\n\
         pid-file=/run/dnsmasq.pid\n\
         no-hosts\n\
         domain-needed\n\
         bogus-priv\n\
         local=/{domain}/\n\
         cache-size=1000\n\
         dhcp-leasefile=/run/dnsmasq.leases\n\
         dhcp-authoritative\n\
         dhcp-rapid-commit\n\
         no-ping\n",
        domain = networking.dns_domain,
    );
    for family in networking.families() {
        let (subnet, address) = (family.node_subnet(), family.control_plane());
        let _ = match family {
            Family::Ipv4 => writeln!(
                conf,
                "dhcp-range={network},static,{mask},infinite\n\
                 dhcp-option=option:router,{address}\n\
                 dhcp-option=option:dns-server,{address}",
                network = subnet.network(),
                mask = subnet.netmask(),
            ),
            // DHCPv6 knows no routers: they advertise themselves, and that addresses are leased.
            Family::Ipv6 => writeln!(
                conf,
                "dhcp-range={network},static,{prefix},infinite\n\
                 enable-ra\n\
                 dhcp-option=option6:dns-server,[{address}]",
                network = subnet.network(),
                prefix = subnet.prefix_len(),
            ),
        };
    }
    let _ = writeln!(
        conf,
        "host-record=control-plane,{}",
        joined(networking, |family| family.control_plane().to_string())
    );
    for node in (1..=u32::from(MAX_NODE_NUMBER)).filter_map(|n| NodeSpec::new(n, NodeKind::Container).ok()) {
        let (name, mac) = (node.name(), node.mac());
        let leases = joined(networking, |family| match family {
            Family::Ipv4 => node.address(family).to_string(),
            Family::Ipv6 => format!("[{}]", node.address(family)),
        });
        let addresses = joined(networking, |family| node.address(family).to_string());
        let _ = writeln!(conf, "dhcp-host={mac},{leases},{name}\nhost-record={name},{addresses}");
    }
    for (name, addresses) in &networking.dns_records {
        for address in addresses {
            let _ = writeln!(conf, "host-record={name},{address}");
        }
    }
    if spec.registry.is_some() {
        let addresses = joined(networking, |family| family.control_plane().to_string());
        let _ = writeln!(conf, "host-record={REGISTRY_HOST},{addresses}");
    }
    // Nodes know the endpoint's name even where nobody else resolves it.
    if let Some(endpoint) = spec.control_plane_endpoint.as_ref().filter(|e| e.host.parse::<IpAddr>().is_err())
    {
        for address in &endpoint.addresses {
            let _ = writeln!(conf, "host-record={},{address}", endpoint.host);
        }
    }
    conf
}

fn joined(networking: &Networking, part: impl Fn(Family) -> String) -> String {
    networking.families().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use super::*;
    use crate::phases::addon::testing;

    fn lines(pods: &str, services: &str) -> Vec<String> {
        let spec = testing::spec_of(pods, services).unwrap();
        configuration(&spec).lines().map(str::to_owned).collect()
    }

    #[test]
    fn serves_the_families_asked_for_and_no_other() {
        let (four, six) = (("10.244.0.0/16", "10.96.0.0/12"), ("fd10:244::/56", "fd10:96::/112"));
        let both = (format!("{},{}", four.0, six.0), format!("{},{}", four.1, six.1));
        for (lines, wanted) in [
            (
                lines(four.0, four.1),
                ["dhcp-host=52:55:00:d1:55:42,192.168.66.142,node42", "host-record=node42,192.168.66.142"],
            ),
            (
                lines(six.0, six.1),
                ["dhcp-host=52:55:00:d1:55:42,[fd00::142],node42", "host-record=node42,fd00::142"],
            ),
            (
                lines(&both.0, &both.1),
                [
                    "dhcp-host=52:55:00:d1:55:42,192.168.66.142,[fd00::142],node42",
                    "host-record=node42,192.168.66.142,fd00::142",
                ],
            ),
        ] {
            for line in wanted {
                assert!(lines.iter().any(|other| other == line), "{line} is not in {lines:?}");
            }
            let with = |part: &str| lines.iter().any(|line| line.contains(part));
            let wanted = |part: &str| wanted.iter().any(|line| line.contains(part));
            assert_eq!(with("192.168.66."), wanted("192.168.66."));
            assert_eq!(with("fd00:"), wanted("fd00:"));
            assert_eq!(with("enable-ra"), wanted("fd00:"));
            assert_eq!(with("dhcp-range=fd00::,static,64,infinite"), wanted("fd00:"));
            assert_eq!(with("dhcp-range=192.168.66.0,static,255.255.255.0,infinite"), wanted("192.168.66."));
        }
    }
}
