//! upgrade: components of another Kubernetes version than the cluster's are replaced one after the other,
//! each well before the next: the data store, then kube-apiserver, then kube-controller-manager and
//! kube-scheduler. The phases that make them find them as they should be then.
//!
//! It goes by what runs, so that a run that was cut off is gone on with by the next one.

mod rollout;
pub mod rules;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join_all};
use serde_json::Value;

use crate::causes;
use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers::{self, Watch, node_name};
use crate::phases::{Context, PhaseId, control_plane, etcd, health, images, preload, wait};
use crate::ports::{ContainerSpec, ContainerState, KubeApi, Status, label};
use crate::spec::{ClusterSpec, Component, KubernetesVersion};

pub use rollout::{rolled_out, workloads};

/// For one component, from its start until it is well. A process that ended doesn't wait for it.
const DEADLINE: Duration = Duration::from_secs(180);

const ETCDCTL: [&str; 4] = ["/usr/local/bin/etcdctl", "--command-timeout=3s", "endpoint", "health"];

/// Exit codes of engines where there is no such program: in an image without etcd's tools, as anybody's may
/// be. Whether etcd serves is told by the API server then, which comes next.
const NO_PROGRAM: [i64; 2] = [126, 127];

/// The component that could not take its place.
#[derive(Debug, thiserror::Error)]
#[error("{component} of {version} does not take the place of the one before")]
pub struct UpgradeError {
    pub component: Component,
    /// That of its image.
    pub version: KubernetesVersion,
    #[source]
    pub source: PhaseError,
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        // The common case asks the engine nothing.
        if cx.spec.held.is_empty() {
            return Ok(Outcome::Skipped("of the version it was made with".to_owned()));
        }
        let found = cx.ports.runtime.list(Some(cx.spec.name.as_str())).await?;
        if stale(&found, &cx.spec).is_empty() {
            return Ok(Outcome::Unchanged);
        }
        // Pods of the addons can't start without their images, which no registry serves.
        give_images(cx, &found).await?;
        let api = cx.ports.connect.connect(cx.outputs.kubeconfigs.get()?.super_admin()).await?;
        let (beside, first): (Vec<_>, Vec<_>) = replaceable(&cx.spec)
            .partition(|component| matches!(component, Component::ControllerManager | Component::Scheduler));
        for component in first {
            replace(cx, api.as_ref(), component).await?;
        }
        try_join_all(beside.into_iter().map(|component| replace(cx, api.as_ref(), component))).await?;
        Ok(Outcome::Done)
    }
    .boxed()
}

/// Components whose containers are there and made from another image than they should be.
pub fn stale(found: &[ContainerState], spec: &ClusterSpec) -> Vec<Component> {
    let stale = replaceable(spec).filter(|component| {
        image(found, *component).is_some_and(|image| image != images::reference(spec, component.name()))
    });
    stale.collect()
}

/// Whether each component is there and made from the image that it should be.
pub fn is_whole(found: &[ContainerState], spec: &ClusterSpec) -> bool {
    replaceable(spec).all(|component| {
        image(found, component).is_some_and(|image| image == images::reference(spec, component.name()))
    })
}

/// In the order that they are replaced in.
fn replaceable(spec: &ClusterSpec) -> impl Iterator<Item = Component> {
    spec.etcd.backend.component().into_iter().chain(control_plane::COMPONENTS)
}

fn image(found: &[ContainerState], component: Component) -> Option<&str> {
    let role =
        |state: &&ContainerState| state.labels.get(label::ROLE).map(String::as_str) == Some(component.name());
    found.iter().find(role).map(|state| state.image.as_str())
}

/// Puts the addons' images into the nodes that run. Others get them when they have been started.
async fn give_images(cx: &Context, found: &[ContainerState]) -> Result<(), PhaseError> {
    let runs = |name: String| found.iter().any(|state| state.name == name && state.status == Status::Running);
    let nodes = cx.spec.nodes.iter().filter(|node| images::lacks_addons(node));
    let nodes = nodes.filter(|node| runs(node_name(&cx.spec.name, &node.name())));
    try_join_all(nodes.map(|node| preload::run(cx, node))).await?;
    Ok(())
}

/// Makes a component what it should be and waits until it is well.
async fn replace(cx: &Context, api: &dyn KubeApi, component: Component) -> Result<(), PhaseError> {
    let spec = desired(cx, component)?;
    let (runtime, name) = (&cx.ports.runtime, spec.name.clone());
    let version = images::version(&spec.image).unwrap_or(cx.spec.kubernetes);
    let failed = |source| UpgradeError { component, version, source };
    let reconciled = containers::reconcile(runtime, &cx.spec.name, component.name(), spec).await;
    let changed = reconciled.map_err(|error| failed(error.into()))?;
    let watch = Watch::default().reviving(&cx.spec);
    let well = wait::until(DEADLINE, || async {
        watch.check(runtime, &name).await?;
        Ok(look(cx, api, component, &name).await)
    });
    well.await.map_err(failed)?;
    if changed {
        cx.events.step(PhaseId::Upgrade, format!("{component} of {version} serves"));
    }
    Ok(())
}

fn desired(cx: &Context, component: Component) -> Result<ContainerSpec, PhaseError> {
    let nofile = cx.outputs.network.get()?.nofile;
    let mut files = cx.outputs.pki.get()?.files_for(component);
    if control_plane::COMPONENTS.contains(&component) {
        files.extend(cx.outputs.kubeconfigs.get()?.file_for(component));
        return Ok(control_plane::desired(&cx.spec, component, files, nofile)?);
    }
    let (_, spec) = etcd::container(&cx.spec, files, nofile).ok_or("the data store is somebody else's")?;
    Ok(spec)
}

/// Whether a component is well, and of the version that it should be of.
async fn look(cx: &Context, api: &dyn KubeApi, component: Component, name: &str) -> wait::Poll<()> {
    match component {
        // kine has no tool to ask with; the API server, which comes next, needs it.
        Component::Kine => wait::Poll::Ready(()),
        Component::Etcd => match cx.ports.runtime.exec(name, &ETCDCTL, &[]).await {
            Ok(output) if output.code == 0 || NO_PROGRAM.contains(&output.code) => wait::Poll::Ready(()),
            Ok(output) => {
                wait::Poll::Pending(format!("{}{}", output.stdout, output.stderr).trim().to_owned())
            }
            Err(error) => wait::Poll::Pending(causes(&error)),
        },
        Component::ApiServer => match health::ready(api).await {
            wait::Poll::Ready(()) => match api.get_path("/version").await {
                Ok((200, body)) => is_of(reported(&body), cx.spec.kubernetes),
                Ok((code, body)) => wait::Poll::Pending(format!("/version {code}: {body}")),
                Err(error) => health::not_yet(&error),
            },
            pending @ wait::Poll::Pending(_) => pending,
        },
        _ => match health::of_component(api, component).await {
            None => {
                let program = format!("/usr/local/bin/{component}");
                match cx.ports.runtime.exec(name, &[&program, "--version"], &[]).await {
                    Ok(output) => {
                        let version = output.stdout.split_whitespace().last().map(str::to_owned);
                        is_of(version, cx.spec.kubernetes)
                    }
                    Err(error) => wait::Poll::Pending(causes(&error)),
                }
            }
            Some(why) => wait::Poll::Pending(why),
        },
    }
}

/// The version that an API server says it is of.
fn reported(body: &str) -> Option<String> {
    let version: Value = serde_json::from_str(body).ok()?;
    Some(version["gitVersion"].as_str()?.to_owned())
}

fn is_of(version: Option<String>, wanted: KubernetesVersion) -> wait::Poll<()> {
    match version {
        Some(version) if version == wanted.to_string() => wait::Poll::Ready(()),
        Some(version) => wait::Poll::Pending(format!("it is of {version}")),
        None => wait::Poll::Pending("it does not tell its version".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_is_believed_by_the_version_it_tells() {
        let wanted = KubernetesVersion { minor: 36, patch: 3 };
        let told = |body: &str| match is_of(reported(body), wanted) {
            wait::Poll::Ready(()) => String::new(),
            wait::Poll::Pending(why) => why,
        };
        assert_eq!(told("{\"major\": \"1\", \"gitVersion\": \"v1.36.3\"}"), "");
        assert_eq!(told("{\"gitVersion\": \"v1.35.4\"}"), "it is of v1.35.4");
        assert_eq!(told("not found"), "it does not tell its version");
    }
}
