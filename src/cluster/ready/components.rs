use futures_util::future::join_all;
use hoist_phases::engine::PhaseError;
use hoist_phases::phases::wait::Poll;
use hoist_phases::ports::{KubeApi, KubeError};
use hoist_phases::spec::Reach;
use serde_json::Value;

use super::{Target, not_yet};
use crate::cluster::kube::Api;

/// `/readyz` of the API server, then `/healthz` of controller-manager and scheduler.
///
/// Those two listen on loopback of the shared namespace only, and no port of theirs is published.
/// The API server asks them itself, from where it runs, to answer for `componentstatuses`: old
/// and deprecated, but the real `/healthz` of each, which leases aren't, since hoist's single
/// instances elect no leader.
pub(super) async fn api(api: &Api) -> Result<Poll<()>, PhaseError> {
    match api.get_path("/readyz?verbose").await {
        Err(error) => return Ok(not_yet(&error)),
        Ok((200, _)) => {}
        Ok((code, body)) => return Ok(Poll::Pending(format!("/readyz {code}: {}", failing(&body)))),
    }
    Ok(match api.list("v1", "ComponentStatus", None).await {
        Err(error) => not_yet(&error),
        Ok(statuses) => all(unhealthy(&statuses)),
    })
}

/// Every node of the configuration, by name; its kubelet too, where the way there is made by agents.
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
    if !missing.is_empty() || target.spec.reach != Reach::Konnectivity {
        return Ok(all(missing));
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

/// The checks that a verbose `/readyz` reports as failing.
fn failing(body: &str) -> String {
    let failing: Vec<_> = body.lines().filter_map(|line| line.strip_prefix("[-]")).collect();
    if failing.is_empty() { body.trim().to_owned() } else { failing.join(", ") }
}

fn unhealthy(statuses: &[Value]) -> Vec<String> {
    let mut unhealthy = Vec::new();
    for name in ["controller-manager", "scheduler"] {
        let status = statuses.iter().find(|status| status["metadata"]["name"] == name);
        let condition = status.and_then(|status| condition(status, "Healthy"));
        match condition {
            Some(condition) if condition["status"] == "True" => {}
            Some(condition) => {
                // An unreachable component is told of in `message`, a failing one in `error`.
                let why =
                    ["message", "error"].map(|field| condition[field].as_str().unwrap_or_default().trim());
                unhealthy.push(format!("{name} is not healthy: {}", why.join(" ").trim()));
            }
            None => unhealthy.push(format!("{name} is not reported")),
        }
    }
    unhealthy
}

/// Why a Node isn't Ready; `None` when it is.
pub(in crate::cluster) fn not_ready(node: &Value) -> Option<String> {
    match condition(node, "Ready") {
        Some(ready) if ready["status"] == "True" => None,
        Some(ready) => Some(ready["message"].as_str().unwrap_or("no reason given").to_owned()),
        None => Some("the kubelet has not reported yet".to_owned()),
    }
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.get("status").map_or(&object["conditions"], |status| &status["conditions"]);
    conditions.as_array()?.iter().find(|condition| condition["type"] == kind)
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
    fn only_failing_checks_are_told() {
        let body =
            "[+]ping ok\n[-]poststarthook/rbac/bootstrap-roles failed: not finished\nreadyz check failed\n";
        assert_eq!(failing(body), "poststarthook/rbac/bootstrap-roles failed: not finished");
        assert_eq!(failing("unauthorized\n"), "unauthorized");
    }

    #[test]
    fn a_component_must_be_reported_healthy() {
        let status = |name: &str, healthy: &str, message: &str| json!({"metadata": {"name": name}, "conditions": [{"type": "Healthy", "status": healthy, "message": message}]});
        let good = [status("scheduler", "True", "ok"), status("controller-manager", "True", "ok")];
        assert!(unhealthy(&good).is_empty());
        let bad = [status("scheduler", "Unhealthy", "connection refused")];
        assert_eq!(
            unhealthy(&bad),
            ["controller-manager is not reported", "scheduler is not healthy: connection refused"]
        );
    }

    #[test]
    fn a_node_without_a_report_is_not_ready() {
        let node = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": "no CNI"}]}});
        assert_eq!(not_ready(&node("True")), None);
        assert_eq!(not_ready(&node("Unknown")), Some("no CNI".into()));
        assert!(not_ready(&json!({})).is_some());
    }
}
