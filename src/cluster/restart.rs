//! Starts the pods again that hoist made and that talk to the API, one after the other.

use std::time::Duration;

use futures_util::future::try_join_all;
use hoist_phases::engine::PhaseError;
use hoist_phases::object::{MANAGED_BY, ObjectRef};
use hoist_phases::phases::addons;
use hoist_phases::phases::wait::{self, Poll};
use hoist_phases::ports::KubeApi;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const KINDS: [&str; 2] = ["DaemonSet", "Deployment"];

/// Restarts all of them as `kubectl rollout restart` does, once pods are given `trusted` as the cluster's
/// authority (ConfigMap `kube-root-ca.crt`), and returns when they are ready.
///
/// # Errors
/// When they are not within the time, or the API refuses.
pub async fn addons(api: &dyn KubeApi, trusted: &[u8], within: Duration) -> Result<(), PhaseError> {
    let selector = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
    let lists = KINDS.map(|kind| {
        let selector = &selector;
        async move {
            let found = api.list("apps/v1", kind, Some(selector)).await?;
            let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
            let reference = |object: serde_json::Value| {
                Some(ObjectRef {
                    api_version: "apps/v1".to_owned(),
                    kind: kind.to_owned(),
                    namespace: text(&object["metadata"]["namespace"]),
                    name: text(&object["metadata"]["name"])?,
                })
            };
            Ok::<Vec<_>, PhaseError>(found.into_iter().filter_map(reference).collect())
        }
    });
    let all = try_join_all(lists).await?.concat();
    let now = OffsetDateTime::now_utc().format(&Rfc3339)?;
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {
        "kubectl.kubernetes.io/restartedAt": now,
    }}}}});
    try_join_all(all.iter().map(|object| async {
        given(api, object.namespace.as_deref().unwrap_or_default(), trusted, within).await?;
        api.merge_patch(object, &patch).await?;
        addons::ready(api, object, within).await
    }))
    .await
    .map(|_| ())
}

/// kube-controller-manager lays the ConfigMap down in each namespace, some time after it has started.
async fn given(
    api: &dyn KubeApi,
    namespace: &str,
    trusted: &[u8],
    within: Duration,
) -> Result<(), PhaseError> {
    let map = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: "kube-root-ca.crt".to_owned(),
    };
    wait::until(within, || async {
        let found = api.get(&map).await?.unwrap_or_default();
        Ok(match found["data"]["ca.crt"].as_str().map(str::as_bytes) == Some(trusted) {
            true => Poll::Ready(()),
            false => Poll::Pending(format!("{map}: has another authority")),
        })
    })
    .await
}
