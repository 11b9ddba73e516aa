//! The line that joins any machine which reaches the control plane's address.

use hoist_phases::jws::sign_detached;
use hoist_phases::object::ObjectRef;
use hoist_phases::phases::token;
use hoist_phases::ports::{KubeApi, KubeError};
use hoist_phases::spec::{BootstrapToken, TokenTtl};
use serde::Serialize;
use serde_json::json;
use time::OffsetDateTime;

use crate::error::BoxError;

/// A command to type on a machine, and how long it works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinCommand {
    pub command: String,
    /// In seconds; 0 is for ever.
    pub lifetime_secs: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum JoinCommandError {
    #[error("no random numbers for a bootstrap token")]
    Random,
    #[error("bootstrap token")]
    Token(#[source] BoxError),
    #[error("token lifetime of {0} s is out of range")]
    Lifetime(u64),
    #[error("ConfigMap kube-public/cluster-info is not there; run `hoist up` to lay it down again")]
    NoClusterInfo,
    #[error(transparent)]
    Kube(#[from] KubeError),
}

/// For a control plane known as `authority`, HOST:PORT. Makes a fresh token, which always works, rather than repeating one that may have ended
/// (kubeadm#668), and signs cluster-info with it, so that a join needn't wait for the
/// controller-manager to do so.
///
/// # Errors
/// When the API refuses, or the lifetime is past what a date can hold.
pub async fn make(
    api: &dyn KubeApi,
    authority: &str,
    ca_cert_hash: &str,
    ttl: TokenTtl,
) -> Result<JoinCommand, JoinCommandError> {
    let fresh = BootstrapToken::generate().map_err(|_| JoinCommandError::Random)?;
    let secret = token::secret(&fresh, ttl, OffsetDateTime::now_utc());
    let mut secret = serde_json::to_value(secret.map_err(|_| JoinCommandError::Lifetime(ttl.0))?)
        .map_err(|error| JoinCommandError::Token(error.into()))?;
    secret["metadata"]["labels"][hoist_phases::object::MANAGED_BY.0] =
        json!(hoist_phases::object::MANAGED_BY.1);
    let cluster_info = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("kube-public".to_owned()),
        name: "cluster-info".to_owned(),
    };
    let published = api.get(&cluster_info).await?;
    let kubeconfig = published.as_ref().and_then(|info| info["data"]["kubeconfig"].as_str());
    let signature = sign_detached(kubeconfig.ok_or(JoinCommandError::NoClusterInfo)?, &fresh);
    let signed = json!({ "data": { format!("jws-kubeconfig-{}", fresh.id()): signature } });
    api.create(&secret).await?;
    api.merge_patch(&cluster_info, &signed).await?;
    Ok(JoinCommand {
        command: format!(
            "kubeadm join {authority} --token {} --discovery-token-ca-cert-hash {ca_cert_hash}",
            fresh.expose()
        ),
        lifetime_secs: ttl.0,
    })
}
