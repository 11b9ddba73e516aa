//! Nodes in a container of the engine: systemd, containerd and kubelet, a veth on br0.

use std::time::Duration;

use super::{CONTAINERD_IS_UP, MachineError, ROLE};
use crate::engine::PhaseError;
use crate::phases::containers::{self, Watch, component_name, node_name};
use crate::phases::network::sysctls;
use crate::phases::{Context, images, wait};
use crate::ports::{ContainerSpec, FileEntry, Mount, MountKind, Network, label};
use crate::spec::networking::Networking;
use crate::spec::{ClusterSpec, Component, Family, NodeSpec};

/// What is kept of a machine beyond its container, and where it is mounted.
pub(super) const VOLUMES: [&str; 2] = ["containerd", "kubelet"];

/// How long a machine may take to boot; an idle host needs a second or two.
const DEADLINE: Duration = Duration::from_secs(180);

/// What has not ended by then is killed as the machine goes down (systemd-system.conf(5)). By itself
/// systemd waits for 90 s, and there are processes that never end at one signal: an agent of
/// konnectivity drains at the first and ends at the second.
const SHUTDOWN: (&str, &str) =
    ("/etc/systemd/system.conf.d/90-hoist-shutdown.conf", "[Manager]\nDefaultTimeoutStopSec=10s\n");

/// Everything systemd, runc and kubelet use. SYS_RESOURCE is left out on purpose: engines that
/// don't have it themselves refuse to give it, and containerd can be told to do without. BPF and
/// PERFMON are unknown to older engines, and SYS_ADMIN includes what they allow (capabilities(7)).
pub(super) const CAPABILITIES: [&str; 28] = [
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_NICE",
    "SYS_PTRACE",
];

/// Starts a container node and puts it on br0; `true` when anything had to be done.
pub(super) async fn start(cx: &Context, node: &NodeSpec, mtu: u32) -> Result<bool, PhaseError> {
    let runtime = &cx.ports.runtime;
    let container = node_name(&cx.spec.name, &node.name());
    let changed = containers::reconcile(runtime, &cx.spec.name, ROLE, machine(&cx.spec, node)).await?;
    // A restarted machine, or one whose bridge went away with the namespace, has lost its link.
    let linked = !changed && has_link(cx, node, &container).await?;
    if !linked {
        if !changed {
            // What is left of it leads into a namespace that is no more.
            runtime.exec(&container, &["ip", "link", "del", "eth0"], &[]).await?;
        }
        plug_in(cx, node, mtu).await?;
    }
    let watch = Watch::default();
    wait::until(DEADLINE, || async {
        watch.check(runtime, &container).await?;
        let output = runtime.exec(&container, &CONTAINERD_IS_UP, &[]).await?;
        Ok(match output.code {
            0 => wait::Poll::Ready(()),
            _ => wait::Poll::Pending(format!("{}: containerd has not started", node.name())),
        })
    })
    .await?;
    Ok(!linked)
}

/// Whether the pair has its two ends: one configured on the machine, one in the namespace as it
/// is now.
async fn has_link(cx: &Context, node: &NodeSpec, container: &str) -> Result<bool, PhaseError> {
    let dnsmasq = component_name(&cx.spec, Component::Dnsmasq);
    let other_end = format!("/sys/class/net/veth-{}", node.name());
    let routed: Vec<_> = cx
        .spec
        .networking
        .families()
        .map(|family| {
            let (option, gateway) = (ip_option(family), family.control_plane());
            format!("ip {option} route show default | grep -q 'via {gateway} dev eth0'")
        })
        .collect();
    let routed = routed.join(" && ");
    let (here, there) = (["/bin/sh", "-c", &routed], ["test", "-e", &other_end]);
    let runtime = &cx.ports.runtime;
    let (here, there) =
        tokio::try_join!(runtime.exec(container, &here, &[]), runtime.exec(&dnsmasq, &there, &[]))?;
    Ok(here.code == 0 && there.code == 0)
}

/// Gives a machine its link to br0 and its address.
///
/// The veth is made by a helper that stands in the shared network namespace and in the machine's
/// PID namespace, where the machine is process 1, so that its end of the pair can be handed over
/// on a remote engine too.
async fn plug_in(cx: &Context, node: &NodeSpec, mtu: u32) -> Result<(), PhaseError> {
    let (runtime, name) = (&cx.ports.runtime, node.name());
    let machine = node_name(&cx.spec.name, &name);
    let mut helper = ContainerSpec::new(
        format!("{machine}-link"),
        images::reference(&cx.spec, "network"),
        Network::Container(component_name(&cx.spec, Component::Owner)),
    );
    helper.pid_of = Some(machine.clone());
    // `ip` opens /proc/1/ns/net, which is reading another's process: the capability for it, and no
    // AppArmor profile, which would only let it read processes of its own kind.
    helper.capabilities = ["NET_ADMIN", "SYS_PTRACE"].map(str::to_owned).to_vec();
    helper.apparmor_unconfined = true;
    helper.labels.insert(label::CLUSTER.to_owned(), cx.spec.name.to_string());
    helper.labels.insert(label::NODE.to_owned(), name.clone());
    helper.labels.insert(label::ROLE.to_owned(), "link".to_owned());
    helper.entrypoint = vec!["/bin/sh".to_owned(), "-euc".to_owned()];
    helper.args = vec![format!(
        "ip link del veth-{name} 2>/dev/null || :; \
         ip link add name veth-{name} mtu {mtu} type veth peer name eth0 address {mac} mtu {mtu} netns 1; \
         ip link set dev veth-{name} addrgenmode none master br0 up",
        mac = node.mac()
    )];
    containers::remove_own(runtime.as_ref(), &cx.spec.name, &helper.name).await?;
    runtime.create(&helper).await?;
    runtime.start(&helper.name).await?;
    let code = runtime.wait(&helper.name).await?;
    if code != 0 {
        let output = runtime.logs(&helper.name, 20).await?;
        runtime.remove(&helper.name).await?;
        return Err(MachineError::Step { node: name, step: "plugging into br0", code, output }.into());
    }
    runtime.remove(&helper.name).await?;

    let output =
        runtime.exec(&machine, &["/bin/sh", "-euc", &addressing(&cx.spec.networking, node)], &[]).await?;
    if output.code != 0 {
        let (step, code) = ("setting the address", output.code);
        return Err(MachineError::Step { node: name, step, code, output: output.stderr }.into());
    }
    Ok(())
}

/// A script that gives eth0 its addresses and routes, in the families of the cluster alone.
fn addressing(networking: &Networking, node: &NodeSpec) -> String {
    let mut lines = Vec::new();
    if !networking.has(Family::Ipv6) {
        lines.push("ip link set dev eth0 addrgenmode none".to_owned());
    }
    lines.push("ip link set dev eth0 up".to_owned());
    for family in networking.families() {
        let (address, prefix) = (node.address(family), family.node_subnet().prefix_len());
        lines.push(format!("ip addr replace {address}/{prefix} dev eth0"));
        lines.push(format!("ip {} route replace default via {}", ip_option(family), family.control_plane()));
    }
    lines.push(format!("echo nameserver {} >/etc/resolv.conf", networking.control_plane()));
    lines.join("\n")
}

/// The option of ip(8) that means one family.
fn ip_option(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "-4",
        Family::Ipv6 => "-6",
    }
}

/// The machine of a container node. It runs systemd and runc, so it keeps most capabilities and
/// sees /proc and /sys unmasked.
pub(super) fn machine(spec: &ClusterSpec, node: &NodeSpec) -> ContainerSpec {
    let name = node_name(&spec.name, &node.name());
    let mut machine = ContainerSpec::new(&name, images::of_node(spec, node), Network::None);
    machine.hostname = Some(node.name());
    machine.labels.insert(label::NODE.to_owned(), node.name());
    machine.labels.insert(label::KIND.to_owned(), node.kind.to_string());
    machine.capabilities = CAPABILITIES.map(str::to_owned).to_vec();
    machine.read_only_root = false;
    machine.unconfined = true;
    // systemd, runc and kubelet keep their state where an overlay can't lie on another.
    machine.mounts = VOLUMES
        .map(|dir| Mount {
            target: format!("/var/lib/{dir}"),
            kind: MountKind::Volume(format!("{name}-{dir}")),
        })
        .into_iter()
        .chain(["/run", "/tmp"].map(|target| Mount {
            target: target.to_owned(),
            kind: MountKind::Tmpfs { bytes: None, exec: true },
        }))
        .collect();
    machine.sysctls = sysctls(spec);
    machine.stop_signal = Some("SIGRTMIN+3".to_owned());
    machine.files = vec![FileEntry { path: SHUTDOWN.0.to_owned(), mode: 0o644, content: SHUTDOWN.1.into() }];
    machine
}
