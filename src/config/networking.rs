//! Address ranges and families.

use std::net::IpAddr;

use hoist_phases::pki::San;
use hoist_phases::spec::networking::{DEFAULT_PODS, DEFAULT_SERVICES};
use hoist_phases::spec::{Family, Networking, Subnets, SubnetsError};
use ipnet::{Ipv4Net, Ipv6Net};

use super::file::NetworkingFile;
use super::problem::{Problem, Problems};

/// The address families of a cluster by name, and the default ranges that go with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IpFamily {
    Ipv4,
    Ipv6,
    Dual,
}

impl IpFamily {
    const ALL: [Self; 3] = [Self::Ipv4, Self::Ipv6, Self::Dual];

    fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Dual => "dual",
        }
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let found = Self::ALL.into_iter().find(|family| family.name() == text);
        found.ok_or_else(|| {
            Problem::new("networking.ipFamily", format_args!("{text:?}"), "must be ipv4, ipv6 or dual")
        })
    }

    /// Whether ranges are of these families, in any order.
    fn fits(self, subnets: &Subnets) -> bool {
        let has = |family| subnets.families().any(|other| other == family);
        (has(Family::Ipv4), has(Family::Ipv6))
            == match self {
                Self::Ipv4 => (true, false),
                Self::Ipv6 => (false, true),
                Self::Dual => (true, true),
            }
    }

    fn choose(self, (ipv4, ipv6): (Ipv4Net, Ipv6Net)) -> Subnets {
        match self {
            Self::Ipv4 => Subnets::single(ipv4.into()),
            Self::Ipv6 => Subnets::single(ipv6.into()),
            Self::Dual => Subnets::dual(ipv4, ipv6),
        }
    }
}

/// Puts what is said into the specification. A family chooses the ranges that nobody named, unless
/// those of the cluster are of it already.
pub(super) fn apply(networking: &mut Networking, file: NetworkingFile, problems: &mut Problems) {
    let NetworkingFile {
        ip_family,
        pod_subnet,
        service_subnet,
        node_mask_size_ipv4,
        node_mask_size_ipv6,
        dns_domain,
        mtu,
        dns_records,
    } = file;
    let family = ip_family.and_then(|text| problems.keep(IpFamily::parse(&text)));
    for (field, subnets, text, defaults) in [
        ("networking.podSubnet", &mut networking.pod_subnet, pod_subnet, DEFAULT_PODS),
        ("networking.serviceSubnet", &mut networking.service_subnet, service_subnet, DEFAULT_SERVICES),
    ] {
        match (text, family) {
            (Some(text), family) => {
                if let Some(read) = problems.keep(read(field, &text, family)) {
                    *subnets = read;
                }
            }
            (None, Some(family)) if !family.fits(subnets) => *subnets = family.choose(defaults),
            (None, _) => {}
        }
    }
    networking.node_mask_size_ipv4 = node_mask_size_ipv4.unwrap_or(networking.node_mask_size_ipv4);
    networking.node_mask_size_ipv6 = node_mask_size_ipv6.unwrap_or(networking.node_mask_size_ipv6);
    if let Some(domain) = dns_domain {
        networking.dns_domain = domain;
    }
    if let Some(mtu) = mtu {
        problems.keep(check_mtu(mtu, networking.has(Family::Ipv6)));
        networking.mtu = Some(mtu);
    }
    if let Some(records) = dns_records {
        networking.dns_records = records
            .into_iter()
            .filter_map(|(name, addresses)| problems.keep(record(name, &addresses)))
            .collect();
    }
}

/// The least that IPv4 (RFC 791) and IPv6 (RFC 8200) must get through, and the most of Ethernet.
fn check_mtu(mtu: u32, ipv6: bool) -> Result<(), Problem> {
    let least = if ipv6 { 1280 } else { 576 };
    let rule = format!("must be from {least} to 65535");
    if (least..=65535).contains(&mtu) { Ok(()) } else { Err(Problem::new("networking.mtu", mtu, rule)) }
}

fn record(name: String, addresses: &[String]) -> Result<(String, Vec<IpAddr>), Problem> {
    let field = format!("networking.dnsRecords.{name}");
    match San::parse(&name) {
        Ok(San::Dns(host)) if !host.starts_with('*') => {}
        _ => return Err(Problem::of(&field, "must be a DNS name such as registry.example.org")),
    }
    let parse = |text: &String| {
        text.parse::<IpAddr>()
            .map_err(|_| Problem::new(&field, format_args!("{text:?}"), "must be an IP address"))
    };
    let addresses: Vec<_> = addresses.iter().map(parse).collect::<Result<_, _>>()?;
    if addresses.is_empty() {
        return Err(Problem::of(&field, "names no address"));
    }
    Ok((name, addresses))
}

/// The name of the families that ranges are of.
pub(super) fn family_of(subnets: &Subnets) -> &'static str {
    IpFamily::ALL.into_iter().find(|family| family.fits(subnets)).map_or("", IpFamily::name)
}

fn read(field: &str, text: &str, family: Option<IpFamily>) -> Result<Subnets, Problem> {
    let wrong = |rule: String| Problem::new(field, format_args!("{text:?}"), rule);
    let subnets: Subnets = text.parse().map_err(|error: SubnetsError| wrong(error.to_string()))?;
    match family {
        Some(family) if !family.fits(&subnets) => {
            Err(wrong(format!("must be of the families that --ip-family asks for, {}", family.name())))
        }
        _ => Ok(subnets),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use super::*;
    use crate::config::origin::Origins;

    fn resolved(family: Option<&str>, pods: Option<&str>, services: Option<&str>) -> Result<String, String> {
        let given = |text: Option<&str>| text.map(str::to_owned);
        let mut networking = Networking::default();
        let mut problems = Problems::default();
        let file = NetworkingFile {
            ip_family: given(family),
            pod_subnet: given(pods),
            service_subnet: given(services),
            ..NetworkingFile::default()
        };
        apply(&mut networking, file, &mut problems);
        problems.into_result(&Origins::default()).map_err(|error| error.to_string())?;
        Ok(format!("{} {}", networking.pod_subnet, networking.service_subnet))
    }

    #[test]
    fn a_family_chooses_the_ranges_that_nobody_named() {
        for (family, pods, services, wanted) in [
            (None, None, None, "10.244.0.0/16 10.96.0.0/12"),
            (Some("ipv4"), Some("10.1.0.0/16"), None, "10.1.0.0/16 10.96.0.0/12"),
            (Some("ipv6"), None, None, "fd10:244::/56 fd10:96::/112"),
            (Some("ipv6"), Some("fd11::/56"), None, "fd11::/56 fd10:96::/112"),
            (Some("dual"), None, None, "10.244.0.0/16,fd10:244::/56 10.96.0.0/12,fd10:96::/112"),
            (
                Some("dual"),
                Some("fd11::/56,10.1.0.0/16"),
                None,
                "fd11::/56,10.1.0.0/16 10.96.0.0/12,fd10:96::/112",
            ),
            (None, Some("fd11::/56"), Some("fd12::/112"), "fd11::/56 fd12::/112"),
        ] {
            assert_eq!(resolved(family, pods, services).as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn a_range_of_another_family_is_refused() {
        for (family, pods, part) in [
            (Some("six"), None, "must be ipv4, ipv6 or dual"),
            (
                Some("ipv6"),
                Some("10.1.0.0/16"),
                "networking.podSubnet \"10.1.0.0/16\": must be of the families",
            ),
            (Some("dual"), Some("10.1.0.0/16"), "dual"),
            (Some("ipv4"), Some("10.1.0.0/16,fd11::/56"), "ipv4"),
            (None, Some("10.1.0.1/16"), "host bits set; the range is 10.1.0.0/16"),
        ] {
            let error = resolved(family, pods, None).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
