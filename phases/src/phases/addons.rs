//! addons: the user's manifests, one after the other, each ready before the next.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join_all};
use serde_json::Value;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{Manifest, ManifestError, waves};
use crate::object::{Object, ObjectError, ObjectRef};
use crate::phases::apply::{self, Burst};
use crate::phases::{Context, PhaseId, placement, wait};
use crate::ports::KubeApi;
use crate::spec::{Addon, ClusterSpec, Cni};

#[derive(Debug, thiserror::Error)]
enum AddonsError {
    #[error("addon {origin}: can't be applied")]
    Apply {
        origin: String,
        #[source]
        source: PhaseError,
    },
    #[error("addon {origin}: is not ready")]
    NotReady {
        origin: String,
        #[source]
        source: PhaseError,
    },
}

/// Objects of an addon in the order they are applied in.
///
/// # Errors
/// When the manifest isn't one.
pub fn objects(addon: &Addon) -> Result<Vec<Vec<Object>>, AddonError> {
    let documents = Manifest::parse(&addon.origin, &addon.yaml)?.into_documents();
    let wave = |wave: Vec<Value>| wave.iter().map(Object::new).collect::<Result<Vec<_>, _>>();
    Ok(waves(documents).into_iter().map(wave).collect::<Result<_, _>>()?)
}

/// Why a manifest can't be an addon.
#[derive(Debug, thiserror::Error)]
pub enum AddonError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        if cx.spec.addons.is_empty() {
            return Ok(Outcome::Skipped("no addons".to_owned()));
        }
        let mut all = Burst::default();
        for addon in &cx.spec.addons {
            let Burst { changed, foreign } = install(cx, addon).await?;
            all.changed += changed;
            all.foreign.extend(foreign);
        }
        Ok(all.outcome())
    }
    .boxed()
}

async fn install(cx: &Context, addon: &Addon) -> Result<Burst, PhaseError> {
    let api = cx.outputs.api.get()?;
    let origin = || addon.origin.clone();
    let waves = objects(addon)?;
    let mut all = Burst::default();
    for objects in &waves {
        let objects = placement::own(&cx.spec, objects);
        let applied = apply::apply(api.as_ref(), &objects, apply::DEADLINE).await;
        let Burst { changed, foreign } =
            applied.map_err(|source| AddonsError::Apply { origin: origin(), source: source.into() })?;
        all.changed += changed;
        all.foreign.extend(foreign);
    }
    if addon.wait {
        let waited = waves.iter().flatten().filter(|object| gets_ready(&cx.spec, &object.reference().kind));
        let waits = waited.map(|object| ready(api.as_ref(), object.reference(), cx.time_left()));
        let ready = try_join_all(waits).await;
        ready.map_err(|source| AddonsError::NotReady { origin: origin(), source })?;
    }
    if all.changed > 0 {
        cx.events.step(PhaseId::Addons, format!("{} installed", addon.origin));
    }
    Ok(all)
}

/// Waits until an object is ready.
///
/// # Errors
/// When it isn't within the time, has failed for good, or the API refuses.
pub async fn ready(api: &dyn KubeApi, reference: &ObjectRef, within: Duration) -> Result<(), PhaseError> {
    wait::until(within, || async {
        Ok(match api.get(reference).await {
            Ok(Some(live)) if has_failed(&live) => {
                return Err(format!("{reference}: has failed").into());
            }
            Ok(Some(live)) => match missing(&live) {
                None => wait::Poll::Ready(()),
                Some(why) => wait::Poll::Pending(format!("{reference}: {why}")),
            },
            Ok(None) => wait::Poll::Pending(format!("{reference}: is gone")),
            Err(error) if error.is_transient() => wait::Poll::Pending(error.to_string()),
            Err(error) => return Err(error.into()),
        })
    })
    .await
}

/// Kinds that need pods for it.
const BY_PODS: [&str; 5] = ["APIService", "DaemonSet", "Deployment", "Job", "StatefulSet"];

/// Whether objects of a kind get ready at all, by what this run does: without nodes of hoist's, or
/// without a pod network, no pod runs until somebody else sees to it.
pub(super) fn gets_ready(spec: &ClusterSpec, kind: &str) -> bool {
    let skipped = [PhaseId::Machines, PhaseId::Nodes, PhaseId::Cni];
    let pods_run = !spec.nodes.is_empty()
        && spec.cni != Cni::None
        && !skipped.iter().any(|phase| spec.skip_phases.contains(phase));
    kind == "CustomResourceDefinition" || (pods_run && BY_PODS.contains(&kind))
}

fn has_failed(live: &Value) -> bool {
    live["kind"] == "Job" && is_true(live, "Failed")
}

fn is_true(live: &Value, condition: &str) -> bool {
    let mut conditions = live["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == condition && one["status"] == "True")
}

/// What an object lacks of being ready; `None` when it is.
fn missing(live: &Value) -> Option<String> {
    let condition = |name: &str| (!is_true(live, name)).then(|| format!("is not {name}"));
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_u64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or_default();
    let of = |ready: u64, wanted: u64| (ready < wanted).then(|| format!("{ready} of {wanted} are ready"));
    match live["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => condition("Established"),
        "APIService" => condition("Available"),
        "Job" => condition("Complete"),
        _ if status("observedGeneration") < number("/metadata/generation").unwrap_or_default() => {
            Some("has not been seen by its controller".to_owned())
        }
        "DaemonSet" => {
            let wanted = status("desiredNumberScheduled");
            of(status("numberReady").min(status("updatedNumberScheduled")), wanted)
        }
        _ => {
            // The server fills in 1 where nothing is said.
            let wanted = number("/spec/replicas").unwrap_or(1);
            of(status("readyReplicas").min(status("updatedReplicas")), wanted)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_its_own_way_of_being_ready() {
        let condition = |kind: &str, name: &str| json!({"kind": kind, "status": {"conditions": [{"type": name, "status": "True"}]}});
        assert_eq!(missing(&condition("CustomResourceDefinition", "Established")), None);
        assert_eq!(missing(&condition("Job", "Suspended")).as_deref(), Some("is not Complete"));
        assert!(has_failed(&condition("Job", "Failed")) && !has_failed(&condition("Job", "Complete")));
        let deployment = |seen: u64, ready: u64, updated: u64| {
            json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2},
                   "status": {"observedGeneration": seen, "readyReplicas": ready, "updatedReplicas": updated}})
        };
        assert_eq!(missing(&deployment(2, 2, 2)), None);
        assert_eq!(missing(&deployment(2, 2, 1)).as_deref(), Some("1 of 2 are ready"));
        assert!(missing(&deployment(1, 2, 2)).is_some_and(|why| why.contains("controller")));
        let set = json!({"kind": "DaemonSet", "metadata": {"generation": 1},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2}});
        assert_eq!(missing(&set), None);
    }

    #[test]
    fn nothing_is_waited_for_that_needs_pods_where_none_run() {
        let mut spec = crate::spec::test_spec();
        assert!(gets_ready(&spec, "Deployment") && !gets_ready(&spec, "ConfigMap"));
        spec.nodes.clear();
        assert!(!gets_ready(&spec, "Deployment") && gets_ready(&spec, "CustomResourceDefinition"));
    }

    #[test]
    fn what_others_live_in_comes_first() -> Result<(), AddonError> {
        let yaml = "
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: work}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: work}}
";
        let addon = Addon { origin: "a.yaml".to_owned(), yaml: yaml.to_owned(), wait: true };
        let names: Vec<Vec<_>> = objects(&addon)?
            .iter()
            .map(|wave| wave.iter().map(|object| object.reference().kind.clone()).collect())
            .collect();
        assert_eq!(names, [vec!["Namespace"], vec!["ConfigMap"], vec![]]);
        Ok(())
    }
}
