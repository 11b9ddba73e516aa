use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// An address family, and the node network's addresses in it: br0 in the shared namespace. Fixed,
/// because every cluster has a namespace of its own and kubevirtci's machines expect these
/// addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Ipv4 } else { Self::Ipv6 }
    }

    /// Length of an address in bits.
    pub fn bits(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }

    /// The network of the nodes.
    pub fn node_subnet(self) -> IpNet {
        match self {
            Self::Ipv4 => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 66, 0), 24)),
            Self::Ipv6 => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 64)),
        }
    }

    /// The address of the control plane, of dnsmasq and the nodes' gateway, on br0.
    pub fn control_plane(self) -> IpAddr {
        match self {
            Self::Ipv4 => Ipv4Addr::new(192, 168, 66, 2).into(),
            Self::Ipv6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
        }
    }

    /// The address of a node by its number, 1 to 99. kubevirtci's scheme: 192.168.66.1NN and
    /// fd00::1NN, the number written in decimal digits in both.
    pub(super) fn node(self, number: u8) -> IpAddr {
        match self {
            Self::Ipv4 => Ipv4Addr::new(192, 168, 66, 100 + number).into(),
            Self::Ipv6 => {
                let digits = u16::from(number / 10) << 4 | u16::from(number % 10);
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100 | digits).into()
            }
        }
    }

    /// The wildcard address.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Self::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_digits_in_both_families() {
        for (number, v4, v6) in [
            (1, "192.168.66.101", "fd00::101"),
            (10, "192.168.66.110", "fd00::110"),
            (99, "192.168.66.199", "fd00::199"),
        ] {
            assert_eq!(Family::Ipv4.node(number).to_string(), v4);
            assert_eq!(Family::Ipv6.node(number).to_string(), v6);
        }
        for family in Family::ALL {
            let net = family.node_subnet();
            let addresses: Vec<_> =
                (1..=99).map(|n| family.node(n)).chain([family.control_plane()]).collect();
            assert!(addresses.iter().all(|address| net.contains(address)), "{addresses:?}");
            let distinct: std::collections::BTreeSet<_> = addresses.iter().collect();
            assert_eq!(distinct.len(), addresses.len());
        }
    }
}
