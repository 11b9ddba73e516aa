//! Whom what runs in the cluster trusts, where that isn't a file of hoist's: pods, and servers that read the API
//! server's CAs from the API.

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
pub async fn restart_addons(
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

/// Lets the API server publish anew by whose certificates clients are known (ConfigMap
/// `extension-apiserver-authentication`, which the scheduler and aggregated API servers go by): to what is there it
/// only ever adds (kube-apiserver 1.36), so that a CA that is trusted no longer would be for ever. Returns when it has
/// as many CAs as `trusted`.
///
/// # Errors
/// When it isn't there in time, or the API refuses.
pub async fn publish_anew(api: &dyn KubeApi, trusted: &[u8], within: Duration) -> Result<(), PhaseError> {
    let map = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("kube-system".to_owned()),
        name: "extension-apiserver-authentication".to_owned(),
    };
    let count = |pem: &str| pem.matches("-----BEGIN CERTIFICATE-----").count();
    let wanted = count(&String::from_utf8_lossy(trusted));
    api.delete(&map).await?;
    wait::until(within, || async {
        let found = match api.get(&map).await {
            Err(error) if error.is_transient() => return Ok(Poll::Pending(error.to_string())),
            found => found?.unwrap_or_default(),
        };
        let has = |key: &str| found["data"][key].as_str().map_or(0, count);
        Ok(match [has("client-ca-file"), has("requestheader-client-ca-file")] == [wanted, wanted] {
            true => Poll::Ready(()),
            false => Poll::Pending(format!("{map}: is not the new one yet")),
        })
    })
    .await
}
