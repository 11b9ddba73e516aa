//! What containerd of a node is told beyond its image's configuration: where registries are. Nothing,
//! unless it was asked for.
//!
//! It goes in once the machine has booted, by a script on standard input, the same for both kinds of
//! node: nothing of it is in argv or labels.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::MachineError;
use crate::engine::PhaseError;
use crate::phases::Context;
use crate::spec::{ClusterSpec, NodeSpec, REGISTRY_HOST, REGISTRY_PORT};

/// Tells a machine that has just booted.
pub(super) async fn apply(cx: &Context, node: &NodeSpec) -> Result<(), PhaseError> {
    let Some(script) = script(&cx.spec, cx.outputs.network.get()?.registry) else { return Ok(()) };
    let runtime = cx.ports.runtime.as_ref();
    let output = super::exec(runtime, &cx.spec.name, node, &["/bin/sh", "-eu"], script.as_bytes()).await?;
    if output.code != 0 {
        let (node, step, code) = (node.name(), "telling containerd of registries", output.code);
        return Err(MachineError::Step { node, step, code, output: output.stderr }.into());
    }
    Ok(())
}

/// The script, when there is anything to tell. `published` is where the cluster's registry is on the
/// engine's host.
fn script(spec: &ClusterSpec, published: Option<SocketAddr>) -> Option<String> {
    let hosts: Vec<_> = published.map(|at| registry(spec, at)).into_iter().flatten().collect();
    if hosts.is_empty() {
        return None;
    }
    let mut script = format!("restart=\n{}", include_str!("settings.sh"));
    for (host, toml) in hosts {
        let _ = write!(script, "registry '{host}' <<'END'\n{toml}END\n");
    }
    // Before the machine joins no pod is there to notice. It returns once containerd answers.
    script.push_str("[ -z \"$restart\" ] || systemctl restart containerd\n");
    Some(script)
}

/// The names of the cluster's registry, with where containerd finds it (containerd, docs/hosts.md).
/// What was pushed to the engine's host is pulled by the same name.
fn registry(spec: &ClusterSpec, published: SocketAddr) -> [(String, String); 2] {
    let at = SocketAddr::new(spec.networking.control_plane(), REGISTRY_PORT);
    // As a host too: containerd 1.7 passes a server by that is named alone.
    let toml = format!(
        "server = \"http://{at}\"\n[host.\"http://{at}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    );
    [format!("{REGISTRY_HOST}:{REGISTRY_PORT}"), format!("localhost:{}", published.port())]
        .map(|name| (name, toml.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;
    use crate::spec::test_spec;

    #[test]
    fn a_node_is_told_nothing_that_nobody_asked_for() {
        assert_eq!(script(&test_spec(), None), None);
    }

    #[test]
    fn both_names_of_the_registry_lead_to_the_shared_namespace() -> Result<(), Box<dyn std::error::Error>> {
        let published = Some(SocketAddr::from(([127, 0, 0, 1], 5001)));
        for (spec, at) in [(testing::spec()?, "192.168.66.2:5000"), (testing::ipv6_only()?, "[fd00::1]:5000")]
        {
            let script = script(&spec, published).unwrap_or_default();
            for name in ["registry:5000", "localhost:5001"] {
                let told = format!("registry '{name}' <<'END'\nserver = \"http://{at}\"\n[host.\"http://{at}\"]\n");
                assert!(script.contains(&told), "{script}");
            }
        }
        Ok(())
    }
}
