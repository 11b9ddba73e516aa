//! nodes: joins the machines with an unmodified `kubeadm join`, side by side.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join_all};
use serde_json::{Value, json};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::object::ObjectRef;
use crate::phases::{Context, PhaseId, images, machines, preload, skew};
use crate::ports::ExecOutput;
use crate::spec::{ClusterSpec, Cni, KUBEADM_API, NodeKind, NodeSpec};

/// Where a node keeps its join configuration while `kubeadm join` runs: a tmpfs.
const JOIN_CONFIG: &str = "/run/hoist-join.yaml";

/// How far a machine has come. The kubelet writes its kubeconfig once its certificate has been
/// signed; a join that was cut off before has left the CA, which the next one would refuse.
const HOW_FAR: &str = "cd /etc/kubernetes; if [ -e kubelet.conf ]; then echo joined; \
                       elif [ -e pki/ca.crt ]; then echo half; else echo new; fi";

/// Starts the kubelet of a node that registers again, which may get another range of pod addresses then: what has
/// one of the old range goes, and no pod starts before kube-router knows the new one. Routes of protocol 17 are
/// its own (kube-router 2.1).
const ANEW: &str = "trap 'systemctl start kubelet' EXIT; systemctl stop kubelet; \
                    if command -v crictl >/dev/null; then crictl rmp --all --force >/dev/null; \
                    ip link delete kube-bridge 2>/dev/null || :; fi; rm -f /etc/cni/net.d/10-hoist.conflist; \
                    ip -4 route flush proto 17; ip -6 route flush proto 17";

/// Checks of `kubeadm join` that judge the engine's host, which a container can't change.
/// Each is named in docs/nodes.md.
pub const HOST_CHECKS: [&str; 1] = ["SystemVerification"];

#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error("{node}: can't tell whether it has joined (exit code {code}): {output}")]
    Probe { node: String, code: i64, output: String },
    #[error("{node}: can't ask kubeadm and kubelet for their versions (exit code {code}): {output}")]
    Versions { node: String, code: i64, output: String },
    #[error(
        "{node}: the API server doesn't know it, and its kubelet can't be started again (exit code {code}): {output}"
    )]
    Register { node: String, code: i64, output: String },
    #[error("{node}: kubeadm join ended with exit code {code}:\n{output}")]
    Join { node: String, code: i64, output: String },
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        if cx.spec.nodes.is_empty() {
            return Ok(Outcome::Skipped("no nodes asked for".to_owned()));
        }
        let done = try_join_all(cx.spec.nodes.iter().map(|node| join(cx, node))).await?;
        let forgotten = cx.spec.nodes.iter().zip(&done).filter(|(_, done)| **done == Done::Registers);
        let forgotten: Vec<_> = forgotten.map(|(node, _)| node.name()).collect();
        Ok(match forgotten.is_empty() {
            true => Outcome::changed(done.contains(&Done::Joined)),
            false => Outcome::Warned(format!(
                "the API server had forgotten {}; they register again",
                forgotten.join(", ")
            )),
        })
    }
    .boxed()
}

/// What had to be done for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Nothing,
    Joined,
    /// It had joined, and the API server no longer knew it.
    Registers,
}

async fn join(cx: &Context, node: &NodeSpec) -> Result<Done, PhaseError> {
    let (runtime, name) = (&cx.ports.runtime, node.name());
    let exec = async |command: &[&str], stdin: &[u8]| {
        machines::exec(runtime.as_ref(), &cx.spec.name, node, command, stdin).await
    };
    let found = exec(&["/bin/sh", "-euc", HOW_FAR], &[]).await?;
    let before = match (found.code, found.stdout.trim()) {
        (0, "joined") => {
            // The addons may have been upgraded while the machine was away.
            if images::lacks_addons(node) && !cx.spec.held.is_empty() {
                preload::run(cx, node).await?;
            }
            return register(cx, node).await;
        }
        (0, "half") => "kubeadm reset --force && ",
        (0, "new") => "",
        // Not knowing is no reason to take a node for a new one.
        (code, _) => return Err(JoinError::Probe { node: name, code, output: found.stderr }.into()),
    };
    // hoist's own image of the cluster's version holds what a node needs.
    if images::lacks_addons(node) {
        let versions = exec(&["/bin/sh", "-c", skew::VERSIONS], &[]).await?;
        if versions.code != 0 {
            let output = versions.stderr;
            return Err(JoinError::Versions { node: name, code: versions.code, output }.into());
        }
        skew::check(&name, &images::of_node(&cx.spec, node), &versions.stdout, cx.spec.kubernetes)?;
        preload::run(cx, node).await?;
    }

    // The machine is new: what the API still knows of an earlier one of its name would make
    // kubeadm refuse.
    cx.outputs.api.get()?.delete(&object(name.clone())).await?;

    let mut output = kubeadm_join(cx, node, before).await?;
    if runtime_was_slow(&output.stdout) {
        cx.events.step(
            PhaseId::Nodes,
            format!("{name}: containerd was slow to answer kubeadm, which tries again"),
        );
        output = kubeadm_join(cx, node, before).await?;
    }
    if output.code != 0 {
        return Err(JoinError::Join { node: name, code: output.code, output: output.stdout }.into());
    }
    cx.events.step(PhaseId::Nodes, format!("{name} joined"));
    Ok(Done::Joined)
}

/// Makes a node known again to an API server that has lost it: a kubelet registers when it starts, and
/// never after. Its certificate is of a CA that outlives the data, so that it needs no other join.
async fn register(cx: &Context, node: &NodeSpec) -> Result<Done, PhaseError> {
    let name = node.name();
    if cx.outputs.api.get()?.get(&object(name.clone())).await?.is_some() {
        return Ok(Done::Nothing);
    }
    let script = if cx.spec.cni == Cni::KubeRouter { ANEW } else { "systemctl restart kubelet" };
    let (runtime, command) = (cx.ports.runtime.as_ref(), ["/bin/sh", "-euc", script]);
    let output = machines::exec(runtime, &cx.spec.name, node, &command, &[]).await?;
    if output.code != 0 {
        let output_text = output.stdout + &output.stderr;
        return Err(JoinError::Register { node: name, code: output.code, output: output_text }.into());
    }
    Ok(Done::Registers)
}

fn object(name: String) -> ObjectRef {
    ObjectRef { api_version: "v1".into(), kind: "Node".into(), namespace: None, name }
}

/// Runs `kubeadm join`, after what has to be done `before`; what it says is in its standard output.
async fn kubeadm_join(cx: &Context, node: &NodeSpec, before: &str) -> Result<ExecOutput, PhaseError> {
    // By a file that only root can read, not by flags: a token in argv is there for all to see. One command for
    // all, since an emulated machine makes each a session of SSH and a shell.
    let config = join_configuration(&cx.spec, &cx.outputs.pki.get()?.ca_cert_hash(), node);
    let join = format!(
        "exec 2>&1; trap 'rm -f {JOIN_CONFIG}' EXIT; (umask 077; cat >{JOIN_CONFIG}) && \
         {before}kubeadm join --config {JOIN_CONFIG}"
    );
    let command = ["/bin/sh", "-uc", &join];
    let runtime = cx.ports.runtime.as_ref();
    Ok(machines::exec(runtime, &cx.spec.name, node, &command, config.as_bytes()).await?)
}

/// Whether kubeadm's preflight, which changes nothing, gave up on a container runtime that runs: it gives it 2 s
/// (kubeadm 1.36), too little for an emulated machine on a busy host.
fn runtime_was_slow(said: &str) -> bool {
    let slow = |line: &str| line.contains("[ERROR CRI]") && line.contains("DeadlineExceeded");
    said.lines().any(slow)
}

fn kubelet_args(spec: &ClusterSpec, node: &NodeSpec) -> Vec<Value> {
    let labels: Vec<_> = node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels = (!labels.is_empty()).then(|| ("node-labels", labels.join(",")));
    let args = [("node-ip", machines::node_ip(&spec.networking, node))].into_iter().chain(labels);
    args.map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// A JoinConfiguration ([`KUBEADM_API`]), as JSON, which is YAML too.
fn join_configuration(spec: &ClusterSpec, ca_cert_hash: &str, node: &NodeSpec) -> String {
    let ignored: &[&str] = match node.kind {
        NodeKind::Container => &HOST_CHECKS,
        NodeKind::Vm(_) => &[],
    };
    json!({
        "apiVersion": KUBEADM_API,
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": spec.api_authority(),
                "token": spec.token.expose(),
                "caCertHashes": [ca_cert_hash],
            },
        },
        "nodeRegistration": {
            "name": node.name(),
            "kubeletExtraArgs": kubelet_args(spec, node),
            "taints": node.taints,
            "ignorePreflightErrors": ignored,
        },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preflight_is_repeated_for_a_slow_container_runtime_alone() {
        let slow = "error: [preflight] Some fatal errors occurred:\n\t[ERROR CRI]: could not connect to the container \
                    runtime: failed to create new CRI runtime service: validate service connection: validate CRI v1 \
                    runtime API for endpoint \"unix:///var/run/containerd/containerd.sock\": rpc error: code = \
                    DeadlineExceeded desc = context deadline exceeded\n";
        assert!(runtime_was_slow(slow));
        for other in [
            "\t[ERROR CRI]: container runtime condition \"RuntimeReady\" is not true",
            "\t[ERROR Port-10250]: Port 10250 is in use\nrpc error: code = DeadlineExceeded",
            "",
        ] {
            assert!(!runtime_was_slow(other), "{other:?}");
        }
    }
}
