//! network: the shared namespace with its bridge, DHCP, DNS, NAT and the published API port.
//!
//! The namespace belongs to a container that does nothing else, so that a crash of dnsmasq, one
//! more sharer, strands nobody.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers::{self, ContainerError, Watch, component_name};
use crate::phases::{Context, NetworkFacts, PhaseId, images, konnectivity, wait};
use crate::ports::{ContainerPort, ContainerSpec, FileEntry, Mount, MountKind, Network, Runtime};
use crate::spec::networking::{API_PORT, CONTROL_PLANE_ADDRESS, NODE_SUBNET};
use crate::spec::{ClusterSpec, Component, MAX_NODE_NUMBER, NodeKind, NodeSpec};

/// User and group of every container that needs no root: the `nonroot` of many images.
pub(super) const NONROOT: &str = "65532:65532";

/// Where etcd keeps its data, in etcd's container and in the owner's.
pub(super) const ETCD_DATA: &str = "/var/lib/etcd";

/// How long the namespace may take; it takes less than a second on an idle engine.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum NetworkError {
    #[error("the engine published no port for {API_PORT} of {0}")]
    NotPublished(String),
    #[error(
        "listenAddress {address}: the engine's host can't publish there; name an address of that host whose ports \
         {ports} are free"
    )]
    Listen {
        address: SocketAddr,
        ports: String,
        #[source]
        source: ContainerError,
    },
    #[error("dnsmasq wrote facts that can't be read: {0:?}")]
    Facts(String),
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    apply(cx).boxed()
}

async fn apply(cx: &Context) -> Result<Outcome, PhaseError> {
    let runtime = &cx.ports.runtime;
    let name = &cx.spec.name;
    let owner_changed = containers::reconcile(runtime, name, Component::Owner.name(), owner(&cx.spec)).await;
    let owner_changed = owner_changed.map_err(|error| listen_trouble(&cx.spec, error))?;
    let changed = containers::reconcile(runtime, name, Component::Dnsmasq.name(), dnsmasq(&cx.spec)).await?;

    let api = published_port(runtime, &component_name(name, Component::Owner)).await?;
    let (mtu, nofile) = namespace_facts(runtime, &component_name(name, Component::Dnsmasq)).await?;
    let who = if api.ip().is_loopback() { "" } else { ": whoever reaches that address can talk to it" };
    cx.events.step(PhaseId::Network, format!("API port published at {api}{who}"));
    cx.outputs.network.set(NetworkFacts { api, mtu, nofile });
    Ok(Outcome::changed(owner_changed || changed))
}

/// The owner mounts etcd's data too, so that a tmpfs outlives etcd's own container.
fn owner(spec: &ClusterSpec) -> ContainerSpec {
    let limits = spec.component(Component::Owner);
    let mut owner = ContainerSpec::new(
        component_name(&spec.name, Component::Owner),
        images::reference(spec, "pause"),
        Network::Own,
    );
    owner.hostname = Some(spec.host_name());
    owner.user = Some(NONROOT.to_owned());
    owner.publish = published(spec);
    // The namespace routes between nodes, and from them to the outside.
    owner.sysctls.insert("net.ipv4.ip_forward".to_owned(), "1".to_owned());
    owner.mounts = vec![etcd_data(spec)];
    owner.memory_bytes = Some(limits.memory_bytes + tmpfs_bytes(spec));
    owner.cpu_millis = Some(limits.cpu_millis);
    owner
}

/// The API port; beside it that of konnectivity's agents, when some are elsewhere.
fn published(spec: &ClusterSpec) -> Vec<ContainerPort> {
    let Some(listen) = spec.listen_address else { return vec![ContainerPort::on_loopback(API_PORT)] };
    let agents = spec.publishes_konnectivity().then(|| ContainerPort {
        container: konnectivity::AGENT_PORT,
        host: SocketAddr::new(listen.ip(), konnectivity::AGENT_PORT),
    });
    [ContainerPort { container: API_PORT, host: listen }].into_iter().chain(agents).collect()
}

/// `ADDRESS,PORT,PORT-HERE`: what nodes send to the endpoint, the namespace serves itself. By way of
/// the engine's host it would come back to where it started.
fn redirects(spec: &ClusterSpec) -> String {
    let Some(endpoint) = &spec.control_plane_endpoint else { return String::new() };
    let ports = [(endpoint.port, API_PORT), (konnectivity::AGENT_PORT, konnectivity::AGENT_PORT)];
    let to = |address| ports.map(|(port, here)| format!("{address},{port},{here}")).join(" ");
    endpoint.addresses.iter().map(to).collect::<Vec<_>>().join(" ")
}

/// Pages of a tmpfs are charged to whoever touched them first, which may be the owner.
fn tmpfs_bytes(spec: &ClusterSpec) -> u64 {
    if spec.etcd.durable { 0 } else { spec.etcd.tmpfs_bytes }
}

/// The volume of etcd's data.
pub(super) fn etcd_data(spec: &ClusterSpec) -> Mount {
    let name = format!("hoist-{}-etcd", spec.name);
    let kind = if spec.etcd.durable {
        MountKind::Volume(name)
    } else {
        MountKind::TmpfsVolume { name, bytes: spec.etcd.tmpfs_bytes }
    };
    Mount { target: ETCD_DATA.to_owned(), kind }
}

fn dnsmasq(spec: &ClusterSpec) -> ContainerSpec {
    let limits = spec.component(Component::Dnsmasq);
    let mut dnsmasq = ContainerSpec::new(
        component_name(&spec.name, Component::Dnsmasq),
        images::reference(spec, "network"),
        Network::Container(component_name(&spec.name, Component::Owner)),
    );
    dnsmasq.entrypoint = vec!["/bin/sh".to_owned(), "/etc/hoist/namespace.sh".to_owned()];
    dnsmasq
        .env
        .insert("BRIDGE_ADDRESS".to_owned(), format!("{CONTROL_PLANE_ADDRESS}/{}", NODE_SUBNET.prefix_len()));
    dnsmasq.env.insert("NODE_SUBNET".to_owned(), NODE_SUBNET.to_string());
    dnsmasq.env.insert("REDIRECTS".to_owned(), redirects(spec));
    // Bridge, address and NAT; raw sockets for DHCP; ports 53 and 67. With the rest dnsmasq gives
    // its lease file and itself to an unprivileged user, who keeps the first three.
    dnsmasq.capabilities =
        ["NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE", "CHOWN", "SETGID", "SETUID"].map(str::to_owned).to_vec();
    dnsmasq.mounts = vec![
        Mount { target: "/etc/hoist".to_owned(), kind: MountKind::Anonymous },
        Mount { target: "/run".to_owned(), kind: MountKind::Tmpfs { bytes: Some(16 << 20), exec: false } },
    ];
    let file = |path: &str, content: &str| FileEntry {
        path: path.to_owned(),
        mode: 0o600,
        content: content.as_bytes().to_vec(),
    };
    dnsmasq.files = vec![
        file("/etc/hoist/namespace.sh", include_str!("namespace.sh")),
        file("/etc/hoist/dnsmasq.conf", &dnsmasq_conf(spec)),
    ];
    dnsmasq.memory_bytes = Some(limits.memory_bytes);
    dnsmasq.cpu_millis = Some(limits.cpu_millis);
    dnsmasq.restart = true;
    dnsmasq
}

/// dnsmasq's configuration (dnsmasq(8)). Every node number has its lease and name reserved, so that
/// a node added later needs no reload.
fn dnsmasq_conf(spec: &ClusterSpec) -> String {
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
         no-ping\n\
         dhcp-range={subnet},static,{mask},infinite\n\
         dhcp-option=option:router,{address}\n\
         dhcp-option=option:dns-server,{address}\n\
         host-record=control-plane,{address}\n",
        domain = spec.networking.dns_domain,
        subnet = NODE_SUBNET.network(),
        mask = NODE_SUBNET.netmask(),
        address = CONTROL_PLANE_ADDRESS,
    );
    for node in (1..=u32::from(MAX_NODE_NUMBER)).filter_map(|n| NodeSpec::new(n, NodeKind::Container).ok()) {
        let (name, mac, address) = (node.name(), node.mac(), node.address());
        let _ = writeln!(conf, "dhcp-host={mac},{address},{name}\nhost-record={name},{address}");
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

async fn published_port(runtime: &Arc<dyn Runtime>, owner: &str) -> Result<std::net::SocketAddr, PhaseError> {
    let state = runtime.inspect(owner).await?.ok_or_else(|| ContainerError::Gone(owner.to_owned()))?;
    let port = state.published.iter().find(|port| port.container == API_PORT);
    Ok(port.map(|port| port.host).ok_or_else(|| NetworkError::NotPublished(owner.to_owned()))?)
}

/// Engines say it in words of their own: a port that is taken, an address the host doesn't have.
fn listen_trouble(spec: &ClusterSpec, error: ContainerError) -> PhaseError {
    const WORDS: [&str; 4] = ["already allocated", "already in use", "cannot assign", "can't assign"];
    let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
    let about_a_port = causes.any(|cause| {
        let text = cause.to_string().to_lowercase();
        WORDS.iter().any(|words| text.contains(words))
    });
    match spec.listen_address {
        Some(address) if about_a_port => {
            let ports: Vec<_> = published(spec).iter().map(|port| port.host.port().to_string()).collect();
            NetworkError::Listen { address, ports: ports.join(" and "), source: error }.into()
        }
        _ => error.into(),
    }
}

/// Waits until dnsmasq serves, and reads what it found out about the namespace. Both files are in
/// a tmpfs, and so of this very start.
async fn namespace_facts(runtime: &Arc<dyn Runtime>, dnsmasq: &str) -> Result<(u32, u64), PhaseError> {
    let watch = Watch::default();
    let look = ["/bin/sh", "-c", "test -s /run/dnsmasq.pid && cat /run/hoist-facts"];
    wait::until(DEADLINE, || async {
        watch.check(runtime, dnsmasq).await?;
        Ok(match runtime.exec(dnsmasq, &look, &[]).await {
            Ok(output) if output.code == 0 => wait::Poll::Ready(parse_facts(&output.stdout)?),
            Ok(_) => wait::Poll::Pending("dnsmasq has not started".to_owned()),
            // It may be between two starts.
            Err(error) => wait::Poll::Pending(error.to_string()),
        })
    })
    .await
}

/// Reads `mtu=1500 nofile=20000`.
fn parse_facts(line: &str) -> Result<(u32, u64), NetworkError> {
    let value = |key: &str| {
        line.split_whitespace().find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
    };
    let facts = || {
        let mtu = value("mtu")?.parse().ok()?;
        let nofile = match value("nofile")?.as_str() {
            "unlimited" => u64::MAX,
            number => number.parse().ok()?,
        };
        Some((mtu, nofile))
    };
    facts().ok_or_else(|| NetworkError::Facts(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_whole_or_refused() {
        assert!(matches!(parse_facts("mtu=1500 nofile=20000\n"), Ok((1500, 20_000))));
        assert!(matches!(parse_facts("mtu=1400 nofile=unlimited"), Ok((1400, u64::MAX))));
        for bad in ["", "mtu=x nofile=1", "mtu=1500"] {
            assert!(parse_facts(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
