use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CERTS, CertSpec};
use crate::spec::ClusterSpec;

/// A subject alternative name: what a client may dial and find the certificate valid for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum San {
    Dns(String),
    Ip(IpAddr),
}

/// Why a text can't be a subject alternative name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SanError {
    #[error("extraSans {0:?}: must be an IP address or a DNS name")]
    Neither(String),
    #[error("extraSans {0}: a wildcard address names no host; give the addresses clients dial")]
    Wildcard(IpAddr),
}

impl fmt::Display for San {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}

impl San {
    /// Reads an IP address or a DNS name (RFC 1123, `*.` allowed in front; RFC 5280, 4.2.1.6).
    ///
    /// # Errors
    /// When it is neither, or a wildcard address, which names no host.
    pub fn parse(text: &str) -> Result<Self, SanError> {
        match text.parse::<IpAddr>() {
            Ok(address) if address.is_unspecified() => Err(SanError::Wildcard(address)),
            Ok(address) => Ok(Self::Ip(address.to_canonical())),
            Err(_) if is_host_name(text) => Ok(Self::Dns(text.to_ascii_lowercase())),
            Err(_) => Err(SanError::Neither(text.to_owned())),
        }
    }
}

/// Letters, digits and hyphens in labels of 1 to 63, 253 in all. An all-digit last label is a
/// mistyped IPv4 address: no top-level domain is a number.
fn is_host_name(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && name.split('.').all(label) && !last.bytes().all(|b| b.is_ascii_digit())
}

/// What the certificates of one cluster depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PkiInputs {
    /// Host name of the control plane.
    pub host_name: String,
    /// Names and addresses of the API server.
    pub api_server: BTreeSet<San>,
    /// Names and addresses of etcd; none when the cluster has none of its own.
    pub etcd: BTreeSet<San>,
    /// What konnectivity's agents dial.
    pub konnectivity: BTreeSet<San>,
}

impl PkiInputs {
    /// Takes the names from a spec. The engine publishes the API port on loopback or on the spec's listen
    /// address; any other address clients dial is the endpoint or one of the spec's extra SANs.
    ///
    /// # Errors
    /// The first of `extra_sans` that is neither an IP address nor a DNS name.
    pub fn new(spec: &ClusterSpec) -> Result<Self, SanError> {
        let host_name = spec.host_name();
        let mut local = BTreeSet::from([
            San::Dns(host_name.clone()),
            San::Dns("localhost".to_owned()),
            San::Ip(Ipv4Addr::LOCALHOST.into()),
            San::Ip(Ipv6Addr::LOCALHOST.into()),
        ]);
        local.extend(spec.networking.families().map(|family| San::Ip(family.control_plane())));
        let service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned);
        let full = format!("kubernetes.default.svc.{}", spec.networking.dns_domain);
        let extra = spec.extra_sans.iter().map(|text| San::parse(text)).collect::<Result<Vec<_>, _>>()?;

        let mut api_server = local.clone();
        api_server.extend(service.into_iter().chain([full]).map(San::Dns));
        api_server.extend(spec.networking.kubernetes_services().map(San::Ip));
        api_server.extend(extra);
        let listen = spec.listen_address.map(|at| at.ip()).filter(|ip| !ip.is_unspecified());
        api_server.extend(listen.map(San::Ip));
        let mut konnectivity = BTreeSet::from([San::Ip(spec.networking.control_plane())]);
        if let Some(endpoint) = &spec.control_plane_endpoint {
            let names = endpoint.addresses.iter().copied().map(San::Ip).chain([San::parse(&endpoint.host)?]);
            konnectivity.extend(names);
            api_server.extend(konnectivity.iter().cloned());
        }
        let etcd = if spec.etcd.backend.component().is_some() { local } else { BTreeSet::new() };
        Ok(Self { host_name, api_server, etcd, konnectivity })
    }

    /// The certificates that the cluster needs, CAs first.
    pub fn certs(&self) -> impl Iterator<Item = &'static CertSpec> + use<> {
        let etcd = !self.etcd.is_empty();
        CERTS.iter().filter(move |spec| etcd || !spec.is_of_etcd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_names() {
        let ip = |s: &str| s.parse().map(San::Ip).map_err(|_| SanError::Neither(s.to_owned()));
        for (text, same) in
            [("10.0.0.5", "10.0.0.5"), ("fd00:0::1", "fd00::1"), ("::ffff:10.0.0.5", "10.0.0.5")]
        {
            assert_eq!(San::parse(text), ip(same), "{text}");
        }
        for (text, name) in [("API.Example.com", "api.example.com"), ("*.k8s.test", "*.k8s.test"), ("a", "a")]
        {
            assert_eq!(San::parse(text), Ok(San::Dns(name.to_owned())), "{text}");
        }
    }

    #[test]
    fn refuses_what_no_client_could_dial() {
        let long = format!("{}.test", "a".repeat(64));
        let bad = [
            "",
            " ",
            "a b",
            "a..b",
            ".a",
            "a.",
            "-a.test",
            "a_b",
            "ä.test",
            "*",
            "*.",
            "a.*.b",
            "10.0.0.256",
            "10.0.0",
            "[::1]",
            "fe80::1%eth0",
            "10.0.0.0/8",
            "https://a",
            "a:6443",
            &long,
        ];
        for text in bad {
            assert_eq!(San::parse(text), Err(SanError::Neither(text.to_owned())), "{text:?}");
        }
        for text in ["0.0.0.0", "::"] {
            assert!(matches!(San::parse(text), Err(SanError::Wildcard(_))), "{text:?}");
        }
    }
}
