//! The line that joins any machine which reaches the control plane's address.

use hoist_phases::ports::KubeApi;
use hoist_phases::spec::TokenTtl;
use serde::Serialize;

use super::tokens::{self, TokensError};

/// A command to type on a machine, and how long it works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinCommand {
    pub command: String,
    /// In seconds; 0 is for ever.
    pub lifetime_secs: u64,
}

/// For a control plane known as `authority`, HOST:PORT. Makes a fresh token, which always works, rather
/// than repeating one that may have ended (kubeadm#668).
///
/// # Errors
/// See [`tokens::create`].
pub async fn make(
    api: &dyn KubeApi,
    authority: &str,
    ca_cert_hash: &str,
    ttl: TokenTtl,
) -> Result<JoinCommand, TokensError> {
    let fresh = tokens::create(api, ttl, None).await?;
    Ok(JoinCommand {
        command: format!(
            "kubeadm join {authority} --token {} --discovery-token-ca-cert-hash {ca_cert_hash}",
            fresh.expose()
        ),
        lifetime_secs: ttl.0,
    })
}
