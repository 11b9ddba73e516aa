//! Whether the API server reaches pods by their addresses, which is how it calls webhooks and
//! aggregated APIs. Its pod proxy goes the same way, and CoreDNS answers on every cluster.

use hoist_phases::engine::PhaseError;
use hoist_phases::phases::wait::Poll;
use hoist_phases::ports::KubeApi as _;
use serde_json::Value;

use super::not_yet;
use crate::cluster::kube::Api;
use hoist_phases::phases::health::condition;

/// Where CoreDNS serves its health.
const HEALTH: &str = "8080/proxy/health";

/// Asks every ready replica.
pub(super) async fn probe(api: &Api) -> Result<Poll<()>, PhaseError> {
    let pods = match api.list_in(Some("kube-system"), "v1", "Pod", Some("k8s-app=kube-dns")).await {
        Ok(pods) => pods,
        Err(error) => return Ok(not_yet(&error)),
    };
    let pods: Vec<_> = pods.iter().filter_map(ready).collect();
    if pods.is_empty() {
        return Ok(Poll::Pending("no replica of CoreDNS is ready".to_owned()));
    }
    for (namespace, name) in pods {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{HEALTH}");
        match api.get_path(&path).await {
            Ok((200, _)) => {}
            Ok((code, body)) => {
                let why = body.trim();
                return Ok(Poll::Pending(format!("the API server doesn't reach pod {name}: {code} {why}")));
            }
            Err(error) => return Ok(not_yet(&error)),
        }
    }
    Ok(Poll::Ready(()))
}

/// Namespace and name of a pod that is ready and not about to end.
fn ready(pod: &Value) -> Option<(&str, &str)> {
    let metadata = &pod["metadata"];
    let ready = condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True");
    let staying = metadata["deletionTimestamp"].is_null();
    (ready && staying).then_some((metadata["namespace"].as_str()?, metadata["name"].as_str()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_pods_are_asked() {
        let pod = |ready: &str, end: Value| {
            json!({
                "metadata": {"namespace": "n", "name": "p", "deletionTimestamp": end},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        assert_eq!(ready(&pod("True", Value::Null)), Some(("n", "p")));
        assert_eq!(ready(&pod("False", Value::Null)), None);
        assert_eq!(ready(&pod("True", json!("2026-01-01T00:00:00Z"))), None);
    }
}
