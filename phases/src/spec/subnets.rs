use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::Family;

/// One range, or one of each family. The first family is the cluster's primary one, as in kubeadm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnets {
    first: IpNet,
    second: Option<IpNet>,
}

/// Why a text is no list of ranges.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SubnetsError {
    #[error("must be a range such as 10.1.0.0/16 or fd10::/56, or one of each family")]
    Syntax,
    #[error("{given} has host bits set; the range is {range}")]
    HostBits { given: IpNet, range: IpNet },
    #[error("holds two ranges of one family; at most one of {0} is possible")]
    SameFamily(Family),
}

impl Subnets {
    /// # Errors
    /// When a range has host bits set, or both are of one family.
    pub fn new(first: IpNet, second: Option<IpNet>) -> Result<Self, SubnetsError> {
        let subnets = Self { first, second };
        if let Some(given) = subnets.iter().find(|net| *net != net.trunc()) {
            return Err(SubnetsError::HostBits { given, range: given.trunc() });
        }
        match second {
            Some(second) if family(second) == family(first) => Err(SubnetsError::SameFamily(family(first))),
            _ => Ok(subnets),
        }
    }

    /// One range; host bits are dropped.
    pub fn single(net: IpNet) -> Self {
        Self { first: net.trunc(), second: None }
    }

    /// One range of each family, IPv4 first; host bits are dropped.
    pub fn dual(ipv4: Ipv4Net, ipv6: Ipv6Net) -> Self {
        Self { first: ipv4.trunc().into(), second: Some(ipv6.trunc().into()) }
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> + use<> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    pub fn primary(&self) -> IpNet {
        self.first
    }

    /// In order.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        self.iter().map(family)
    }
}

pub(super) fn family(net: IpNet) -> Family {
    Family::of(net.addr())
}

/// The address that lies so far behind the first of a range.
pub(super) fn nth(net: IpNet, offset: u32) -> IpAddr {
    match net {
        IpNet::V4(net) => IpAddr::V4(u32::from(net.network()).saturating_add(offset).into()),
        IpNet::V6(net) => IpAddr::V6(u128::from(net.network()).saturating_add(offset.into()).into()),
    }
}

impl fmt::Display for Subnets {
    /// As kubeadm and the components' flags take it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.second.iter().try_for_each(|second| write!(f, ",{second}"))
    }
}

impl FromStr for Subnets {
    type Err = SubnetsError;
    fn from_str(text: &str) -> Result<Self, SubnetsError> {
        let net = |text: &str| text.trim().parse::<IpNet>().map_err(|_| SubnetsError::Syntax);
        match text.split_once(',') {
            None => Self::new(net(text)?, None),
            Some((first, second)) => Self::new(net(first)?, Some(net(second)?)),
        }
    }
}

impl TryFrom<String> for Subnets {
    type Error = SubnetsError;
    fn try_from(text: String) -> Result<Self, SubnetsError> {
        text.parse()
    }
}

impl From<Subnets> for String {
    fn from(subnets: Subnets) -> Self {
        subnets.to_string()
    }
}

/// Ranges of any kind, for tests.
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
pub(super) mod testing {
    use proptest::prelude::*;

    use super::*;

    /// Of either family, without host bits.
    pub(crate) fn any_net() -> impl Strategy<Value = IpNet> {
        let v4 =
            (any::<u32>(), 0_u8..=32).prop_map(|(bits, length)| IpNet::new(IpAddr::V4(bits.into()), length));
        let v6 = (any::<u128>(), 0_u8..=128)
            .prop_map(|(bits, length)| IpNet::new(IpAddr::V6(bits.into()), length));
        prop_oneof![v4, v6].prop_map(|net| net.unwrap().trunc())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::testing::any_net;
    use super::*;

    #[test]
    fn one_range_or_one_of_each_family() {
        for (text, families) in [
            ("10.1.0.0/16", "[Ipv4]"),
            ("fd10::/56", "[Ipv6]"),
            ("10.1.0.0/16,fd10::/56", "[Ipv4, Ipv6]"),
            ("fd10::/56, 10.1.0.0/16", "[Ipv6, Ipv4]"),
        ] {
            let subnets: Subnets = text.parse().unwrap();
            assert_eq!(format!("{:?}", subnets.families().collect::<Vec<_>>()), families, "{text}");
            assert_eq!(subnets.to_string(), text.replace(' ', ""));
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "must be a range"),
            (",", "must be a range"),
            ("10.1.0.0/16,", "must be a range"),
            ("10.1.0.0", "must be a range"),
            ("10.1.0.0/33", "must be a range"),
            ("fd10::/129", "must be a range"),
            ("10.1.0.0/16,fd10::/56,10.2.0.0/16", "must be a range"),
            ("10.1.0.0/16,10.2.0.0/16", "at most one of IPv4"),
            ("fd10::/56,fd11::/56", "at most one of IPv6"),
            ("10.1.0.1/16", "the range is 10.1.0.0/16"),
            ("10.1.0.0/16,fd10::1/56", "the range is fd10::/56"),
        ] {
            let error = text.parse::<Subnets>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(first in any_net(), second in proptest::option::of(any_net())) {
            match Subnets::new(first, second) {
                Ok(subnets) => prop_assert_eq!(subnets.to_string().parse(), Ok(subnets)),
                Err(error) => {
                    prop_assert_eq!(second.map(family), Some(family(first)));
                    prop_assert_eq!(error, SubnetsError::SameFamily(family(first)));
                }
            }
        }

        #[test]
        fn the_nth_address_lies_in_a_range_that_is_large_enough(net in any_net(), offset in 0_u32..16) {
            let bits = family(net).bits();
            prop_assume!(bits - net.prefix_len() >= 4);
            prop_assert!(net.contains(&nth(net, offset)), "{net} {offset}");
        }

        #[test]
        fn addresses_follow_each_other(net in any_net(), offset in 0_u32..1000) {
            let first = nth(net, 0);
            prop_assert_eq!(first, net.network());
            let (a, b) = (nth(net, offset), nth(net, offset + 1));
            // Nothing comes after the last address there is.
            let last = [IpAddr::V4(u32::MAX.into()), IpAddr::V6(u128::MAX.into())];
            prop_assert_eq!(a < b, !last.contains(&a));
        }

        #[test]
        fn no_text_is_misread(text in "[0-9a-f:.,/ ]{0,40}") {
            if let Ok(subnets) = text.parse::<Subnets>() {
                prop_assert_eq!(subnets.to_string().parse(), Ok(subnets));
            }
        }
    }
}
