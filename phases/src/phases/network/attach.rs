//! Attach mode: the namespace is that of a container which somebody else has made, with br0 and DHCP
//! already there. It is checked and left as it is, but for two rules of its packet filter, which
//! keep the API port from being forwarded to a node.
//!
//! Two small containers of hoist's own do what the owner does otherwise: the keeper carries the
//! rules and takes them along when it is stopped, the holder mounts etcd's data.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{NONROOT, etcd_data, published_port, tmpfs_bytes};
use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers::{self, component_name, name_prefix};
use crate::phases::{Context, NetworkFacts, PhaseId, images, preflight, wait};
use crate::ports::{ContainerSpec, FileEntry, Mount, MountKind, Network, Runtime, Status};
use crate::spec::networking::API_PORT;
use crate::spec::{Attach, ClusterSpec, Component, Family, Owner};

/// Label value of the keeper.
pub const ROLE: &str = "keeper";

/// Label value of the holder.
const HOLDER: &str = "holder";

const SCRIPT: &str = "/etc/hoist/attach.sh";

/// How long the owner may take to lay out its bridge: it may have been started a moment ago.
const DEADLINE: Duration = Duration::from_secs(30);

/// Resident memory of a sleeping shell and of iptables while it runs, with room.
const KEEPER_BYTES: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("owner.attach {0}: there is no such container")]
    Absent(String),
    #[error("owner.attach {0}: the container doesn't run; start it first")]
    NotRunning(String),
    #[error("owner.attach {container}: port {port} of the container is not published on the host; it can only be when the container is made", port = API_PORT)]
    NotPublished { container: String },
    #[error(
        "owner.attach {container}: port {port}, which {component} needs, is in use in its network namespace; stop who listens there"
    )]
    PortTaken { container: String, port: u16, component: Component },
    #[error("owner.attach {container}: {output}")]
    Rules { container: String, output: String },
}

/// What is in the namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Look {
    /// MTU of br0 in bytes, once it is there.
    mtu: Option<u32>,
    nofile: u64,
    addresses: BTreeSet<IpAddr>,
    listening: BTreeSet<u16>,
}

/// Judges the owner before anything is made.
///
/// # Errors
/// When it isn't there, doesn't run, or doesn't publish the API port.
pub async fn check(runtime: &Arc<dyn Runtime>, attach: &Attach) -> Result<(), PhaseError> {
    let container = attach.container.clone();
    let found = runtime.inspect(&container).await?.ok_or_else(|| AttachError::Absent(container.clone()))?;
    if found.status != Status::Running {
        return Err(AttachError::NotRunning(container).into());
    }
    if published_port(runtime, &container, API_PORT).await.is_err() {
        return Err(AttachError::NotPublished { container }.into());
    }
    Ok(())
}

pub(super) async fn apply(cx: &Context, attach: &Attach) -> Result<Outcome, PhaseError> {
    let runtime = &cx.ports.runtime;
    let mut changed = containers::reconcile(runtime, &cx.spec.name, ROLE, keeper(&cx.spec)).await?;
    if !cx.spec.etcd.durable {
        changed |= containers::reconcile(runtime, &cx.spec.name, HOLDER, holder(&cx.spec)).await?;
    }
    let keeper = keeper_name(&cx.spec);
    let look = wait::until(DEADLINE, || async {
        let look = parse(&script(runtime.as_ref(), &keeper, "look").await?);
        let mut wanted = cx.spec.networking.families().map(Family::control_plane);
        Ok(match wanted.find(|address| look.mtu.is_none() || !look.addresses.contains(address)) {
            None => wait::Poll::Ready(look),
            Some(address) => wait::Poll::Pending(format!(
                "owner.attach {}: no br0 with address {address} in its network namespace",
                attach.container
            )),
        })
    })
    .await?;
    let free = ports_of_stopped(cx).await?;
    if let Some((component, port)) = free.into_iter().find(|(_, port)| look.listening.contains(port)) {
        return Err(AttachError::PortTaken { container: attach.container.clone(), port, component }.into());
    }
    keep_api_port(runtime.as_ref(), &cx.spec).await?;

    let api = published_port(runtime, &attach.container, API_PORT).await?;
    cx.events.step(PhaseId::Network, format!("API port published at {api}, in {}", attach.container));
    let mtu = look.mtu.unwrap_or_default();
    cx.outputs.network.set(NetworkFacts { api, registry: None, mtu, nofile: look.nofile });
    Ok(Outcome::changed(changed))
}

/// Sees to it that packets for the API port stay in the namespace, ahead of any rule that would
/// send them to a node; gives the chains in which that had to be put right.
///
/// # Errors
/// When the packet filter refuses.
pub async fn keep_api_port(runtime: &dyn Runtime, spec: &ClusterSpec) -> Result<Vec<String>, PhaseError> {
    let output = script(runtime, &keeper_name(spec), "keep").await?;
    Ok(output.lines().map(str::to_owned).collect())
}

/// Name of the keeper's container.
pub fn keeper_name(spec: &ClusterSpec) -> String {
    format!("{}-{ROLE}", name_prefix(spec))
}

/// The container of hoist's that stands in the shared namespace with the network tools.
pub fn tools_name(spec: &ClusterSpec) -> String {
    match spec.owner {
        Owner::Own => component_name(spec, Component::Dnsmasq),
        Owner::Attach(_) => keeper_name(spec),
    }
}

async fn script(runtime: &dyn Runtime, keeper: &str, what: &str) -> Result<String, PhaseError> {
    let output = runtime.exec(keeper, &["/bin/sh", SCRIPT, what], &[]).await?;
    if output.code != 0 {
        return Err(AttachError::Rules { container: keeper.to_owned(), output: output.stderr }.into());
    }
    Ok(output.stdout)
}

/// Ports that nobody may listen on yet: those of components that don't run.
async fn ports_of_stopped(cx: &Context) -> Result<Vec<(Component, u16)>, PhaseError> {
    let mut free = Vec::new();
    for (component, port) in preflight::ports(&cx.spec) {
        if matches!(component, Component::Owner | Component::Dnsmasq) {
            continue;
        }
        let found = cx.ports.runtime.inspect(&component_name(&cx.spec, component)).await?;
        if !found.is_some_and(|state| matches!(state.status, Status::Running | Status::Restarting { .. })) {
            free.push((component, port));
        }
    }
    Ok(free)
}

pub(in crate::phases) fn keeper(spec: &ClusterSpec) -> ContainerSpec {
    let mut keeper = ContainerSpec::new(
        keeper_name(spec),
        images::reference(spec, "network"),
        Network::Container(component_name(spec, Component::Owner)),
    );
    keeper.entrypoint = vec!["/bin/sh".to_owned(), SCRIPT.to_owned()];
    keeper.args = vec!["wait".to_owned()];
    keeper.capabilities = vec!["NET_ADMIN".to_owned()];
    let content = include_str!("attach.sh").as_bytes().to_vec();
    keeper.files = vec![FileEntry { path: SCRIPT.to_owned(), mode: 0o600, content }];
    keeper.mounts = vec![
        containers::private_mount(spec, &keeper.name, "/etc/hoist"),
        // The lock of iptables is there.
        Mount { target: "/run".to_owned(), kind: MountKind::Tmpfs { bytes: Some(1 << 20), exec: false } },
    ];
    keeper.memory_bytes = Some(KEEPER_BYTES);
    keeper.cpu_millis = Some(500);
    keeper.restart = true;
    keeper
}

/// Mounts etcd's data beside etcd, so that a tmpfs outlives its container.
pub(in crate::phases) fn holder(spec: &ClusterSpec) -> ContainerSpec {
    let name = format!("{}-{HOLDER}", name_prefix(spec));
    let mut holder = ContainerSpec::new(name, images::reference(spec, "pause"), Network::None);
    let limits = spec.component(Component::Owner);
    holder.user = Some(NONROOT.to_owned());
    holder.mounts = etcd_data(spec).into_iter().collect();
    // Pages of a tmpfs are charged to whoever touched them first.
    holder.memory_bytes = Some(limits.memory_bytes + tmpfs_bytes(spec));
    holder.cpu_millis = Some(limits.cpu_millis);
    holder
}

/// Reads what the script says, a fact a line.
fn parse(text: &str) -> Look {
    let mut look = Look { nofile: u64::MAX, ..Look::default() };
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match key {
            "mtu" => look.mtu = value.parse().ok(),
            "nofile" => look.nofile = value.parse().unwrap_or(u64::MAX),
            "address" => look.addresses.extend(value.parse::<IpAddr>().ok()),
            "listen" => look.listening.extend(u16::from_str_radix(value, 16).ok()),
            _ => {}
        }
    }
    look
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_read_line_by_line() {
        let text =
            "nofile=20000\nmtu=1500\naddress=192.168.66.2\naddress=fd00::1\nlisten=192B\nlisten=0035\n";
        let look = parse(text);
        assert_eq!((look.mtu, look.nofile), (Some(1500), 20_000));
        assert!(look.addresses.contains(&Family::Ipv4.control_plane()));
        assert_eq!(look.listening, BTreeSet::from([53, 6443]));
        assert_eq!(parse("nofile=unlimited\nmtu=\n"), Look { nofile: u64::MAX, ..Look::default() });
    }

    #[test]
    fn the_owners_tasks_are_shared_out() {
        let mut spec = crate::spec::test_spec();
        let attach = Attach { container: "p-dnsmasq".into(), prefix: Some("p".into()), registry: None };
        spec.owner = crate::spec::Owner::Attach(attach);
        let keeper = keeper(&spec);
        assert_eq!(keeper.name, "p-keeper");
        assert_eq!(keeper.network, Network::Container("p-dnsmasq".into()));
        let holder = holder(&spec);
        assert_eq!((holder.name.as_str(), holder.network), ("p-holder", Network::None));
        assert_eq!(Some(&holder.mounts[..]), etcd_data(&spec).as_slice().into());
        assert_eq!(component_name(&spec, Component::ApiServer), "p-kube-apiserver");
    }
}
