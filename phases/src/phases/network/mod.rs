//! network: the shared namespace with its bridge, DHCP, DNS, NAT and the published API port.
//!
//! The namespace belongs to a container that does nothing else, so that a crash of dnsmasq, one
//! more sharer, strands nobody. Nothing is configured of an address family that no range is of.

pub mod attach;
mod dnsmasq;

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers::{self, ContainerError, Watch, component_name, name_prefix};
use crate::phases::{Context, NetworkFacts, PhaseId, images, konnectivity, wait};
use crate::ports::{
    ContainerPort, ContainerSpec, ContainerState, FileEntry, Mount, MountKind, Network, PublishedPort,
    Runtime,
};
use crate::spec::{
    ClusterSpec, Component, Family, Owner, PortMapping, Protocol, REGISTRY_PORT, Subnets, mapped,
};

/// User and group of every container that needs no root: the `nonroot` of many images.
pub const NONROOT: &str = "65532:65532";

/// Where etcd or kine keeps its data, in its container and in the owner's.
pub const ETCD_DATA: &str = "/var/lib/etcd";

/// How long the namespace may take; it takes less than a second on an idle engine.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum NetworkError {
    #[error("the engine published no port for {port} of {owner}")]
    NotPublished { owner: String, port: u16 },
    #[error(
        "ports: the engine's host can't publish {ports}; name addresses of that host whose ports are free, or port 0 \
         for any that is"
    )]
    Mapped {
        ports: String,
        #[source]
        source: ContainerError,
    },
    #[error(
        "registry.port {port}: the engine's host can't publish it; name a port that is free there, or 0 for any that is"
    )]
    Registry {
        port: u16,
        #[source]
        source: ContainerError,
    },
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
    #[error(
        "networking.podSubnet {pods}: the engine's host has no IPv6; enable it there (kernel argument ipv6.disable, \
         sysctl net.ipv6), or choose --ip-family ipv4"
    )]
    NoIpv6 {
        pods: Subnets,
        #[source]
        source: ContainerError,
    },
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    apply(cx).boxed()
}

async fn apply(cx: &Context) -> Result<Outcome, PhaseError> {
    if let Owner::Attach(attach) = &cx.spec.owner {
        return attach::apply(cx, attach).await;
    }
    let runtime = &cx.ports.runtime;
    let name = &cx.spec.name;
    let owner_changed = containers::reconcile(runtime, name, Component::Owner.name(), owner(&cx.spec)).await;
    let owner_changed = owner_changed.map_err(|error| explain(&cx.spec, error))? || rejoin(cx).await?;
    let changed = containers::reconcile(runtime, name, Component::Dnsmasq.name(), dnsmasq(&cx.spec)).await?;

    let owner_name = component_name(&cx.spec, Component::Owner);
    let owner_state = runtime.inspect(&owner_name).await?.ok_or(ContainerError::Gone(owner_name))?;
    let api = published_at(&owner_state, cx.spec.api_port())?;
    let registry = cx.spec.registry.map(|_| published_at(&owner_state, REGISTRY_PORT)).transpose()?;
    let (mtu, nofile) = namespace_facts(runtime, &component_name(&cx.spec, Component::Dnsmasq)).await?;
    let who = if api.ip().is_loopback() { "" } else { ": whoever reaches that address can talk to it" };
    cx.events.step(PhaseId::Network, format!("API port published at {api}{who}"));
    for (mapping, host) in mapped_at(&cx.spec.ports, &owner_state.published) {
        cx.events.step(PhaseId::Network, format!("{host} leads to {mapping}"));
    }
    cx.outputs.network.set(NetworkFacts { api, registry, mtu, nofile });
    Ok(Outcome::changed(owner_changed || changed))
}

/// Makes an owner anew that runs without its ports, as one does that was taken off the engine's network: a start
/// alone doesn't put it back. `true` when it had to.
async fn rejoin(cx: &Context) -> Result<bool, PhaseError> {
    let runtime = &cx.ports.runtime;
    let name = component_name(&cx.spec, Component::Owner);
    let found = runtime.inspect(&name).await?.ok_or_else(|| ContainerError::Gone(name.clone()))?;
    if published_at(&found, cx.spec.api_port()).is_ok() {
        return Ok(false);
    }
    if cx.spec.etcd.in_memory() > 0
        && let Some(store) = cx.spec.etcd.backend.component()
    {
        // Somebody else has to hold the memory meanwhile. Where nobody can, the loss is told once the cluster is up.
        let store = component_name(&cx.spec, store);
        if runtime.inspect(&store).await?.is_some() {
            runtime.start(&store).await?;
        }
    }
    cx.events.step(PhaseId::Network, "the owner is off the engine's network: it is made anew".to_owned());
    runtime.remove(&name).await?;
    Ok(containers::reconcile(runtime, &cx.spec.name, Component::Owner.name(), owner(&cx.spec)).await?)
}

/// The owner mounts etcd's data too, so that a tmpfs outlives etcd's own container.
pub fn owner(spec: &ClusterSpec) -> ContainerSpec {
    let limits = spec.component(Component::Owner);
    let mut owner = ContainerSpec::new(
        component_name(spec, Component::Owner),
        images::reference(spec, "pause"),
        Network::Own,
    );
    owner.hostname = Some(spec.host_name());
    owner.user = Some(NONROOT.to_owned());
    owner.publish = everything_published(spec);
    // The namespace routes between nodes, and from them to the outside.
    owner.sysctls = sysctls(spec);
    owner.mounts = etcd_data(spec).into_iter().collect();
    owner.memory_bytes = Some(limits.memory_bytes + tmpfs_bytes(spec));
    owner.cpu_millis = Some(limits.cpu_millis);
    owner
}

/// The API port; beside it that of konnectivity's agents, when some are elsewhere.
pub fn published(spec: &ClusterSpec) -> Vec<ContainerPort> {
    let port = spec.api_port();
    let Some(listen) = spec.listen_address else { return vec![ContainerPort::on_loopback(port)] };
    let at = |container, host| ContainerPort { container, host, protocol: Protocol::Tcp };
    let agents = spec
        .publishes_konnectivity()
        .then(|| at(konnectivity::AGENT_PORT, SocketAddr::new(listen.ip(), konnectivity::AGENT_PORT)));
    [at(port, listen)].into_iter().chain(agents).collect()
}

/// All that the owner publishes.
fn everything_published(spec: &ClusterSpec) -> Vec<ContainerPort> {
    published(spec).into_iter().chain(relayed(spec)).chain(registry(spec)).collect()
}

/// `PORT,PROTOCOL,WHO`: what the namespace lets in from the engine's network. The API server asks everybody
/// who they are. What is published on loopback beside it may ask nobody, and is for the engine's host alone.
fn open(spec: &ClusterSpec) -> String {
    let known = published(spec).len();
    let rule = |(at, port): (usize, ContainerPort)| {
        let who = if at >= known && port.host.ip().is_loopback() { "host" } else { "any" };
        format!("{},{},{who}", port.container, port.protocol.lower())
    };
    everything_published(spec).into_iter().enumerate().map(rule).collect::<Vec<_>>().join(" ")
}

/// Those that the steward relays to nodes.
fn relayed(spec: &ClusterSpec) -> impl Iterator<Item = ContainerPort> {
    mapped(&spec.ports).map(|(container, PortMapping { host, protocol, .. })| ContainerPort {
        container,
        host: *host,
        protocol: *protocol,
    })
}

/// The cluster's registry, which whoever reaches it may write to: on loopback alone.
fn registry(spec: &ClusterSpec) -> Option<ContainerPort> {
    let host = SocketAddr::new(PortMapping::LOOPBACK, spec.registry?.port);
    Some(ContainerPort { container: REGISTRY_PORT, host, protocol: Protocol::Tcp })
}

/// `ADDRESS,PORT,PORT-HERE`: what nodes send to the endpoint, the namespace serves itself. By way of
/// the engine's host it would come back to where it started.
fn redirects(spec: &ClusterSpec) -> String {
    let Some(endpoint) = &spec.control_plane_endpoint else { return String::new() };
    let ports = [(endpoint.port, spec.api_port()), (konnectivity::AGENT_PORT, konnectivity::AGENT_PORT)];
    let to = |address| ports.map(|(port, here)| format!("{address},{port},{here}")).join(" ");
    endpoint.addresses.iter().map(to).collect::<Vec<_>>().join(" ")
}

/// Settings of a network namespace that routes in the cluster's families. An engine turns IPv6 off
/// in every container it gives no IPv6 address; without IPv6 in the cluster it stays off.
pub(super) fn sysctls(spec: &ClusterSpec) -> BTreeMap<String, String> {
    const IPV6: [(&str, &str); 4] = [
        ("net.ipv6.conf.all.disable_ipv6", "0"),
        ("net.ipv6.conf.default.disable_ipv6", "0"),
        ("net.ipv6.conf.all.forwarding", "1"),
        // Addresses are fixed and nobody else's: a second of waiting for an owner's objection is wasted.
        ("net.ipv6.conf.default.accept_dad", "0"),
    ];
    let sysctls = spec.networking.families().flat_map(|family| match family {
        Family::Ipv4 => [("net.ipv4.ip_forward", "1")].as_slice(),
        Family::Ipv6 => IPV6.as_slice(),
    });
    sysctls.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Without IPv6 in its kernel an engine can't set what isn't there, and names it.
fn explain(spec: &ClusterSpec, source: ContainerError) -> PhaseError {
    if spec.networking.has(Family::Ipv6) && names_ipv6(&source) {
        return NetworkError::NoIpv6 { pods: spec.networking.pod_subnet, source }.into();
    }
    listen_trouble(spec, source)
}

fn names_ipv6(error: &(dyn Error + 'static)) -> bool {
    let message = error.to_string();
    let here = ["net/ipv6", "net.ipv6"].iter().any(|name| message.contains(name));
    here || error.source().is_some_and(names_ipv6)
}

/// Pages of a tmpfs are charged to whoever touched them first, which may be the owner.
fn tmpfs_bytes(spec: &ClusterSpec) -> u64 {
    spec.etcd.in_memory()
}

/// The volume of the data of etcd or kine; none when they are kept elsewhere.
pub fn etcd_data(spec: &ClusterSpec) -> Option<Mount> {
    spec.etcd.backend.component()?;
    let name = format!("{}-etcd", name_prefix(spec));
    let kind = if spec.etcd.durable {
        MountKind::Volume(name)
    } else {
        MountKind::TmpfsVolume { name, bytes: spec.etcd.tmpfs_bytes }
    };
    Some(Mount { target: ETCD_DATA.to_owned(), kind })
}

pub(super) fn dnsmasq(spec: &ClusterSpec) -> ContainerSpec {
    let limits = spec.component(Component::Dnsmasq);
    let mut dnsmasq = ContainerSpec::new(
        component_name(spec, Component::Dnsmasq),
        images::reference(spec, "network"),
        Network::Container(component_name(spec, Component::Owner)),
    );
    dnsmasq.entrypoint = vec!["/bin/sh".to_owned(), "/etc/hoist/namespace.sh".to_owned()];
    for family in spec.networking.families() {
        let (address, subnet) = (family.control_plane(), family.node_subnet());
        let suffix = family.to_string().to_uppercase();
        dnsmasq.env.insert(format!("BRIDGE_{suffix}"), format!("{address}/{}", subnet.prefix_len()));
        dnsmasq.env.insert(format!("NODES_{suffix}"), subnet.to_string());
    }
    let mtu = spec.networking.mtu.map(|mtu| mtu.to_string());
    dnsmasq.env.insert("MTU".to_owned(), mtu.unwrap_or_default());
    dnsmasq.env.insert("REDIRECTS".to_owned(), redirects(spec));
    dnsmasq.env.insert("OPEN".to_owned(), open(spec));
    // Bridge, address and NAT; raw sockets for DHCP and router advertisements; ports 53, 67 and 547.
    // With the rest dnsmasq gives its lease file and itself to an unprivileged user, who keeps the
    // first three.
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
        file("/etc/hoist/dnsmasq.conf", &dnsmasq::configuration(spec)),
    ];
    dnsmasq.memory_bytes = Some(limits.memory_bytes);
    dnsmasq.cpu_millis = Some(limits.cpu_millis);
    dnsmasq.restart = true;
    dnsmasq
}

async fn published_port(
    runtime: &Arc<dyn Runtime>,
    owner: &str,
    port: u16,
) -> Result<std::net::SocketAddr, PhaseError> {
    let state = runtime.inspect(owner).await?.ok_or_else(|| ContainerError::Gone(owner.to_owned()))?;
    Ok(published_at(&state, port)?)
}

fn published_at(owner: &ContainerState, port: u16) -> Result<SocketAddr, NetworkError> {
    let found = owner.published.iter().find(|published| published.container == port);
    let missing = || NetworkError::NotPublished { owner: owner.name.clone(), port };
    found.map(|published| published.host).ok_or_else(missing)
}

/// Where each mapping is on the engine's host, as far as it is published.
pub fn mapped_at<'a>(
    mappings: &'a [PortMapping],
    published: &'a [PublishedPort],
) -> impl Iterator<Item = (&'a PortMapping, SocketAddr)> {
    mapped(mappings).flat_map(move |(inner, mapping)| {
        let this = move |port: &&PublishedPort| (port.container, port.protocol) == (inner, mapping.protocol);
        published.iter().filter(this).map(move |port| (mapping, port.host))
    })
}

/// Engines say it in words of their own: a port that is taken, an address the host doesn't have.
fn listen_trouble(spec: &ClusterSpec, error: ContainerError) -> PhaseError {
    const WORDS: [&str; 4] = ["already allocated", "already in use", "cannot assign", "can't assign"];
    let mut causes = std::iter::successors(Some(&error as &dyn Error), |error| (*error).source());
    let about_a_port = causes.any(|cause| {
        let text = cause.to_string().to_lowercase();
        WORDS.iter().any(|words| text.contains(words))
    });
    match spec.listen_address {
        Some(address) if about_a_port => {
            let ports: Vec<_> = published(spec).iter().map(|port| port.host.port().to_string()).collect();
            NetworkError::Listen { address, ports: ports.join(" and "), source: error }.into()
        }
        None if about_a_port && !spec.ports.is_empty() => {
            let ports: Vec<_> =
                relayed(spec).map(|port| format!("{}/{}", port.host, port.protocol.lower())).collect();
            NetworkError::Mapped { ports: ports.join(", "), source: error }.into()
        }
        None if about_a_port && spec.registry.is_some() => {
            let port = spec.registry.map(|registry| registry.port).unwrap_or_default();
            NetworkError::Registry { port, source: error }.into()
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

    /// A port that was free when somebody looked may be taken when it is used.
    #[test]
    fn kwok_475_the_engine_chooses_the_port_that_nobody_named() {
        let mut spec = crate::spec::test_spec();
        let asked = |spec: &ClusterSpec| owner(spec).publish.iter().map(|port| port.host).collect::<Vec<_>>();
        assert_eq!(asked(&spec), [SocketAddr::from(([127, 0, 0, 1], 0))]);
        let named = SocketAddr::from(([203, 0, 113, 7], 6443));
        spec.listen_address = Some(named);
        assert_eq!(asked(&spec), [named]);
    }

    #[test]
    fn what_asks_nobody_who_they_are_is_for_the_engines_host() {
        let mut spec = crate::spec::test_spec();
        assert_eq!(open(&spec), "6443,tcp,any");
        spec.registry = Some(crate::spec::Registry { port: 0 });
        let map = |host, protocol| PortMapping { host, port: 53, protocol, node: None };
        spec.ports = vec![
            map(SocketAddr::from(([127, 0, 0, 1], 0)), Protocol::Tcp),
            map(SocketAddr::from(([0, 0, 0, 0], 8053)), Protocol::Udp),
        ];
        let [one, two] = [0, 1].map(|at| mapped(&spec.ports).nth(at).map_or(0, |(inner, _)| inner));
        assert_eq!(
            open(&spec),
            format!("6443,tcp,any {one},tcp,host {two},udp,any {REGISTRY_PORT},tcp,host")
        );
    }

    #[test]
    fn ipv6_is_turned_on_where_it_is_asked_for() -> Result<(), Box<dyn std::error::Error>> {
        use crate::phases::addon::testing;

        for (spec, v4, v6) in [
            (testing::spec()?, true, false),
            (testing::dual_stack()?, true, true),
            (testing::ipv6_only()?, false, true),
        ] {
            let sysctls = sysctls(&spec);
            assert_eq!(sysctls.contains_key("net.ipv4.ip_forward"), v4);
            assert_eq!(sysctls.keys().any(|key| key.starts_with("net.ipv6.")), v6);
            let env = dnsmasq(&spec).env;
            assert_eq!(env.get("BRIDGE_IPV4").map(String::as_str), v4.then_some("192.168.66.2/24"));
            assert_eq!(env.get("NODES_IPV4").map(String::as_str), v4.then_some("192.168.66.0/24"));
            assert_eq!(env.get("BRIDGE_IPV6").map(String::as_str), v6.then_some("fd00::1/64"));
            assert_eq!(env.get("NODES_IPV6").map(String::as_str), v6.then_some("fd00::/64"));
        }
        Ok(())
    }

    #[test]
    fn a_host_without_ipv6_is_told_of() -> Result<(), Box<dyn std::error::Error>> {
        use crate::phases::addon::testing;
        use crate::ports::RuntimeError;

        let failed = |source: &str| {
            let (operation, object) = ("start container", "hoist-t-owner".to_owned());
            ContainerError::from(RuntimeError::Failed { operation, object, source: source.into() })
        };
        let no_file = "write sysctl key net.ipv6.conf.all.disable_ipv6: open /proc/sys/net/ipv6/conf/all/disable_ipv6: no such file or directory";
        let told = explain(&testing::dual_stack()?, failed(no_file)).to_string();
        assert!(told.contains("networking.podSubnet 10.244.0.0/16,fd10:244::/56"), "{told}");
        assert!(told.contains("--ip-family ipv4"), "{told}");
        for (spec, source) in [(testing::dual_stack()?, "no space left"), (testing::spec()?, no_file)] {
            assert!(explain(&spec, failed(source)).downcast::<ContainerError>().is_ok());
        }
        Ok(())
    }

    #[test]
    fn facts_are_read_whole_or_refused() {
        assert!(matches!(parse_facts("mtu=1500 nofile=20000\n"), Ok((1500, 20_000))));
        assert!(matches!(parse_facts("mtu=1400 nofile=unlimited"), Ok((1400, u64::MAX))));
        for bad in ["", "mtu=x nofile=1", "mtu=1500"] {
            assert!(parse_facts(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
