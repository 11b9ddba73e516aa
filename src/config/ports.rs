//! Ports of the host that lead to ports of the nodes.

use std::net::SocketAddr;

use hoist_phases::spec::{
    ClusterSpec, MAX_MAPPINGS, MAX_NODE_NUMBER, NodeKind, NodeSpec, PortMapping, Protocol,
};

use super::file::PortFile;
use super::problem::{Problem, Problems};

/// Reads what the flag says: `[IP:]HOST-PORT:PORT[/udp][@NODE]`. What is wrong with its parts is found
/// with those of the file.
pub(super) fn from_flag(text: &str) -> PortFile {
    let (rest, node) = match text.rsplit_once('@') {
        Some((rest, node)) => (rest, Some(node.to_owned())),
        None => (text, None),
    };
    let (rest, protocol) = match rest.rsplit_once('/') {
        Some((rest, protocol)) => (rest, Some(protocol.to_uppercase())),
        None => (rest, None),
    };
    // One number alone is that of both.
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, rest));
    PortFile { host: Some(host.to_owned()), port: port.to_owned(), protocol, node }
}

pub(super) fn mappings(files: Vec<PortFile>, problems: &mut Problems) -> Vec<PortMapping> {
    if files.len() > MAX_MAPPINGS {
        problems.push(Problem::new("ports", files.len(), format_args!("at most {MAX_MAPPINGS}")));
        return Vec::new();
    }
    let mut mappings = Vec::<PortMapping>::new();
    for (index, file) in files.into_iter().enumerate() {
        let Some(mapping) = mapping(index, file, problems) else { continue };
        if let Some(other) = mappings.iter().find(|other| other.collides(&mapping)) {
            let rule =
                format!("leads to port {} already; choose another, or 0 for any that is free", other.port);
            let host = format!("{}/{}", mapping.host, mapping.protocol.lower());
            problems.push(Problem::new(&format!("ports[{index}].host"), host, rule));
        }
        mappings.push(mapping);
    }
    mappings
}

fn mapping(index: usize, file: PortFile, problems: &mut Problems) -> Option<PortMapping> {
    let PortFile { host, port, protocol, node } = file;
    let field = |name: &str| format!("ports[{index}].{name}");
    let wrong =
        |name: &str, text: &str, rule: &str| Problem::new(&field(name), format_args!("{text:?}"), rule);
    let host = match host.as_deref().unwrap_or("0") {
        text if text.parse::<u16>().is_ok() => {
            text.parse().map(|port| SocketAddr::new(PortMapping::LOOPBACK, port)).ok()
        }
        text => text.parse::<SocketAddr>().ok(),
    }
    .ok_or_else(|| {
        let rule = "must be a port of the host, 0 for one of the engine's choice, or IP:PORT (127.0.0.1:8080, [::1]:8080)";
        wrong("host", host.as_deref().unwrap_or_default(), rule)
    });
    let number = port.parse().ok().filter(|port| *port > 0);
    let number = number.ok_or_else(|| wrong("port", &port, "must be a port of the nodes, from 1 to 65535"));
    let named = protocol.as_deref().map_or(Some(Protocol::Tcp), |text| {
        Protocol::ALL.into_iter().find(|protocol| protocol.to_string() == text)
    });
    let named =
        named.ok_or_else(|| wrong("protocol", protocol.as_deref().unwrap_or_default(), "must be TCP or UDP"));
    let node = node.map(|name| {
        number_of(&name)
            .ok_or_else(|| wrong("node", &name, "must be the name of a node of hoist's, node01 to node99"))
    });
    let (host, port, protocol, node) =
        (problems.keep(host), problems.keep(number), problems.keep(named), problems.keep(node.transpose()));
    Some(PortMapping { host: host?, port: port?, protocol: protocol?, node: node? })
}

fn number_of(name: &str) -> Option<u8> {
    (1..=MAX_NODE_NUMBER).find(|number| node_name(*number).is_some_and(|known| known == name))
}

/// Name of the node of a number.
pub(super) fn node_name(number: u8) -> Option<String> {
    NodeSpec::new(u32::from(number), NodeKind::Container).ok().map(|node| node.name())
}

/// Rules between the mappings and other settings.
pub(super) fn check(spec: &ClusterSpec, problems: &mut Problems) {
    let api =
        spec.listen_address.map(|host| PortMapping { host, port: 6443, protocol: Protocol::Tcp, node: None });
    for (index, mapping) in spec.ports.iter().enumerate() {
        if api.as_ref().is_some_and(|api| api.collides(mapping)) {
            let rule = "is the listenAddress of the API server; choose another";
            problems.push(Problem::new(&format!("ports[{index}].host"), mapping.host, rule));
        }
    }
}

/// As the file has it.
pub(super) fn file(mapping: &PortMapping) -> PortFile {
    let PortMapping { host, port, protocol, node } = mapping;
    PortFile {
        host: Some(host.to_string()),
        port: port.to_string(),
        protocol: Some(protocol.to_string()),
        node: node.and_then(node_name),
    }
}
