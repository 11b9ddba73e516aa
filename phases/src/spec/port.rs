use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// First of the ports of the shared namespace that mappings lead through, one each in their order:
/// below what Linux gives to outgoing connections, and nobody's else.
pub const FIRST_MAPPED: u16 = 20_000;

/// Mappings that a cluster can have at most.
pub const MAX_MAPPINGS: usize = 100;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
}

impl Protocol {
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// As engines write it.
    pub fn lower(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// Whether it is what nobody has to name.
    pub fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// A port of the engine's host that leads to a port of the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortMapping {
    /// Port 0 is a number of the engine's choice.
    pub host: SocketAddr,
    /// Such as the node port of a Service.
    pub port: u16,
    #[serde(default, skip_serializing_if = "Protocol::is_tcp")]
    pub protocol: Protocol,
    /// Number of the one node it leads to; to any that is Ready when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u8>,
}

impl PortMapping {
    /// Address of a host that only programs of its own reach.
    pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Whether an engine can't publish both.
    pub fn collides(&self, other: &Self) -> bool {
        self.protocol == other.protocol && same_socket(self.host, other.host)
    }
}

/// Whether two can't be listened on at once, for one protocol: a wildcard address takes those of its
/// family, and that of IPv6 those of IPv4 too. Port 0 is another number each time.
pub fn same_socket(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| a == b || (a.is_unspecified() && (a.is_ipv6() || b.is_ipv4()));
    one.port() == other.port()
        && one.port() != 0
        && (covers(one.ip(), other.ip()) || covers(other.ip(), one.ip()))
}

/// What it leads to.
impl fmt::Display for PortMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host: _, port, protocol, node } = self;
        match node {
            Some(node) => write!(f, "{protocol} port {port} of node{node:02}"),
            None => write!(f, "{protocol} port {port} of any node"),
        }
    }
}

/// The mappings with the port of the namespace that each leads through.
pub fn mapped(mappings: &[PortMapping]) -> impl Iterator<Item = (u16, &PortMapping)> {
    (FIRST_MAPPED..).zip(mappings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_of_one_address_is_had_once() -> Result<(), std::net::AddrParseError> {
        let at = |host: &str, protocol| {
            Ok::<_, std::net::AddrParseError>(PortMapping {
                host: host.parse()?,
                port: 1,
                protocol,
                node: None,
            })
        };
        for (a, b, collide) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "[::]:80", true),
            ("[::1]:80", "[::]:80", true),
            ("0.0.0.0:80", "[::]:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            assert_eq!(at(a, Protocol::Tcp)?.collides(&at(b, Protocol::Tcp)?), collide, "{a} {b}");
        }
        assert!(!at("127.0.0.1:80", Protocol::Tcp)?.collides(&at("127.0.0.1:80", Protocol::Udp)?));
        Ok(())
    }
}
