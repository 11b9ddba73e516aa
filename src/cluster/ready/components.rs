use futures_util::future::join_all;
use hoist_phases::engine::PhaseError;
use hoist_phases::phases::containers::node_name;
use hoist_phases::phases::health::condition;
use hoist_phases::phases::wait::Poll;
use hoist_phases::ports::{ContainerState, KubeApi, KubeError, Status};
use hoist_phases::spec::Reach;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Target, not_yet};
use crate::cluster::kube::Api;
use crate::error::chain;

/// Every node of the configuration, by name, with its machine; its kubelet too, where the way there
/// is made by agents.
pub(super) async fn nodes(target: &Target<'_>) -> Result<Poll<()>, PhaseError> {
    let found = match target.admin.list("v1", "Node", None).await {
        Err(error) => return Ok(not_yet(&error)),
        Ok(found) => found,
    };
    let missing = target.spec.nodes.iter().filter_map(|node| {
        let name = node.name();
        match found.iter().find(|n| n["metadata"]["name"] == name) {
            None => Some(format!("{name} has not joined")),
            Some(node) => not_ready(node).map(|why| format!("{name} is not Ready: {why}")),
        }
    });
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        return Ok(all(missing));
    }
    // What a Node says outlives its machine until the API server's grace period ends.
    let machines = target.spec.nodes.iter().map(|node| async {
        let container = node_name(&target.spec.name, &node.name());
        match target.runtime.inspect(&container).await {
            Ok(machine) => {
                let node = found.iter().find(|found| found["metadata"]["name"] == node.name());
                node.and_then(|node| outdated(node, machine.as_ref()))
            }
            Err(error) => Some(chain(&error).map(ToString::to_string).collect::<Vec<_>>().join(": ")),
        }
    });
    let outdated: Vec<_> = join_all(machines).await.into_iter().flatten().collect();
    if !outdated.is_empty() || target.spec.reach != Reach::Konnectivity {
        return Ok(all(outdated));
    }
    let kubelets = target.spec.nodes.iter().map(|node| kubelet(&target.admin, node.name()));
    Ok(all(join_all(kubelets).await.into_iter().flatten().collect()))
}

/// Why the API server can't reach a kubelet: its agent may not have dialled in yet.
async fn kubelet(admin: &Api, node: String) -> Option<String> {
    let unreached = |why| Some(format!("the kubelet of {node} is not reached through konnectivity: {why}"));
    match admin.get_path(&format!("/api/v1/nodes/{node}/proxy/healthz")).await {
        Ok((200, _)) => None,
        Ok((code, body)) => unreached(format!("{code} {}", body.trim())),
        Err(error) => unreached(error.to_string()),
    }
}

fn all(missing: Vec<String>) -> Poll<()> {
    if missing.is_empty() { Poll::Ready(()) } else { Poll::Pending(missing.join(", ")) }
}

/// Why a Node isn't Ready; `None` when it is.
pub(crate) fn not_ready(node: &Value) -> Option<String> {
    match condition(node, "Ready") {
        Some(ready) if ready["status"] == "True" => None,
        Some(ready) => Some(ready["message"].as_str().unwrap_or("no reason given").to_owned()),
        None => Some("the kubelet has not reported yet".to_owned()),
    }
}

/// Why a Node's Ready is not, or not yet, that of the present run of its machine.
///
/// A kubelet writes its conditions, each with `lastHeartbeatTime`, when it has started, and later
/// at changes and every 5 minutes. Its clock is the engine's host's, in a virtual machine set by it
/// at power-on. `renewTime` of the node's Lease would not do: it may come before the conditions.
fn outdated(node: &Value, machine: Option<&ContainerState>) -> Option<String> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let Some(machine) = machine.filter(|machine| machine.status == Status::Running) else {
        return Some(format!("the machine of {name} does not run"));
    };
    let moment = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
    let heartbeat = condition(node, "Ready").and_then(|ready| ready["lastHeartbeatTime"].as_str());
    let started = moment(&machine.started_at)?;
    // The API keeps whole seconds.
    let reported =
        heartbeat.and_then(moment).is_some_and(|at| at.unix_timestamp() >= started.unix_timestamp());
    (!reported).then(|| {
        format!(
            "the kubelet of {name} has not reported since its machine was started ({})",
            machine.started_at
        )
    })
}

/// Addresses of the ready endpoints of a Service.
pub(super) async fn ready_endpoints(
    api: &Api,
    namespace: &str,
    service: &str,
) -> Result<Vec<String>, KubeError> {
    let selector = format!("kubernetes.io/service-name={service}");
    let slices =
        api.list_in(Some(namespace), "discovery.k8s.io/v1", "EndpointSlice", Some(&selector)).await?;
    let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let addresses = ready.filter_map(|endpoint| endpoint["addresses"].as_array()).flatten();
    Ok(addresses.filter_map(|address| address.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_ready_of_an_earlier_run_does_not_count() {
        let node = |heartbeat: Value| json!({"metadata": {"name": "node02"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}});
        let machine = |status| ContainerState {
            id: "id".into(),
            name: "hoist-c-node02".into(),
            image: String::new(),
            labels: [].into(),
            status,
            restarts: 0,
            published: Vec::new(),
            started_at: "2026-01-01T10:00:00.75Z".into(),
            lived: None,
            network_of: None,
        };
        let running = machine(Status::Running);
        for fresh in ["2026-01-01T10:00:00Z", "2026-01-01T10:00:01Z", "2026-01-01T11:00:01+01:00"] {
            assert_eq!(outdated(&node(json!(fresh)), Some(&running)), None, "{fresh}");
        }
        for old in [json!("2026-01-01T09:59:59Z"), json!("2026-01-01T10:30:00+01:00"), Value::Null] {
            let told = outdated(&node(old.clone()), Some(&running));
            assert!(told.is_some_and(|told| told.contains("kubelet of node02 has not reported")), "{old}");
        }
        // As it is before the machines are started.
        let fresh = node(json!("2026-01-01T10:00:01Z"));
        let ended = machine(Status::Exited { code: 137, oom_killed: false });
        for machine in [None, Some(&ended)] {
            assert_eq!(outdated(&fresh, machine), Some("the machine of node02 does not run".into()));
        }
    }

    #[test]
    fn a_node_without_a_report_is_not_ready() {
        let node = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": "no CNI"}]}});
        assert_eq!(not_ready(&node("True")), None);
        assert_eq!(not_ready(&node("Unknown")), Some("no CNI".into()));
        assert!(not_ready(&json!({})).is_some());
    }
}
