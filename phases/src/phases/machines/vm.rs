//! Nodes in virtual machines: qemu in a container that shares the cluster's namespace, a tap on
//! br0, everything else from dnsmasq's lease.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use super::{MachineError, ROLE};
use crate::engine::PhaseError;
use crate::phases::containers::{self, Watch, component_name, node_name};
use crate::phases::{Context, images, wait};
use crate::ports::{ContainerSpec, DeviceRule, Mount, MountKind, Network, Runtime, Status, label};
use crate::spec::{ClusterSpec, Component, Family, NodeSpec, VmSize};

/// The name of this kind.
pub(super) const KIND: &str = "vm";

/// Runs a command in the guest, over SSH with keys made on the machine's first start.
pub(super) const EXEC: &str = "/usr/local/bin/hoist-exec";

/// Holds the accelerator, `kvm` or `tcg`, while the machine runs.
pub(super) const ACCELERATOR: &str = "/run/hoist-accel";

/// The machine's disk: an overlay on the image's, which is never written to.
pub(super) const VOLUMES: [&str; 1] = ["disk"];

/// From power-on to a running containerd, unless the run has less time. Under emulation a boot takes
/// half a minute on an idle host, and several boot at once.
const DEADLINE: Duration = Duration::from_secs(600);

/// Memory that qemu takes on top of the guest's own; 512 MiB of it are translated code where the
/// processors are emulated.
const QEMU_BYTES: u64 = 768 << 20;

/// Lines of the console that an error shows.
const CONSOLE_TAIL: u32 = 30;

/// dnsmasq's file of leases: a line each, with the address as a word of its own.
const LEASES: &str = "/run/dnsmasq.leases";

/// How far a machine has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Without a lease of this family yet; those of the families before it are there.
    PowerOn(Family),
    Lease,
    Ssh,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PowerOn(family) => write!(f, "power-on (it has no DHCP lease of {family})"),
            Self::Lease => f.write_str("its DHCP lease (SSH does not answer)"),
            Self::Ssh => f.write_str("SSH (containerd has not started)"),
        }
    }
}

/// Powers a machine on and waits until it can join; `true` when it wasn't running.
pub(super) async fn start(cx: &Context, node: &NodeSpec, size: VmSize, mtu: u32) -> Result<bool, PhaseError> {
    let runtime = &cx.ports.runtime;
    let spec = machine(&cx.spec, node, size, mtu);
    let container = spec.name.clone();
    // A client of DHCPv6 that starts again asks as another one (another IAID, RFC 8415), for an address that dnsmasq
    // keeps for the first. Before the machine starts, since what it was given must not be taken back; one that is
    // made anew while it runs has just ended.
    let ran = runtime.inspect(&container).await?.is_some_and(|state| state.status == Status::Running);
    if !ran {
        release(runtime.as_ref(), &cx.spec, node).await?;
    }
    let changed = containers::reconcile(runtime, &cx.spec.name, ROLE, spec).await?;
    if ran && changed {
        release(runtime.as_ref(), &cx.spec, node).await?;
    }
    let watch = Watch::default();
    // The lease of a machine that runs may be forgotten: dnsmasq keeps leases as long as it runs.
    let begin = if changed { Stage::PowerOn(cx.spec.networking.primary()) } else { Stage::Lease };
    let reached = Mutex::new(begin);
    let result = wait::until(cx.time_left().min(DEADLINE), || async {
        watch.check(runtime, &container).await?;
        let before = *reached.lock().unwrap_or_else(PoisonError::into_inner);
        let now = look(cx, node, &container, before).await?;
        if let Some(stage) = now {
            *reached.lock().unwrap_or_else(PoisonError::into_inner) = stage;
            return Ok(wait::Poll::Pending(stage.to_string()));
        }
        Ok(wait::Poll::Ready(()))
    })
    .await;
    match result {
        Ok(()) => Ok(changed),
        Err(source) => {
            let console = readable(&runtime.logs(&container, CONSOLE_TAIL).await.unwrap_or_default());
            let reached = *reached.lock().unwrap_or_else(PoisonError::into_inner);
            Err(MachineError::Stuck { node: node.name(), reached, console, source }.into())
        }
    }
}

/// What a console wrote without what would move the cursor about, or clear the screen, of whoever reads it now:
/// control sequences (ECMA-48) and single control characters.
fn readable(console: &str) -> String {
    let mut text = String::new();
    let mut rest = console.chars();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' => {
                if rest.next() == Some('[') {
                    let _ = rest.find(|end| ('\u{40}'..='\u{7e}').contains(end));
                }
            }
            '\n' | '\t' => text.push(next),
            _ if next.is_control() => {}
            _ => text.push(next),
        }
    }
    text
}

/// The stage after `before` if it has been reached, or `before` again; `None` when all are.
async fn look(
    cx: &Context,
    node: &NodeSpec,
    container: &str,
    before: Stage,
) -> Result<Option<Stage>, PhaseError> {
    let dnsmasq = component_name(&cx.spec, Component::Dnsmasq);
    let lease;
    let (container, command, next) = match before {
        Stage::PowerOn(family) => {
            lease = format!(" {} ", node.address(family));
            let following = cx.spec.networking.families().skip_while(|other| *other != family).nth(1);
            let next = following.map_or(Stage::Lease, Stage::PowerOn);
            (dnsmasq.as_str(), patiently(&["grep", "-qF", &lease, LEASES]), Some(next))
        }
        Stage::Lease => (container, patiently(&[EXEC, "true"]), Some(Stage::Ssh)),
        Stage::Ssh => {
            let command = patiently(&["/bin/sh", "-c", CONTAINERD_ANSWERS]);
            (container, [EXEC].into_iter().chain(command).collect(), None)
        }
    };
    let output = cx.ports.runtime.exec(container, &command, &[]).await?;
    Ok(if output.code == 0 { next } else { Some(before) })
}

/// A command that looks again and again for up to two seconds: starting one in a container costs the
/// host many times what the look does, and the processors are those that the machine boots on.
fn patiently<'a>(look: &[&'a str]) -> Vec<&'a str> {
    const AGAIN: &str = "end=$(($(date +%s) + 2)); \
                         until \"$@\" >/dev/null 2>&1; do [ \"$(date +%s)\" -lt $end ] || exit 1; sleep 0.05; done";
    ["/bin/sh", "-c", AGAIN, "look"].into_iter().chain(look.iter().copied()).collect()
}

/// Gives the leases of a machine that is gone back. One that stays harms nobody, since its address is
/// reserved for that number.
///
/// # Errors
/// When dnsmasq doesn't run, or keeps a lease.
pub(super) async fn release(
    runtime: &dyn Runtime,
    spec: &ClusterSpec,
    node: &NodeSpec,
) -> Result<(), PhaseError> {
    let dnsmasq = component_name(spec, Component::Dnsmasq);
    let server = Family::Ipv4.control_plane().to_string();
    let addresses: Vec<_> =
        spec.networking.families().map(|family| node.address(family).to_string()).collect();
    let mut command = vec!["perl", "-e", include_str!("release.pl"), "br0", LEASES, &server];
    command.extend(addresses.iter().map(String::as_str));
    let output = runtime.exec(&dnsmasq, &command, &[]).await?;
    match output.code {
        0 => Ok(()),
        code => {
            let (node, step) = (node.name(), "giving its leases back to dnsmasq");
            Err(MachineError::Step { node, step, code, output: output.stderr }.into())
        }
    }
}

/// The container of a virtual machine. Its entry script makes the tap and the device nodes, then
/// gives qemu to a user without capabilities.
pub(super) fn machine(spec: &ClusterSpec, node: &NodeSpec, size: VmSize, mtu: u32) -> ContainerSpec {
    let name = node_name(&spec.name, &node.name());
    let owner = component_name(spec, Component::Owner);
    let mut machine = ContainerSpec::new(&name, images::of_node(spec, node), Network::Container(owner));
    machine.labels.insert(label::NODE.to_owned(), node.name());
    machine.labels.insert(label::KIND.to_owned(), node.kind.to_string());
    machine.env = [
        ("NODE_NAME", node.name()),
        ("NODE_MAC", node.mac()),
        ("NODE_ADDRESS", node.address(spec.networking.primary()).to_string()),
        ("CPUS", size.cpus.to_string()),
        ("MEMORY_MIB", size.memory_mib.to_string()),
        ("DISK_GIB", size.disk_gib.to_string()),
        ("MTU", mtu.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(arguments) = dhcp(spec, node) {
        machine.env.insert("HOIST_VM_APPEND".to_owned(), arguments);
    }
    machine.capabilities = CAPABILITIES.map(str::to_owned).to_vec();
    machine.devices = vec![DeviceRule::TUN, DeviceRule::KVM];
    machine.mounts = vec![
        Mount { target: "/var/lib/hoist".to_owned(), kind: MountKind::Volume(format!("{name}-disk")) },
        Mount { target: "/run".to_owned(), kind: MountKind::Tmpfs { bytes: Some(64 << 20), exec: false } },
    ];
    machine.memory_bytes = Some(memory_bytes(size));
    machine
}

/// Bytes that the container of a machine may take.
pub(super) fn memory_bytes(size: VmSize) -> u64 {
    (u64::from(size.memory_mib) << 20) + QEMU_BYTES
}

/// Kernel arguments that tell the guest which clients of DHCP to run, when that of IPv4 alone isn't
/// right. A lease of IPv6 brings no host name.
fn dhcp(spec: &ClusterSpec, node: &NodeSpec) -> Option<String> {
    match (spec.networking.has(Family::Ipv4), spec.networking.has(Family::Ipv6)) {
        (_, false) => None,
        (true, true) => Some("hoist.dhcp6".to_owned()),
        (false, true) => Some(format!("hoist.dhcp6 hoist.nodhcp4 systemd.hostname={}", node.name())),
    }
}

/// Tap and bridge; device nodes; handing qemu to its user.
const CAPABILITIES: [&str; 4] = ["MKNOD", "NET_ADMIN", "SETGID", "SETUID"];

/// Succeeds in a guest whose containerd answers. Its socket alone is no sign under emulation,
/// where containerd takes seconds from there to its first answer.
const CONTAINERD_ANSWERS: &str = "socket=/run/containerd/containerd.sock; \
                                  test -S $socket && crictl --runtime-endpoint unix://$socket info";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_in_an_error_leaves_the_screen_alone() {
        let console = "\u{1b}c\u{1b}[?7l\u{1b}[2J\u{1b}[0mSeaBIOS\r\n\tno disk\u{7}\n\u{1b}[";
        assert_eq!(readable(console), "SeaBIOS\n\tno disk\n");
    }
}
