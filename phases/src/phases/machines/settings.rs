//! What containerd of a node is told beyond its image's configuration: where registries and their
//! mirrors are, and through which proxy it reaches them. Nothing, unless it was asked for.
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
        let (node, step, code) = (node.name(), "telling containerd of registries and proxies", output.code);
        return Err(MachineError::Step { node, step, code, output: output.stderr }.into());
    }
    Ok(())
}

/// The script, when there is anything to tell. `published` is where the cluster's registry is on the
/// engine's host.
fn script(spec: &ClusterSpec, published: Option<SocketAddr>) -> Option<String> {
    let mirrors = spec.mirrors.iter().map(|(host, urls)| (host.clone(), mirrors(urls)));
    let hosts: Vec<_> = mirrors.chain(published.map(|at| registry(spec, at)).into_iter().flatten()).collect();
    let variables = spec.proxy.environment(spec);
    if hosts.is_empty() && variables.is_empty() {
        return None;
    }
    let mut script = "restart=\n".to_owned();
    if !hosts.is_empty() {
        script.push_str(include_str!("registries.sh"));
    }
    for (host, toml) in hosts {
        let _ = write!(script, "registry '{host}' <<'END'\n{toml}END\n");
    }
    if !variables.is_empty() {
        let lines: String = variables.iter().map(|(name, value)| format!("{name}=\"{value}\"\n")).collect();
        let _ = write!(script, "{}proxy <<'END'\n{lines}END\n", include_str!("proxy.sh"));
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
    let url = format!("http://{at}");
    let toml = format!("server = \"{url}\"\n{}", mirrors(std::slice::from_ref(&url)));
    [format!("{REGISTRY_HOST}:{REGISTRY_PORT}"), format!("localhost:{}", published.port())]
        .map(|name| (name, toml.clone()))
}

/// Where containerd asks before the registry itself. A URL that says where its API begins is taken as it
/// is; otherwise that is at `/v2` below it.
fn mirrors(urls: &[String]) -> String {
    let table = |url: &String| {
        let own = if url.contains("/v2") { "  override_path = true\n" } else { "" };
        format!("[host.\"{url}\"]\n  capabilities = [\"pull\", \"resolve\"]\n{own}")
    };
    urls.iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;
    use crate::spec::{Secret, test_spec};

    #[test]
    fn a_node_is_told_nothing_that_nobody_asked_for() {
        assert_eq!(script(&test_spec(), None), None);
    }

    #[test]
    fn mirrors_are_asked_in_their_order() {
        let mut spec = test_spec();
        let urls = ["https://a.example", "https://b.example/v2/docker"].map(str::to_owned).to_vec();
        spec.mirrors.insert("docker.io".to_owned(), urls);
        let script = script(&spec, None).unwrap_or_default();
        let told = "registry 'docker.io' <<'END'\n[host.\"https://a.example\"]\n  capabilities = [\"pull\", \"resolve\"]\n\
                    [host.\"https://b.example/v2/docker\"]\n  capabilities = [\"pull\", \"resolve\"]\n  override_path = true\nEND\n";
        assert!(script.contains(told) && !script.contains("proxy"), "{script}");
    }

    #[test]
    fn a_proxy_alone_leaves_registries_alone() {
        let mut spec = test_spec();
        spec.proxy.http = Some(Secret::new("http://me:secret@proxy.example:3128"));
        let script = script(&spec, None).unwrap_or_default();
        assert!(
            script.contains("\nHTTP_PROXY=\"http://me:secret@proxy.example:3128\"\nNO_PROXY=\"localhost,"),
            "{script}"
        );
        assert!(!script.contains("certs.d"), "{script}");
    }

    #[test]
    fn both_names_of_the_registry_lead_to_the_shared_namespace() -> Result<(), Box<dyn std::error::Error>> {
        let published = Some(SocketAddr::from(([127, 0, 0, 1], 5001)));
        for (spec, at) in [(testing::spec()?, "192.168.66.2:5000"), (testing::ipv6_only()?, "[fd00::1]:5000")]
        {
            let script = script(&spec, published).unwrap_or_default();
            for name in ["registry:5000", "localhost:5001"] {
                let told =
                    format!("registry '{name}' <<'END'\nserver = \"http://{at}\"\n[host.\"http://{at}\"]\n");
                assert!(script.contains(&told), "{script}");
            }
        }
        Ok(())
    }
}
