//! Starts the pods of hoist's own addons again, which talk to the API.

use std::time::Duration;

use futures_util::future::try_join_all;
use hoist_phases::engine::PhaseError;
use hoist_phases::object::ObjectRef;
use hoist_phases::phases::addons;
use hoist_phases::phases::upgrade::workloads;
use hoist_phases::phases::wait::{self, Poll};
use hoist_phases::ports::KubeApi;
use hoist_phases::spec::ClusterSpec;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Restarts all of them as `kubectl rollout restart` does, once pods are given `trusted` as the cluster's
/// CA (ConfigMap `kube-root-ca.crt`), and returns when they are ready.
///
/// # Errors
/// When they are not within the time, or the API refuses.
pub async fn addons(
    api: &dyn KubeApi,
    spec: &ClusterSpec,
    trusted: &[u8],
    within: Duration,
) -> Result<(), PhaseError> {
    let all = workloads(spec);
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
        let found = match api.get(&map).await {
            Err(error) if error.is_transient() => return Ok(Poll::Pending(error.to_string())),
            found => found?.unwrap_or_default(),
        };
        Ok(match found["data"]["ca.crt"].as_str().map(str::as_bytes) == Some(trusted) {
            true => Poll::Ready(()),
            false => Poll::Pending(format!("{map}: has another authority")),
        })
    })
    .await
}
