//! Takes a node out of service: no new pods, and those on it evicted with their disruption
//! budgets respected.

use std::time::Duration;

use futures_util::future::join_all;
use hoist_phases::engine::PhaseError;
use hoist_phases::object::ObjectRef;
use hoist_phases::phases::wait::{Poll, until};
use hoist_phases::ports::{Eviction, KubeApi, Runtime, RuntimeError, Status};
use serde_json::{Value, json};

use crate::cluster::ready::not_ready;

/// The Node object of that name.
pub fn node_ref(name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: None,
        name: name.to_owned(),
    }
}

/// The container in which a node of hoist's runs.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    pub runtime: &'a dyn Runtime,
    pub container: &'a str,
}

impl std::fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("container", &self.container).finish_non_exhaustive()
    }
}

impl Machine<'_> {
    async fn runs(&self) -> Result<bool, RuntimeError> {
        let found = self.runtime.inspect(self.container).await?;
        Ok(found.is_some_and(|container| container.status == Status::Running))
    }
}

/// Marks the node unschedulable and evicts its pods until none is left but those of DaemonSets,
/// which would come back, and static ones, which the API can't remove (`kubectl drain
/// --ignore-daemonsets --delete-emptydir-data`). A node that the API doesn't know is drained.
///
/// On a node whose machine doesn't run, or that isn't Ready, nobody ends pods: they stay until the
/// Node object goes. There each is evicted if its budget allows it, and what is left is told: why
/// it isn't waited for, and the pods. The API alone would take the word of a kubelet that is gone
/// for some 50 s.
///
/// # Errors
/// When API or engine refuses, or pods are left at the deadline; the error names them and why.
pub async fn drain(
    api: &dyn KubeApi,
    node: &str,
    machine: Option<Machine<'_>>,
    deadline: Duration,
) -> Result<Option<String>, PhaseError> {
    let reference = node_ref(node);
    if api.get(&reference).await?.is_none() {
        return Ok(None);
    }
    api.merge_patch(&reference, &json!({ "spec": { "unschedulable": true } })).await?;
    until(deadline, || async {
        let pods = api.list("v1", "Pod", None).await?;
        let here = pods.iter().filter(|pod| is_evictable(pod, node));
        let left = join_all(here.map(|pod| evict(api, pod))).await;
        let left = left.into_iter().collect::<Result<Vec<_>, _>>()?.join("; ");
        if left.is_empty() {
            return Ok(Poll::Ready(None));
        }
        Ok(match why_dead(api, &reference, machine).await? {
            Some(why) => Poll::Ready(Some(format!("{why}; not waited for: {left}"))),
            None => Poll::Pending(format!("{node}: {left}")),
        })
    })
    .await
}

/// Why nobody ends the pods of a node; `None` while somebody does.
async fn why_dead(
    api: &dyn KubeApi,
    node: &ObjectRef,
    machine: Option<Machine<'_>>,
) -> Result<Option<String>, PhaseError> {
    if let Some(machine) = machine
        && !machine.runs().await?
    {
        return Ok(Some("its machine does not run".to_owned()));
    }
    let not_ready = api.get(node).await?.and_then(|node| not_ready(&node));
    Ok(not_ready.map(|why| format!("it is not Ready ({why})")))
}

fn is_evictable(pod: &Value, node: &str) -> bool {
    let meta = &pod["metadata"];
    let owned_by_daemon_set =
        meta["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet");
    let is_static = meta["annotations"].get("kubernetes.io/config.mirror").is_some();
    pod["spec"]["nodeName"] == node && !owned_by_daemon_set && !is_static
}

/// Asks for the eviction of a pod, unless it is on its way already; says what is waited for.
async fn evict(api: &dyn KubeApi, pod: &Value) -> Result<String, PhaseError> {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return Ok(format!("pod {namespace}/{name} is ending"));
    }
    Ok(match api.evict(namespace, name).await? {
        Eviction::Granted => format!("pod {namespace}/{name} is ending"),
        Eviction::Blocked(why) => format!("pod {namespace}/{name}: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_would_come_back_or_can_not_go_stay() {
        let pod = |meta: Value| json!({ "metadata": meta, "spec": { "nodeName": "node01" } });
        assert!(is_evictable(&pod(json!({ "ownerReferences": [{ "kind": "ReplicaSet" }] })), "node01"));
        assert!(is_evictable(&pod(json!({})), "node01"));
        assert!(!is_evictable(&pod(json!({})), "node02"));
        assert!(!is_evictable(&pod(json!({ "ownerReferences": [{ "kind": "DaemonSet" }] })), "node01"));
        let mirror = json!({ "annotations": { "kubernetes.io/config.mirror": "x" } });
        assert!(!is_evictable(&pod(mirror), "node01"));
    }
}
