//! registry: a registry of the cluster's own, where it is asked for. Images are pushed to it from the
//! engine's host, and nodes pull them.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::object::{Object, ObjectError};
use crate::phases::containers::{self, Watch, component_name, name_prefix};
use crate::phases::flags::Flags;
use crate::phases::network::attach;
use crate::phases::{Context, PhaseId, apply, control_plane, wait};
use crate::ports::{ContainerSpec, Mount, MountKind};
use crate::spec::{ClusterSpec, Component, REGISTRY_HOST, REGISTRY_PORT};

/// Where the image's configuration has it keep what was pushed.
const DATA: &str = "/var/lib/registry";

/// It listens within a moment of its start.
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks for the base of its API (OCI Distribution, `GET /v2/`); its own image has no shell.
const ANSWERS: &str = "exec 3<>/dev/tcp/127.0.0.1/$0 && printf 'GET /v2/ HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '";

/// Its container. What was pushed is in a volume of its own, which goes with the cluster.
pub(super) fn container(spec: &ClusterSpec, nofile: u64) -> ContainerSpec {
    let mut registry =
        control_plane::container(spec, Component::Registry, Flags::default(), Vec::new(), nofile);
    registry.mounts = vec![Mount {
        target: DATA.to_owned(),
        kind: MountKind::Volume(format!("{}-registry", name_prefix(spec))),
    }];
    registry
}

/// Says where the registry is, to tools that push to it (KEP-1755). `published` is where on the
/// engine's host.
///
/// # Errors
/// When it can't be written as JSON, which would be a fault of hoist.
pub(super) fn hosting(published: SocketAddr) -> Result<Object, ObjectError> {
    let within = format!("{REGISTRY_HOST}:{REGISTRY_PORT}");
    let text = format!(
        "host: \"localhost:{}\"\nhostFromContainerRuntime: \"{within}\"\nhostFromClusterNetwork: \"{within}\"\n",
        published.port()
    );
    Object::new(&ConfigMap {
        metadata: ObjectMeta {
            namespace: Some("kube-public".to_owned()),
            name: Some("local-registry-hosting".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("localRegistryHosting.v1".to_owned(), text)].into()),
        ..ConfigMap::default()
    })
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let network = cx.outputs.network.get()?;
        let Some(published) = network.registry else {
            return Ok(Outcome::Skipped("no registry asked for".to_owned()));
        };
        let container = async {
            let (runtime, role) = (&cx.ports.runtime, Component::Registry.name());
            let spec = container(&cx.spec, network.nofile);
            let changed = containers::reconcile(runtime, &cx.spec.name, role, spec).await?;
            answers(cx).await?;
            Ok::<_, PhaseError>(changed)
        };
        let objects = [hosting(published)?];
        let (changed, told) = tokio::try_join!(container, apply::phase(cx, &objects))?;
        let port = published.port();
        cx.events.step(PhaseId::Registry, format!("what is pushed to localhost:{port} is pulled by nodes"));
        Ok(if changed { Outcome::Done } else { told })
    }
    .boxed()
}

async fn answers(cx: &Context) -> Result<(), PhaseError> {
    let name = component_name(&cx.spec, Component::Registry);
    let (tools, port) = (attach::tools_name(&cx.spec), REGISTRY_PORT.to_string());
    let watch = Watch::default();
    wait::until(DEADLINE, || async {
        watch.check(&cx.ports.runtime, &name).await?;
        let output = cx.ports.runtime.exec(&tools, &["bash", "-c", ANSWERS, &port], &[]).await?;
        Ok(match output.code {
            0 => wait::Poll::Ready(()),
            _ => wait::Poll::Pending(format!("{name} does not answer on port {port}")),
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::network::NONROOT;
    use crate::spec::{Registry, test_spec};

    #[test]
    fn its_container_has_no_rights_and_its_data_outlive_it() {
        let mut spec = test_spec();
        spec.registry = Some(Registry { port: 0 });
        let container = container(&spec, 1024);
        assert!(container.read_only_root && container.capabilities.is_empty());
        assert_eq!(container.user.as_deref(), Some(NONROOT));
        let volume = MountKind::Volume("hoist-sample-registry".to_owned());
        assert_eq!(container.mounts, [Mount { target: DATA.to_owned(), kind: volume }]);
    }

    #[test]
    fn tools_are_told_by_the_names_of_kep_1755() -> Result<(), Box<dyn std::error::Error>> {
        let object = hosting(SocketAddr::from(([127, 0, 0, 1], 5001)))?;
        let text = object.value()["data"]["localRegistryHosting.v1"].as_str().unwrap_or_default().to_owned();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "host: \"localhost:5001\"",
                "hostFromContainerRuntime: \"registry:5000\"",
                "hostFromClusterNetwork: \"registry:5000\"",
            ]
        );
        Ok(())
    }
}
