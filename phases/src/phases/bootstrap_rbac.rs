//! Who may do what while a node joins: the bootstrap token and kubeadm's roles and bindings.
//!
//! All of it is laid down again on every run that finds it changed, the API server's right to
//! talk to kubelets included (kubeadm#3310).

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join_all};
use serde_json::Value;
use time::OffsetDateTime;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{Manifest, ManifestError};
use crate::object::{Object, ObjectError};
use crate::phases::{Context, apply, token, wait};
use crate::ports::{KubeApi, KubeError};
use crate::spec::ClusterSpec;

const RBAC: (&str, &str) = ("rbac/bootstrap.yaml", include_str!("../../../manifests/rbac/bootstrap.yaml"));

#[derive(Debug, thiserror::Error)]
pub enum BootstrapRbacError {
    #[error("bootstrap token: its end can't be written as a date")]
    TokenEnd(#[source] time::error::Format),
    #[error("bootstrap token: its Secret can't be made")]
    Secret(#[source] ObjectError),
    #[error("bootstrap token: its Secret can't be read")]
    Read(#[source] KubeError),
    #[error("bootstrap token: the Secret of one that was replaced can't be deleted")]
    Delete(#[source] KubeError),
}

/// Every role and binding `kubeadm init` lays down; the same for all clusters.
///
/// # Errors
/// When the embedded manifest is broken.
pub fn roles() -> Result<Vec<Object>, ManifestError> {
    Manifest::parse(RBAC.0, RBAC.1)?.objects()
}

/// The Secret of the cluster's token, valid from `now`.
///
/// # Errors
/// When its end has no form as a date.
pub fn token_secret(spec: &ClusterSpec, now: OffsetDateTime) -> Result<Object, BootstrapRbacError> {
    let secret =
        token::cluster_secret(&spec.token, spec.token_ttl, now).map_err(BootstrapRbacError::TokenEnd)?;
    Object::new(&secret).map_err(BootstrapRbacError::Secret)
}

/// Lays all of it down in one burst.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let api = cx.outputs.api.get()?;
        let now = OffsetDateTime::now_utc();
        let mut objects = roles()?;
        let tokens = cluster_tokens(api.as_ref()).await?;
        if !token::still_good(&tokens, &cx.spec.token, cx.spec.token_ttl, now) {
            objects.push(token_secret(&cx.spec, now)?);
        }
        let mut burst = apply::apply(api.as_ref(), &objects, apply::DEADLINE).await?;
        let replaced = token::replaced(&tokens, &cx.spec.token);
        try_join_all(replaced.iter().map(|secret| api.delete(secret)))
            .await
            .map_err(BootstrapRbacError::Delete)?;
        burst.changed += replaced.len();
        Ok(burst.outcome())
    }
    .boxed()
}

/// The Secrets behind the token that is the cluster's own, and behind those which once were.
async fn cluster_tokens(api: &dyn KubeApi) -> Result<Vec<Value>, PhaseError> {
    let (key, value) = token::CLUSTER_TOKEN;
    let selector = format!("{key}={value}");
    wait::until(apply::DEADLINE, || async {
        match api.list("v1", "Secret", Some(&selector)).await {
            Ok(secrets) => Ok(wait::Poll::Ready(secrets)),
            Err(error) if apply::may_succeed_later(&error) => Ok(wait::Poll::Pending(error.to_string())),
            Err(error) => Err(BootstrapRbacError::Read(error).into()),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::phases::addon::testing;

    type Check = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn lays_down_what_kubeadm_does() -> Check {
        insta::assert_snapshot!(testing::text(&roles()?)?);
        Ok(())
    }

    #[test]
    fn kubeadm_3310_the_api_server_may_talk_to_kubelets() -> Check {
        let roles = roles()?;
        let binding = testing::find(&roles, "ClusterRoleBinding", "kubeadm:apiserver-kubelet-client");
        assert_eq!(binding["roleRef"]["name"], "system:kubelet-api-admin");
        assert_eq!(binding["subjects"][0]["name"], crate::pki::KUBELET_CLIENT);
        Ok(())
    }

    #[test]
    fn token_secret_is_complete() -> Check {
        let secret = token_secret(&testing::spec()?, datetime!(2026-03-01 12:00 UTC))?;
        let text = testing::text(&[secret])?.replace("0123456789abcdef", "[secret]");
        insta::assert_snapshot!(text);
        Ok(())
    }
}
