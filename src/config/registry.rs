//! The cluster's own registry.

use hoist_phases::spec::{ClusterSpec, PortMapping, Protocol, REGISTRY_HOST, Registry};

use super::file::RegistryFile;
use super::problem::{Problem, Problems};

/// Puts what the file says over what is there.
pub(super) fn apply(spec: &mut Option<Registry>, file: RegistryFile, problems: &mut Problems) {
    let RegistryFile { enabled, port } = file;
    if !enabled.unwrap_or(spec.is_some()) {
        if let Some(port) = port.filter(|port| *port != 0) {
            let rule = "there is no registry to publish; add --registry, or registry.enabled: true";
            problems.push(Problem::new("registry.port", port, rule));
        }
        *spec = None;
        return;
    }
    let present = spec.map(|registry| registry.port).unwrap_or_default();
    *spec = Some(Registry { port: port.unwrap_or(present) });
}

/// Rules between it and other settings.
pub(super) fn check(spec: &ClusterSpec, problems: &mut Problems) {
    let Some(Registry { port }) = spec.registry else { return };
    let at = |host| PortMapping { host, port, protocol: Protocol::Tcp, node: None };
    let own = at(std::net::SocketAddr::new(PortMapping::LOOPBACK, port));
    let api = spec.listen_address.is_some_and(|host| at(host).collides(&own));
    if api || spec.ports.iter().any(|mapping| mapping.collides(&own)) {
        let rule = "leads elsewhere by listenAddress or ports; choose another, or 0 for any that is free";
        problems.push(Problem::new("registry.port", port, rule));
    }
    if spec.networking.dns_records.contains_key(REGISTRY_HOST) {
        let rule = "is the name of the cluster's own registry; choose another, or leave out `registry`";
        problems.push(Problem::new("networking.dnsRecords", REGISTRY_HOST, rule));
    }
}

/// As the file has it.
pub(super) fn file(spec: Option<Registry>) -> RegistryFile {
    let port = spec.map(|registry| registry.port).unwrap_or_default();
    RegistryFile { enabled: Some(spec.is_some()), port: Some(port) }
}
