use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{ClusterSpec, Reach};

/// Where machines outside the cluster's own network reach the API server; nodes and pods inside
/// know it by the same address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// An IP address or a DNS name.
    pub host: String,
    pub port: u16,
    /// What `host` stands for; of a name, as it was resolved by the run that set it.
    pub addresses: Vec<IpAddr>,
}

/// `HOST:PORT`, an IPv6 address in brackets.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&authority(&self.host, self.port))
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl ClusterSpec {
    /// Host name or address by which nodes and pods know the control plane.
    pub fn api_host(&self) -> String {
        let endpoint = self.control_plane_endpoint.as_ref();
        endpoint.map_or_else(|| self.networking.control_plane().to_string(), |endpoint| endpoint.host.clone())
    }

    /// The same with the API server's port, `HOST:PORT`.
    pub fn api_authority(&self) -> String {
        let endpoint = self.control_plane_endpoint.as_ref();
        endpoint.map_or_else(|| authority(&self.api_host(), self.api_port()), Endpoint::to_string)
    }

    /// Where the API server listens in the shared namespace.
    pub fn api_port(&self) -> u16 {
        self.api_server.port
    }

    /// Whether agents of konnectivity dial in from outside the cluster's own network.
    pub fn publishes_konnectivity(&self) -> bool {
        self.reach == Reach::Konnectivity && self.control_plane_endpoint.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::test_spec;

    #[test]
    fn nodes_know_the_control_plane_by_its_endpoint() {
        let mut spec = test_spec();
        assert_eq!(spec.api_authority(), "192.168.66.2:6443");
        let endpoint = |host: &str| Endpoint { host: host.into(), port: 7443, addresses: Vec::new() };
        spec.control_plane_endpoint = Some(endpoint("fd00::5"));
        assert_eq!((spec.api_authority().as_str(), spec.api_host().as_str()), ("[fd00::5]:7443", "fd00::5"));
        spec.control_plane_endpoint = Some(endpoint("api.example.org"));
        assert_eq!(spec.api_authority(), "api.example.org:7443");
    }
}
