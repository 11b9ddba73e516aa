//! Whether the control plane is well, asked through its API.

use serde_json::Value;

use crate::causes;
use crate::phases::wait::Poll;
use crate::ports::{KubeApi, KubeError};
use crate::spec::Component;

/// `/readyz` of the API server, then `/healthz` of controller-manager and scheduler.
///
/// Those two listen on loopback of the shared namespace only, and no port of theirs is published.
/// The API server asks them itself, from where it runs, to answer for `componentstatuses`: old
/// and deprecated, but the real `/healthz` of each, which leases aren't, since hoist's single
/// instances elect no leader.
pub async fn control_plane(api: &dyn KubeApi) -> Poll<()> {
    match ready(api).await {
        Poll::Ready(()) => beside(api).await,
        pending => pending,
    }
}

/// `/readyz` of the API server alone.
pub async fn ready(api: &dyn KubeApi) -> Poll<()> {
    match api.get_path("/readyz?verbose").await {
        Err(error) => not_yet(&error),
        Ok((200, _)) => Poll::Ready(()),
        Ok((code, body)) => Poll::Pending(format!("/readyz {code}: {}", failing(&body))),
    }
}

/// What one of those beside the API server lacks of being healthy; `None` when it is.
pub async fn of_component(api: &dyn KubeApi, component: Component) -> Option<String> {
    let name = component.name().trim_start_matches("kube-");
    match api.list("v1", "ComponentStatus", None).await {
        Err(error) => Some(causes(&error)),
        Ok(statuses) => lacks(&statuses, name),
    }
}

async fn beside(api: &dyn KubeApi) -> Poll<()> {
    match api.list("v1", "ComponentStatus", None).await {
        Err(error) => not_yet(&error),
        Ok(statuses) => match unhealthy(&statuses) {
            missing if missing.is_empty() => Poll::Ready(()),
            missing => Poll::Pending(missing.join(", ")),
        },
    }
}

/// What an API error means to a probe: nothing is lost by asking again until the deadline, since
/// even a refusal may come from rules that are still being written.
pub fn not_yet<T>(error: &KubeError) -> Poll<T> {
    Poll::Pending(causes(error))
}

/// The checks that a verbose `/readyz` reports as failing.
fn failing(body: &str) -> String {
    let failing: Vec<_> = body.lines().filter_map(|line| line.strip_prefix("[-]")).collect();
    if failing.is_empty() { body.trim().to_owned() } else { failing.join(", ") }
}

fn unhealthy(statuses: &[Value]) -> Vec<String> {
    ["controller-manager", "scheduler"].into_iter().filter_map(|name| lacks(statuses, name)).collect()
}

fn lacks(statuses: &[Value], name: &str) -> Option<String> {
    let status = statuses.iter().find(|status| status["metadata"]["name"] == name);
    match status.and_then(|status| condition(status, "Healthy")) {
        Some(condition) if condition["status"] == "True" => None,
        Some(condition) => {
            // An unreachable component is told of in `message`, a failing one in `error`.
            let why = ["message", "error"].map(|field| condition[field].as_str().unwrap_or_default().trim());
            Some(format!("{name} is not healthy: {}", why.join(" ").trim()))
        }
        None => Some(format!("{name} is not reported")),
    }
}

/// A condition of an object by its type, in its status or, of a ComponentStatus, in itself.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.get("status").map_or(&object["conditions"], |status| &status["conditions"]);
    conditions.as_array()?.iter().find(|condition| condition["type"] == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
