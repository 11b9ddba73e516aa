//! Whether a Deployment is ready, and which of its pods keep it from that.

use std::time::Duration;

use futures_util::StreamExt as _;
use hoist_phases::causes;
use hoist_phases::object::ObjectRef;
use hoist_phases::ports::KubeError;
use kube::runtime::watcher;
use serde_json::Value;

use super::kube::Api;
use super::selector::shown;

/// How much of a Deployment has to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// All replicas, of its newest revision, and none of an older one left.
    RolledOut,
    /// This many replicas, of whichever revision.
    MinReady(u64),
}

#[derive(Debug, thiserror::Error)]
#[error("{object}: the API server lets nobody look who asks with this kubeconfig")]
pub struct Refused {
    object: String,
    source: watcher::Error,
}

/// Watches a Deployment until it is ready. Gives what isn't at the deadline, one thing an entry.
///
/// # Errors
/// When the API server lets nobody of this identity look: waiting changes nothing about that.
pub async fn wait(
    api: &Api,
    namespace: &str,
    name: &str,
    goal: Goal,
    deadline: Duration,
) -> Result<Vec<String>, Refused> {
    let reference = ObjectRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    let (mut last, mut seen) = ("the API has not answered".to_owned(), None);
    let reached = async {
        let mut changes = api.watch(&reference);
        while let Some(change) = changes.next().await {
            match change {
                Ok(found) => {
                    match missing(found.as_ref(), goal) {
                        None => return Ok(true),
                        Some(why) => last = why,
                    }
                    seen = found;
                }
                Err(source) if is_refusal(&source) => return Err(source),
                Err(error) => last = causes(&error),
            }
        }
        Ok(false)
    };
    if let Ok(reached) = tokio::time::timeout(deadline, reached).await
        && reached.map_err(|source| Refused { object: reference.to_string(), source })?
    {
        return Ok(Vec::new());
    }
    let mut unready = vec![format!("{reference}: {last}")];
    if let Some(deployment) = seen {
        match unready_pods(api, &deployment).await {
            Ok(pods) => unready.extend(pods),
            Err(error) => unready.push(causes(&error)),
        }
    }
    Ok(unready)
}

/// No credentials that count (401), or none that may (403).
fn is_refusal(error: &watcher::Error) -> bool {
    use watcher::Error as Watch;
    let code = match error {
        Watch::InitialListFailed(kube::Error::Api(status))
        | Watch::WatchStartFailed(kube::Error::Api(status))
        | Watch::WatchFailed(kube::Error::Api(status))
        | Watch::WatchError(status) => status.code,
        _ => return false,
    };
    [401, 403].contains(&code)
}

/// What a Deployment lacks; `None` when the goal is reached.
fn missing(deployment: Option<&Value>, goal: Goal) -> Option<String> {
    let Some(deployment) = deployment else { return Some("there is none".to_owned()) };
    let generation = deployment["metadata"]["generation"].as_u64().unwrap_or_default();
    let count = |field: &str| deployment["status"][field].as_u64().unwrap_or_default();
    if count("observedGeneration") < generation {
        return Some("the Deployment controller has not seen it yet".to_owned());
    }
    let (all, ready, updated) = (count("replicas"), count("readyReplicas"), count("updatedReplicas"));
    // The server fills in 1 where nothing is said.
    let wanted = match goal {
        Goal::MinReady(wanted) => wanted,
        Goal::RolledOut => deployment["spec"]["replicas"].as_u64().unwrap_or(1),
    };
    let done = match goal {
        Goal::MinReady(_) => ready >= wanted,
        Goal::RolledOut => ready == wanted && updated == wanted && all == wanted,
    };
    let why = || match goal {
        Goal::RolledOut if all > updated => format!("{} of an older revision are left", all - updated),
        _ => format!("{updated} are of its newest revision"),
    };
    (!done).then(|| format!("{ready} of {wanted} replicas are ready, {}", why()))
}

async fn unready_pods(api: &Api, deployment: &Value) -> Result<Vec<String>, KubeError> {
    let selector = selector(&deployment["spec"]["selector"]);
    let namespace = deployment["metadata"]["namespace"].as_str();
    let pods = api.list_in(namespace, "v1", "Pod", Some(&selector)).await?;
    Ok(pods.iter().filter_map(why_not_ready).collect())
}

/// A LabelSelector of meta/v1 as a query has it.
fn selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions = expressions.filter_map(|expression| serde_json::from_value(expression.clone()).ok());
    let expressions = expressions.map(|expression| shown(&expression));
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

/// A pod that isn't ready, and what it waits for; `None` when it is.
fn why_not_ready(pod: &Value) -> Option<String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let list = |field: &str| pod["status"][field].as_array().into_iter().flatten();
    let condition = |kind: &str| list("conditions").find(|condition| condition["type"] == kind);
    let is_true = |kind: &str| condition(kind).is_some_and(|condition| condition["status"] == "True");
    if is_true("Ready") {
        return None;
    }
    let said = |of: &Value| {
        let words = ["reason", "message"].map(|field| of[field].as_str().unwrap_or_default());
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ")
    };
    let containers = list("initContainerStatuses").chain(list("containerStatuses"));
    let stuck = containers.filter_map(|container| {
        let state = &container["state"];
        state.get("waiting").or_else(|| state.get("terminated").filter(|end| end["exitCode"] != 0))
    });
    let why = if pod["metadata"].get("deletionTimestamp").is_some() {
        "is ending".to_owned()
    } else {
        let scheduled = condition("PodScheduled").filter(|_| !is_true("PodScheduled"));
        let told = scheduled.into_iter().chain(stuck).chain(condition("Ready"));
        told.map(said).find(|told| !told.is_empty()).unwrap_or_else(|| "is not ready".to_owned())
    };
    Some(format!("Pod {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answering(code: u16) -> Api {
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "R", "message": "m",
            });
            let body = kube::client::Body::from(status.to_string().into_bytes());
            http::Response::builder().status(code).body(body).map_err(kube::Error::HttpError)
        });
        Api::new(kube::Client::new(service, "default"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_ends_the_wait_and_an_absent_server_does_not() {
        let wait = async |code| {
            let deadline = Duration::from_secs(30);
            wait(&answering(code), "default", "a", Goal::RolledOut, deadline).await
        };
        for code in [401, 403] {
            let refused = wait(code).await.err().map(|error| error.to_string());
            assert!(refused.is_some_and(|told| told.contains("default/a")), "{code}");
        }
        let unready = wait(503).await.ok();
        assert!(unready.is_some_and(|unready| unready.len() == 1));
    }

    fn deployment(replicas: u64, status: Value) -> Value {
        json!({"metadata": {"generation": 2}, "spec": {"replicas": replicas}, "status": status})
    }

    #[test]
    fn one_ready_replica_is_enough_when_one_is_asked_for() {
        let one = deployment(
            2,
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}),
        );
        assert_eq!(missing(Some(&one), Goal::MinReady(1)), None);
        let wanted = "1 of 2 replicas are ready, 2 are of its newest revision";
        assert_eq!(missing(Some(&one), Goal::RolledOut).as_deref(), Some(wanted));
        assert_eq!(missing(Some(&one), Goal::MinReady(2)).as_deref(), Some(wanted));
    }

    #[test]
    fn a_rollout_is_over_when_no_old_replica_is_left() {
        let status = |all: u64, updated: u64| json!({"observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "readyReplicas": 2});
        let early = missing(Some(&deployment(2, status(3, 1))), Goal::RolledOut);
        assert_eq!(early.as_deref(), Some("2 of 2 replicas are ready, 2 of an older revision are left"));
        assert_eq!(missing(Some(&deployment(2, status(2, 2))), Goal::RolledOut), None);
        assert_eq!(missing(Some(&deployment(0, json!({"observedGeneration": 2}))), Goal::RolledOut), None);
    }

    #[test]
    fn a_status_of_before_the_change_says_nothing() {
        let old = deployment(
            1,
            json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}),
        );
        for goal in [Goal::RolledOut, Goal::MinReady(1)] {
            assert!(missing(Some(&old), goal).is_some_and(|why| why.contains("controller")));
            assert_eq!(missing(None, goal).as_deref(), Some("there is none"));
        }
    }

    #[test]
    fn pods_are_those_of_the_whole_selector() {
        let given = json!({
            "matchLabels": {"app": "a"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["x", "y"]},
                {"key": "track", "operator": "NotIn", "values": ["canary"]},
                {"key": "has", "operator": "Exists"},
                {"key": "lacks", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(selector(&given), "app=a,tier in (x,y),track notin (canary),has,!lacks");
        assert_eq!(selector(&json!({"matchExpressions": []})), "");
    }

    #[test]
    fn a_pod_is_told_with_what_stops_it() {
        let pod = |status: Value| why_not_ready(&json!({"metadata": {"name": "p"}, "status": status}));
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(pod(ready), None);
        let unschedulable = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}]});
        assert_eq!(pod(unschedulable).as_deref(), Some("Pod p: Unschedulable: 0/2 nodes"));
        let no_image = json!({
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
            "containerStatuses": [{"state": {"running": {}}}, {"state": {"waiting": {"reason": "ErrImagePull"}}}],
        });
        assert_eq!(pod(no_image).as_deref(), Some("Pod p: ErrImagePull"));
        let probe = json!({
            "conditions": [{"type": "PodScheduled", "status": "True"},
                           {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
            "containerStatuses": [{"state": {"running": {}}}],
        });
        assert_eq!(pod(probe).as_deref(), Some("Pod p: ContainersNotReady"));
        assert_eq!(pod(json!({})).as_deref(), Some("Pod p: is not ready"));
    }
}
