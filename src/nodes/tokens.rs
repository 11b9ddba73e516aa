//! The bootstrap tokens of a cluster, made, listed and deleted through its API.

use hoist_phases::jws::sign_detached;
use hoist_phases::object::{MANAGED_BY, ObjectRef};
use hoist_phases::phases::token;
use hoist_phases::ports::{KubeApi, KubeError};
use hoist_phases::spec::{BootstrapToken, TokenTtl};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::error::BoxError;

#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("no random numbers for a bootstrap token")]
    Random,
    #[error("bootstrap token")]
    Token(#[source] BoxError),
    #[error("token lifetime of {0} s is out of range")]
    Lifetime(u64),
    #[error("ConfigMap kube-public/cluster-info is not there; run `hoist up` to lay it down again")]
    NoClusterInfo,
    // A mistyped token is still nearly a secret: it is not repeated.
    #[error("token: must be an id such as abcdef, or a whole token such as abcdef.0123456789abcdef")]
    Malformed,
    #[error("there is no token {id}; there are {have}")]
    Unknown { id: String, have: String },
    #[error(
        "token {id} could not be deleted again ({}); `hoist token delete {id}` does so",
        hoist_phases::causes(then.as_ref())
    )]
    Left {
        id: String,
        then: Box<KubeError>,
        #[source]
        first: Box<KubeError>,
    },
    #[error(transparent)]
    Kube(#[from] KubeError),
}

/// A token as it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub id: String,
    /// The whole of it, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// RFC 3339; absent when it works for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// What is left, in seconds; 0 once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_secs: Option<u64>,
    /// `authentication`, `signing`.
    pub usages: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is the one of the configuration, which `hoist up` keeps.
    pub configured: bool,
}

/// Makes a fresh token, and signs cluster-info with it, so that a join needn't wait for the
/// controller-manager to do so.
///
/// # Errors
/// When the API refuses, or the lifetime is past what a date can hold.
pub async fn create(
    api: &dyn KubeApi,
    ttl: TokenTtl,
    description: Option<&str>,
) -> Result<BootstrapToken, TokensError> {
    let fresh = BootstrapToken::generate().map_err(|_| TokensError::Random)?;
    let secret = token::secret(&fresh, ttl, OffsetDateTime::now_utc());
    let mut secret = serde_json::to_value(secret.map_err(|_| TokensError::Lifetime(ttl.0))?)
        .map_err(|error| TokensError::Token(error.into()))?;
    secret["metadata"]["labels"][MANAGED_BY.0] = json!(MANAGED_BY.1);
    if let Some(description) = description {
        secret["stringData"]["description"] = json!(description);
    }
    let cluster_info = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("kube-public".to_owned()),
        name: "cluster-info".to_owned(),
    };
    let published = api.get(&cluster_info).await?;
    let kubeconfig = published.as_ref().and_then(|info| info["data"]["kubeconfig"].as_str());
    let signature = sign_detached(kubeconfig.ok_or(TokensError::NoClusterInfo)?, &fresh);
    let signed = json!({ "data": { format!("jws-kubeconfig-{}", fresh.id()): signature } });
    api.create(&secret).await?;
    let Err(first) = api.merge_patch(&cluster_info, &signed).await else { return Ok(fresh) };
    // Nobody was told it.
    match api.delete(&token::reference_of(fresh.id())).await {
        Ok(()) => Err(first.into()),
        Err(then) => {
            Err(TokensError::Left { id: fresh.id().to_owned(), then: then.into(), first: first.into() })
        }
    }
}

/// All tokens, the one that ends first at the head.
///
/// # Errors
/// When the API refuses.
pub async fn list(
    api: &dyn KubeApi,
    now: OffsetDateTime,
    with_secrets: bool,
) -> Result<Vec<Listed>, TokensError> {
    let secrets = api.list("v1", "Secret", None).await?;
    let tokens = secrets.iter().filter(|secret| token::is_token(secret));
    let mut tokens: Vec<_> = tokens.filter_map(|secret| listed(secret, now, with_secrets)).collect();
    tokens.sort_by_key(|token| (token.left_secs.is_none(), token.left_secs, token.id.clone()));
    Ok(tokens)
}

fn listed(secret: &Value, now: OffsetDateTime, with_secrets: bool) -> Option<Listed> {
    let field = |name: &str| token::field(secret, name);
    let id = field("token-id")?;
    let expires = field("expiration");
    let end = expires.as_deref().and_then(|end| OffsetDateTime::parse(end, &Rfc3339).ok());
    let left = end.map(|end| u64::try_from((end - now).whole_seconds()).unwrap_or_default());
    let usages = ["authentication", "signing"].into_iter();
    let usages = usages.filter(|usage| field(&format!("usage-bootstrap-{usage}")).as_deref() == Some("true"));
    let groups = field("auth-extra-groups").unwrap_or_default();
    Some(Listed {
        token: field("token-secret").filter(|_| with_secrets).map(|secret| format!("{id}.{secret}")),
        expires,
        left_secs: left,
        usages: usages.map(str::to_owned).collect(),
        groups: groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect(),
        description: field("description"),
        configured: token::is_clusters(secret),
        id,
    })
}

/// Deletes tokens, each named by its id or as a whole; gives their ids. When one is unknown, none goes.
///
/// # Errors
/// When a name has neither form, there is no such token, or the API refuses.
pub async fn delete(api: &dyn KubeApi, names: &[String]) -> Result<Vec<String>, TokensError> {
    let ids = names.iter().map(|name| id(name)).collect::<Result<Vec<_>, _>>()?;
    let have = list(api, OffsetDateTime::now_utc(), false).await?;
    if let Some(unknown) = ids.iter().find(|id| !have.iter().any(|token| token.id == **id)) {
        let have: Vec<_> = have.into_iter().map(|token| token.id).collect();
        let have = if have.is_empty() { "none".to_owned() } else { have.join(", ") };
        return Err(TokensError::Unknown { id: unknown.clone(), have });
    }
    for id in &ids {
        api.delete(&token::reference_of(id)).await?;
    }
    Ok(ids)
}

fn id(name: &str) -> Result<String, TokensError> {
    // An id is half of a token: any secret makes it a whole one.
    let whole = if name.contains('.') { name.to_owned() } else { format!("{name}.0123456789abcdef") };
    let token = BootstrapToken::parse(&whole).map_err(|_| TokensError::Malformed)?;
    Ok(token.id().to_owned())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);

    fn stored(fields: &[(&str, &str)]) -> Value {
        let data: serde_json::Map<_, _> =
            fields.iter().map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value)))).collect();
        json!({"type": "bootstrap.kubernetes.io/token", "metadata": {"namespace": "kube-system"}, "data": data})
    }

    #[test]
    fn a_token_is_told_without_its_secret() {
        let secret = stored(&[
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("expiration", "2026-03-01T13:00:00Z"),
            ("usage-bootstrap-authentication", "true"),
            ("usage-bootstrap-signing", "false"),
            ("auth-extra-groups", "system:bootstrappers:a,system:bootstrappers:b"),
        ]);
        let told = listed(&secret, NOW, false);
        assert!(!format!("{told:?}").contains("0123456789abcdef"), "{told:?}");
        let told = told.map(|told| (told.left_secs, told.usages, told.groups.len(), told.configured));
        assert_eq!(told, Some((Some(3600), vec!["authentication".to_owned()], 2, false)));
        let whole = listed(&secret, NOW, true).and_then(|told| told.token);
        assert_eq!(whole.as_deref(), Some("abcdef.0123456789abcdef"));
    }

    #[test]
    fn one_that_has_ended_has_nothing_left() {
        let ended = stored(&[("token-id", "abcdef"), ("expiration", "2026-03-01T11:00:00Z")]);
        assert_eq!(listed(&ended, NOW, false).and_then(|told| told.left_secs), Some(0));
        let endless = stored(&[("token-id", "abcdef")]);
        assert_eq!(listed(&endless, NOW, false).map(|told| told.left_secs), Some(None));
        assert_eq!(listed(&json!({}), NOW, false), None);
    }

    #[test]
    fn tokens_are_named_by_id_or_as_a_whole() {
        for name in ["abcdef", "abcdef.0123456789abcdef"] {
            assert_eq!(id(name).ok().as_deref(), Some("abcdef"), "{name}");
        }
        for bad in ["", "abc", "ABCDEF", "abcdef.", "abcdef.0123", "abcdef.0123456789abcdef.x"] {
            assert!(
                id(bad)
                    .is_err_and(|error| bad.is_empty() || !error.to_string().contains(&format!("{bad:?}"))),
                "{bad}"
            );
        }
    }
}
