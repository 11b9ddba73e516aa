//! machines: the nodes that hoist starts, booted and on br0, not yet part of the cluster.

mod container;
mod settings;
mod vm;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, try_join_all};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers::{self, node_name};
use crate::phases::{Context, PhaseId};
use crate::ports::{ContainerSpec, ExecOutput, Runtime, RuntimeError};
use crate::spec::networking::Networking;
use crate::spec::{ClusterName, ClusterSpec, Family, NodeKind, NodeSpec};

/// Label value of a node's container.
pub const ROLE: &str = "node";

/// What the container of a node may do, when it is no virtual machine.
pub const CAPABILITIES: &[&str] = &container::CAPABILITIES;

/// Reads an archive of images into the namespace that the kubelet's containers come from.
pub const IMPORT: [&str; 6] = ["ctr", "--namespace", "k8s.io", "images", "import", "-"];

/// Run on a machine, succeeds once it is ready for `kubeadm join`.
const CONTAINERD_IS_UP: [&str; 3] = ["test", "-S", "/run/containerd/containerd.sock"];

#[derive(Debug, thiserror::Error)]
enum MachineError {
    #[error("{node}: {step} failed with exit code {code}: {output}")]
    Step { node: String, step: &'static str, code: i64, output: String },
    #[error("{node}: got no further than {reached}; the end of its console:\n{console}")]
    Stuck {
        node: String,
        reached: vm::Stage,
        console: String,
        #[source]
        source: PhaseError,
    },
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        if cx.spec.nodes.is_empty() {
            return Ok(Outcome::Skipped("no nodes asked for".to_owned()));
        }
        let mtu = cx.outputs.network.get()?.mtu;
        let changed = try_join_all(cx.spec.nodes.iter().map(|node| start(cx, node, mtu))).await?;
        match emulated(cx, &changed).await {
            Some(cost) => Ok(Outcome::Warned(cost)),
            None => Ok(Outcome::changed(changed.into_iter().any(|changed| changed))),
        }
    }
    .boxed()
}

/// The container of a node.
pub(super) fn machine(spec: &ClusterSpec, node: &NodeSpec, mtu: u32) -> ContainerSpec {
    match node.kind {
        NodeKind::Container => container::machine(spec, node),
        NodeKind::Vm(size) => vm::machine(spec, node, size, mtu),
    }
}

/// Bytes of the engine's host that a machine may take; `None` when it takes what its pods do.
pub(super) fn memory_bytes(kind: NodeKind) -> Option<u64> {
    match kind {
        NodeKind::Container => None,
        NodeKind::Vm(size) => Some(vm::memory_bytes(size)),
    }
}

async fn start(cx: &Context, node: &NodeSpec, mtu: u32) -> Result<bool, PhaseError> {
    let booted = match node.kind {
        NodeKind::Container => container::start(cx, node, mtu).await?,
        NodeKind::Vm(size) => vm::start(cx, node, size, mtu).await?,
    };
    if booted && cx.spec.networking.has(Family::Ipv6) {
        tell_kubelet(cx, node).await?;
    }
    if booted {
        settings::apply(cx, node).await?;
        cx.events.step(PhaseId::Machines, format!("{} booted", node.name()));
    }
    Ok(booted)
}

/// What emulation costs, where machines that were just booted have no KVM.
async fn emulated(cx: &Context, booted: &[bool]) -> Option<String> {
    let machines = cx.spec.nodes.iter().zip(booted);
    let machines = machines.filter(|(node, booted)| **booted && matches!(node.kind, NodeKind::Vm(_)));
    let looks = machines.map(|(node, _)| async move {
        let container = node_name(&cx.spec.name, &node.name());
        let runs_on = accelerator(cx.ports.runtime.as_ref(), &container).await;
        (runs_on.as_deref() == Some(EMULATED)).then(|| node.name())
    });
    let names: Vec<_> = join_all(looks).await.into_iter().flatten().collect();
    (!names.is_empty()).then(|| cost_of_emulation(&names))
}

/// The accelerator where the engine's host has no KVM, or gives none to containers.
const EMULATED: &str = "tcg";

fn cost_of_emulation(names: &[String]) -> String {
    format!(
        "{} run without KVM, emulated: they take minutes where others take seconds, and a processor of the host \
         each; /dev/kvm on the engine's host, or nested virtualization, ends that",
        names.join(", ")
    )
}

/// Lets the kubelet register with the addresses of all families, however the machine is joined: by
/// itself it takes one of one family.
async fn tell_kubelet(cx: &Context, node: &NodeSpec) -> Result<(), PhaseError> {
    let line = format!("KUBELET_EXTRA_ARGS=--node-ip={}", node_ip(&cx.spec.networking, node));
    let write = format!("echo {line} >/etc/default/kubelet");
    let command = ["/bin/sh", "-euc", &write];
    let output = exec(cx.ports.runtime.as_ref(), &cx.spec.name, node, &command, &[]).await?;
    if output.code != 0 {
        let (node, step, code) = (node.name(), "writing /etc/default/kubelet", output.code);
        return Err(MachineError::Step { node, step, code, output: output.stderr }.into());
    }
    Ok(())
}

/// The kubelet's `--node-ip`: an address of each family, the primary one first.
pub(super) fn node_ip(networking: &Networking, node: &NodeSpec) -> String {
    let addresses: Vec<_> = networking.families().map(|family| node.address(family).to_string()).collect();
    addresses.join(",")
}

/// Runs a command on a node, whatever it runs on.
///
/// # Errors
/// When the engine can't run it; what the command did is in the output. A virtual machine that
/// can't be reached gives 255, the exit code of ssh(1).
pub async fn exec(
    runtime: &dyn Runtime,
    cluster: &ClusterName,
    node: &NodeSpec,
    command: &[&str],
    stdin: &[u8],
) -> Result<ExecOutput, RuntimeError> {
    runtime.exec(&node_name(cluster, &node.name()), &on_node(node, command), stdin).await
}

/// A command as it has to be run in the node's container: by itself, or through the shell of the
/// machine within.
pub fn on_node<'a>(node: &NodeSpec, command: &[&'a str]) -> Vec<&'a str> {
    on_kind(node.kind.name(), command)
}

/// The same for a kind known by its name, the value of [`crate::ports::label::KIND`].
pub fn on_kind<'a>(kind: &str, command: &[&'a str]) -> Vec<&'a str> {
    let shell = (kind == vm::KIND).then_some(vm::EXEC);
    shell.into_iter().chain(command.iter().copied()).collect()
}

/// What a virtual machine's processors run on: `kvm`, or `tcg` where they are emulated; `None`
/// while it isn't known.
pub async fn accelerator(runtime: &dyn Runtime, container: &str) -> Option<String> {
    let output = runtime.exec(container, &["cat", vm::ACCELERATOR], &[]).await.ok()?;
    let name = output.stdout.trim().to_owned();
    (output.code == 0 && !name.is_empty()).then_some(name)
}

/// Removes a node's machine with its volumes, whether it exists or not.
///
/// # Errors
/// When the engine refuses.
pub async fn remove(runtime: &dyn Runtime, spec: &ClusterSpec, node: &NodeSpec) -> Result<(), PhaseError> {
    let name = node_name(&spec.name, &node.name());
    containers::remove_own(runtime, &spec.name, &name).await?;
    let volumes: &[&str] = match node.kind {
        NodeKind::Container => &container::VOLUMES,
        NodeKind::Vm(_) => &vm::VOLUMES,
    };
    for volume in volumes {
        runtime.remove_volume(&format!("{name}-{volume}")).await?;
    }
    Ok(())
}

/// Gives back what a removed machine had from dnsmasq.
///
/// # Errors
/// When it is still there; nothing depends on it.
pub async fn release(runtime: &dyn Runtime, spec: &ClusterSpec, node: &NodeSpec) -> Result<(), PhaseError> {
    match node.kind {
        NodeKind::Container => Ok(()),
        NodeKind::Vm(_) => vm::release(runtime, spec, node).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulation_is_told_with_what_it_costs_and_what_ends_it() {
        let told = cost_of_emulation(&["node01".to_owned(), "node02".to_owned()]);
        assert!(told.starts_with("node01, node02 run without KVM"), "{told}");
        assert!(told.contains("minutes") && told.contains("/dev/kvm"), "{told}");
    }
}
