//! The ports that a cluster publishes, and `ports`.

use bollard::models::PortMap;
use clap::ValueEnum;

use super::Cluster;
use super::args::PortArgs;
use crate::error::BoxError;
use crate::report;

/// Ports that the network namespace of a cluster publishes, as the scripts call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PortName {
    Ssh,
    SshWorker,
    Registry,
    Ocp,
    Console,
    K8s,
    Vnc,
    Http,
    Https,
    Prometheus,
    Grafana,
    Uploadproxy,
    UploadproxyLowerband,
    Dns,
}

impl PortName {
    /// Number and protocol within, as the engine writes them.
    pub fn within(self) -> &'static str {
        match self {
            Self::Ssh => "2201/tcp",
            Self::SshWorker => "2202/tcp",
            Self::Registry => "5000/tcp",
            Self::Ocp => "8443/tcp",
            Self::K8s => "6443/tcp",
            Self::Vnc => "5901/tcp",
            Self::Http => "80/tcp",
            // One port by two names.
            Self::Https | Self::Console => "443/tcp",
            Self::Prometheus => "30007/tcp",
            Self::Grafana => "30008/tcp",
            Self::Uploadproxy => "31001/tcp",
            Self::UploadproxyLowerband => "30085/tcp",
            Self::Dns => "31111/udp",
        }
    }
}

/// What is published for every cluster.
pub(super) const EXPOSED: [PortName; 12] = [
    PortName::Ssh,
    PortName::Registry,
    PortName::Ocp,
    PortName::K8s,
    PortName::Vnc,
    PortName::Http,
    PortName::Https,
    PortName::Prometheus,
    PortName::Grafana,
    PortName::Uploadproxy,
    PortName::UploadproxyLowerband,
    PortName::Dns,
];

/// The ports asked for by number, in the order of the flags.
pub(super) fn asked_for(ports: &PortArgs) -> Vec<(PortName, u16)> {
    let PortArgs {
        vnc_port,
        http_port,
        https_port,
        registry_port,
        ocp_port,
        k8s_port,
        ssh_port,
        prometheus_port,
        grafana_port,
        dns_port,
    } = ports;
    let all = [
        (PortName::Vnc, vnc_port),
        (PortName::Http, http_port),
        (PortName::Https, https_port),
        (PortName::Registry, registry_port),
        (PortName::Ocp, ocp_port),
        (PortName::K8s, k8s_port),
        (PortName::Ssh, ssh_port),
        (PortName::Prometheus, prometheus_port),
        (PortName::Grafana, grafana_port),
        (PortName::Dns, dns_port),
    ];
    all.into_iter().filter_map(|(name, port)| Some((name, (*port)?))).collect()
}

#[derive(Debug, thiserror::Error)]
pub enum PortsError {
    #[error("there is no container {0}")]
    NoContainer(String),
    #[error("port {0} is not published on the host")]
    NotPublished(&'static str),
}

pub(super) async fn run(cluster: &Cluster, port: Option<PortName>, container: &str) -> Result<(), BoxError> {
    let ports = of_container(cluster, container).await?;
    let text = match port {
        Some(port) => format!("{}\n", published(&ports, port)?),
        None => all(&ports),
    };
    Ok(report::data(text)?)
}

/// The number on the host of a port of the cluster's.
///
/// # Errors
/// When it isn't published.
pub(super) async fn on_host(cluster: &Cluster, port: PortName) -> Result<u16, PortsError> {
    published(&of_container(cluster, "dnsmasq").await?, port)
}

async fn of_container(cluster: &Cluster, container: &str) -> Result<PortMap, PortsError> {
    let name = cluster.container(container);
    let found = cluster.engine.docker().inspect_container(&name, None).await;
    let found = found.map_err(|_| PortsError::NoContainer(name))?;
    Ok(found.network_settings.and_then(|settings| settings.ports).unwrap_or_default())
}

/// The number on the host.
fn published(ports: &PortMap, port: PortName) -> Result<u16, PortsError> {
    let bindings = ports.get(port.within()).and_then(Option::as_ref);
    let mut numbers = bindings.into_iter().flatten().filter_map(|b| b.host_port.as_deref()?.parse().ok());
    numbers.next().ok_or(PortsError::NotPublished(port.within()))
}

/// Every port, a line each, in a stable order.
fn all(ports: &PortMap) -> String {
    let mut lines = Vec::new();
    for (port, bindings) in ports {
        for binding in bindings.iter().flatten() {
            let host = binding.host_ip.as_deref().unwrap_or_default();
            let number = binding.host_port.as_deref().unwrap_or_default();
            lines.push(format!("{port} -> {host}:{number}\n"));
        }
    }
    lines.sort();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use bollard::models::PortBinding;

    use super::*;

    fn ports() -> PortMap {
        let binding = |port: &str| PortBinding {
            host_ip: Some("0.0.0.0".to_owned()),
            host_port: Some(port.to_owned()),
        };
        [
            ("6443/tcp".to_owned(), Some(vec![binding("32768")])),
            ("31111/udp".to_owned(), Some(vec![binding("31111")])),
            ("2202/tcp".to_owned(), None),
        ]
        .into()
    }

    #[test]
    fn the_scripts_get_a_bare_number() {
        assert_eq!(published(&ports(), PortName::K8s).ok(), Some(32_768));
        assert_eq!(published(&ports(), PortName::Dns).ok(), Some(31_111));
        for absent in [PortName::SshWorker, PortName::Http] {
            assert!(matches!(published(&ports(), absent), Err(PortsError::NotPublished(_))));
        }
        assert_eq!(all(&ports()), "31111/udp -> 0.0.0.0:31111\n6443/tcp -> 0.0.0.0:32768\n");
    }

    #[test]
    fn names_are_those_of_the_scripts() {
        let names: Vec<_> = PortName::value_variants()
            .iter()
            .filter_map(|name| Some(name.to_possible_value()?.get_name().to_owned()))
            .collect();
        assert_eq!(
            names.join(" "),
            "ssh ssh-worker registry ocp console k8s vnc http https prometheus grafana uploadproxy \
             uploadproxy-lowerband dns"
        );
    }
}
