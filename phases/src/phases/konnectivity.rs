//! konnectivity: the API server's way to kubelets and pods without a route to them. Agents on the
//! nodes dial a server beside the API server, which sends its requests through their connections.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::DaemonSet;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::phases::containers::{self, Watch, component_name};
use crate::phases::flags::Flags;
use crate::phases::network::attach;
use crate::phases::{Context, addon, apply, control_plane, images, wait};
use crate::pki::CONTAINER_PKI_DIR;
use crate::ports::{ContainerSpec, FileEntry, Mount, MountKind};
use crate::spec::{ClusterSpec, Component, Reach};

/// Where agents dial the server.
pub const AGENT_PORT: u16 = 8132;
/// On loopback, as the health port.
pub(super) const ADMIN_PORT: u16 = 8133;
pub(super) const HEALTH_PORT: u16 = 8134;

/// Where the API server reads which of its requests take this way.
pub(super) const EGRESS_SELECTOR: &str = "/etc/kubernetes/egress-selector.yaml";

/// What the server and the API server share, in both containers.
const SOCKET_DIR: &str = "/run/konnectivity";
const SOCKET: &str = "/run/konnectivity/server.sock";

const MANIFEST: (&str, &str) =
    ("konnectivity/konnectivity.yaml", include_str!("../../../manifests/konnectivity/konnectivity.yaml"));

/// Flag of the agent that says where to dial.
const SERVER_HOST: &str = "--proxy-server-host=";

/// The server listens within a moment of its start.
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks for the server's health where it listens; its own image has no shell.
const HEALTHY: &str = "exec 3<>/dev/tcp/127.0.0.1/$0 && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '";

/// The volume of the socket: a tmpfs of the user that both run as. Only they can open it, so it
/// needs no TLS of its own.
pub(super) fn socket(spec: &ClusterSpec) -> Mount {
    let kind = MountKind::TmpfsVolume { name: volume(spec), bytes: 1 << 20 };
    Mount { target: SOCKET_DIR.to_owned(), kind }
}

fn volume(spec: &ClusterSpec) -> String {
    format!("{}-konnectivity", containers::name_prefix(spec))
}

/// Sends what goes to nodes, pods and services through konnectivity (EgressSelectorConfiguration,
/// apiserver.k8s.io/v1beta1). etcd and what is beside the API server stay direct.
pub(super) fn egress_selector() -> FileEntry {
    let content = serde_json::json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{
            "name": "cluster",
            "connection": { "proxyProtocol": "GRPC", "transport": { "uds": { "udsName": SOCKET } } },
        }],
    });
    FileEntry { path: EGRESS_SELECTOR.to_owned(), mode: 0o644, content: content.to_string().into_bytes() }
}

/// Flags of the server (apiserver-network-proxy, cmd/server/app/options).
fn flags(spec: &ClusterSpec) -> Flags {
    let pki = CONTAINER_PKI_DIR;
    Flags::new([
        ("admin-bind-address", "127.0.0.1".to_owned()),
        ("admin-port", ADMIN_PORT.to_string()),
        // Agents show a token of their service account, made for this audience alone.
        ("agent-namespace", "kube-system".to_owned()),
        ("agent-port", AGENT_PORT.to_string()),
        ("agent-service-account", "konnectivity-agent".to_owned()),
        ("authentication-audience", "system:konnectivity-server".to_owned()),
        ("cluster-cert", format!("{pki}/konnectivity-server.crt")),
        ("cluster-key", format!("{pki}/konnectivity-server.key")),
        ("delete-existing-uds-file", "true".to_owned()),
        ("health-bind-address", "127.0.0.1".to_owned()),
        ("health-port", HEALTH_PORT.to_string()),
        // The agent of a node that died without a word is given up within half a minute.
        ("keepalive-time", "10s".to_owned()),
        ("kubeconfig", "/etc/kubernetes/konnectivity-server.conf".to_owned()),
        ("mode", "grpc".to_owned()),
        // The agent of the very node that is dialled; for pods any that says it can.
        ("proxy-strategies", "destHost,defaultRoute,default".to_owned()),
        ("server-port", "0".to_owned()),
        ("uds-name", SOCKET.to_owned()),
        ("v", "1".to_owned()),
    ])
    .overridden_by(&spec.component(Component::Konnectivity).extra_args)
}

fn server(cx: &Context) -> Result<ContainerSpec, PhaseError> {
    let mut files = cx.outputs.pki.get()?.files_for(Component::Konnectivity);
    files.extend(cx.outputs.kubeconfigs.get()?.file_for(Component::Konnectivity));
    Ok(container(&cx.spec, files, cx.outputs.network.get()?.nofile))
}

/// The server's container, with these keys.
pub(super) fn container(spec: &ClusterSpec, files: Vec<FileEntry>, nofile: u64) -> ContainerSpec {
    let mut server = control_plane::container(spec, Component::Konnectivity, flags(spec), files, nofile);
    server.mounts.push(socket(spec));
    server
}

/// The agents, and the server's right to review their tokens.
///
/// # Errors
/// When the embedded manifest is broken.
pub fn objects(spec: &ClusterSpec) -> Result<Vec<Object>, ManifestError> {
    let mut manifest = Manifest::parse(MANIFEST.0, MANIFEST.1)?;
    manifest.edit("konnectivity-agent", |set: &mut DaemonSet| {
        let template = set.spec.as_mut().map(|s| &mut s.template).ok_or(EditError("spec.template"))?;
        addon::set_images(Some(template), &images::on_nodes(spec, "konnectivity-agent"))?;
        let containers = template.spec.as_mut().map(|pod| pod.containers.iter_mut()).into_iter().flatten();
        let mut arguments = containers.flat_map(|container| container.args.iter_mut().flatten());
        let host = arguments.find(|argument| argument.starts_with(SERVER_HOST));
        *host.ok_or(EditError("args"))? = format!("{SERVER_HOST}{}", spec.api_host());
        Ok(())
    })?;
    manifest.objects()
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        match cx.spec.reach {
            Reach::Konnectivity => start(cx).await,
            Reach::Routes | Reach::None => stop(cx).await,
        }
    }
    .boxed()
}

async fn start(cx: &Context) -> Result<Outcome, PhaseError> {
    let (runtime, cluster) = (&cx.ports.runtime, &cx.spec.name);
    let objects = objects(&cx.spec)?;
    let api = cx.outputs.api.get()?;
    let server = async {
        let role = Component::Konnectivity.name();
        let changed = containers::reconcile(runtime, cluster, role, server(cx)?).await?;
        healthy(cx).await?;
        Ok::<_, PhaseError>(changed)
    };
    let agents = async { Ok(apply::apply(api.as_ref(), &objects, apply::DEADLINE).await?) };
    let (changed, mut burst) = tokio::try_join!(server, agents)?;
    burst.changed += usize::from(changed);
    Ok(burst.outcome())
}

async fn healthy(cx: &Context) -> Result<(), PhaseError> {
    let name = component_name(&cx.spec, Component::Konnectivity);
    let tools = attach::tools_name(&cx.spec);
    let port = cx.spec.component(Component::Konnectivity).arg("health-port").map(str::to_owned);
    let port = port.unwrap_or_else(|| HEALTH_PORT.to_string());
    let watch = Watch::default();
    wait::until(DEADLINE, || async {
        watch.check(&cx.ports.runtime, &name).await?;
        let output = cx.ports.runtime.exec(&tools, &["bash", "-c", HEALTHY, &port], &[]).await?;
        Ok(match output.code {
            0 => wait::Poll::Ready(()),
            _ => wait::Poll::Pending(format!("{name} does not answer on its health port")),
        })
    })
    .await
}

/// Takes away what an earlier run with another reach has left, each thing by its own presence: the
/// cleanup of a run that failed may have taken any of them already.
async fn stop(cx: &Context) -> Result<Outcome, PhaseError> {
    let (runtime, cluster) = (cx.ports.runtime.as_ref(), &cx.spec.name);
    let name = component_name(&cx.spec, Component::Konnectivity);
    let objects = objects(&cx.spec)?;
    let mut left = apply::delete_own(cx.outputs.api.get()?.as_ref(), &objects, apply::DEADLINE).await? > 0;
    if runtime.inspect(&name).await?.is_some() {
        containers::remove_own(runtime, cluster, &name).await?;
        left = true;
    }
    let volume = volume(&cx.spec);
    if runtime.volumes(cluster.as_str()).await?.contains(&volume) {
        runtime.remove_volume(&volume).await?;
        left = true;
    }
    let none = || Outcome::Skipped(format!("reach: {}", cx.spec.reach.as_str()));
    Ok(if left { Outcome::Done } else { none() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;

    type Check = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn default_objects() -> Check {
        insta::assert_snapshot!(testing::text(&objects(&testing::spec()?)?)?);
        Ok(())
    }

    /// What one side says is what the other looks for.
    #[test]
    fn server_and_agents_fit_each_other() -> Check {
        let spec = testing::spec()?;
        let (flags, objects) = (flags(&spec), objects(&spec)?);
        let set = testing::find(&objects, "DaemonSet", "konnectivity-agent");
        let pod = &set["spec"]["template"]["spec"];
        let args: Vec<_> = pod["containers"][0]["args"].as_array().into_iter().flatten().collect();
        let has = |arg: String| args.iter().any(|found| **found == arg);
        assert!(has(format!("--proxy-server-port={}", flags.get("agent-port").unwrap_or_default())));
        assert_eq!(set["metadata"]["namespace"].as_str(), flags.get("agent-namespace"));
        assert_eq!(pod["serviceAccountName"].as_str(), flags.get("agent-service-account"));
        let token = &pod["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"];
        assert_eq!(token["audience"].as_str(), flags.get("authentication-audience"));
        let binding = testing::find(&objects, "ClusterRoleBinding", "system:konnectivity-server");
        assert_eq!(binding["subjects"][0]["name"], crate::pki::KONNECTIVITY_SERVER);
        Ok(())
    }
}
