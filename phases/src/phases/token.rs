//! The Secret behind a bootstrap token (Kubernetes documentation, "Authenticating with Bootstrap
//! Tokens"): with it a machine proves that it may join, and knows the cluster for the right one.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::object::{MANAGED_BY, ObjectRef};
use crate::spec::{BootstrapToken, TokenTtl};

/// The group of machines that join with such a token; kubeadm's roles are bound to it.
pub const GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";

/// A token that ends sooner is renewed, so that it doesn't end in the middle of a join.
const MARGIN: Duration = Duration::minutes(10);

/// Label of the Secret behind the cluster's own token; those of `hoist join-command` have none, and
/// live as long as they were made to.
pub const CLUSTER_TOKEN: (&str, &str) = ("hoist.dev/token", "cluster");

/// Annotation with the lifetime in seconds that the cluster's token was made with.
const TTL_ANNOTATION: &str = "hoist.dev/token-ttl";

const NAMESPACE: &str = "kube-system";

const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Where the Secret of a token lives.
pub fn reference(token: &BootstrapToken) -> ObjectRef {
    reference_of(token.id())
}

/// The same of a token known by its id alone.
pub fn reference_of(id: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        name: format!("bootstrap-token-{id}"),
    }
}

/// The Secret of `token`, valid from `now` for `ttl`; for ever when `ttl` is zero, as kubeadm has it.
///
/// # Errors
/// When the end lies beyond the year 9999.
pub fn secret(
    token: &BootstrapToken,
    ttl: TokenTtl,
    now: OffsetDateTime,
) -> Result<Secret, time::error::Format> {
    let mut data = BTreeMap::from([
        ("token-id", token.id().to_owned()),
        ("token-secret", token.secret().to_owned()),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("usage-bootstrap-signing", "true".to_owned()),
        ("auth-extra-groups", GROUP.to_owned()),
        ("description", "made by hoist for nodes that join".to_owned()),
    ]);
    if ttl.0 > 0 {
        let end = i64::try_from(ttl.0).ok().and_then(|seconds| now.checked_add(Duration::seconds(seconds)));
        // A lifetime past what a date can hold ends with the dates.
        let end = end.unwrap_or_else(|| time::PrimitiveDateTime::MAX.assume_utc());
        let end = end.replace_nanosecond(0).unwrap_or(end);
        data.insert("expiration", end.format(&Rfc3339)?);
    }
    let reference = reference(token);
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(reference.name),
            namespace: reference.namespace,
            ..ObjectMeta::default()
        },
        type_: Some(TYPE.to_owned()),
        string_data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ..Secret::default()
    })
}

/// The Secret of the cluster's own token: marked as such, so that another token can take its place.
///
/// # Errors
/// See [`secret`].
pub fn cluster_secret(
    token: &BootstrapToken,
    ttl: TokenTtl,
    now: OffsetDateTime,
) -> Result<Secret, time::error::Format> {
    let mut secret = secret(token, ttl, now)?;
    let pair = |(key, value): (&str, &str)| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    secret.metadata.labels = pair(CLUSTER_TOKEN);
    secret.metadata.annotations = pair((TTL_ANNOTATION, &ttl.0.to_string()));
    Ok(secret)
}

/// The Secrets among `existing` behind tokens that were once the cluster's and no longer are.
pub fn replaced(existing: &[Value], token: &BootstrapToken) -> Vec<ObjectRef> {
    let wanted = reference(token);
    let once_ours = |secret: &&Value| is_token(secret) && is_clusters(secret);
    let names = existing.iter().filter(once_ours).filter_map(|secret| secret["metadata"]["name"].as_str());
    let others = names.filter(|name| *name != wanted.name);
    others.map(|name| ObjectRef { name: name.to_owned(), ..wanted.clone() }).collect()
}

/// Whether one of the Secrets that are there will do: the cluster's own, of this very token and
/// lifetime, not about to end.
///
/// Its end is what it was given once; renewing it on every run would make every run a change.
pub fn still_good(existing: &[Value], token: &BootstrapToken, ttl: TokenTtl, now: OffsetDateTime) -> bool {
    let name = reference(token).name;
    let found = existing.iter().find(|secret| secret["metadata"]["name"] == name.as_str());
    found.is_some_and(|secret| will_do(secret, token, ttl, now))
}

/// A field of a Secret as the API gives it back.
pub fn field(secret: &Value, name: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(secret["data"][name].as_str()?).ok()?).ok()
}

/// Whether a Secret is one of a bootstrap token, by its type and place.
pub fn is_token(secret: &Value) -> bool {
    secret["type"] == TYPE && secret["metadata"]["namespace"] == NAMESPACE
}

/// Whether it is behind the token of the cluster's configuration.
pub fn is_clusters(secret: &Value) -> bool {
    [MANAGED_BY, CLUSTER_TOKEN].iter().all(|(key, value)| secret["metadata"]["labels"][key] == *value)
}

fn will_do(existing: &Value, token: &BootstrapToken, ttl: TokenTtl, now: OffsetDateTime) -> bool {
    let field = |name: &str| field(existing, name);
    let metadata = &existing["metadata"];
    let ours = is_clusters(existing)
        && metadata["annotations"][TTL_ANNOTATION].as_str().and_then(|ttl| ttl.parse().ok()) == Some(ttl.0);
    let same = field("token-id").as_deref() == Some(token.id())
        && field("token-secret").as_deref() == Some(token.secret())
        && field("usage-bootstrap-authentication").as_deref() == Some("true")
        && field("usage-bootstrap-signing").as_deref() == Some("true")
        && field("auth-extra-groups").as_deref() == Some(GROUP);
    let lasts = match field("expiration") {
        None => true,
        Some(end) => OffsetDateTime::parse(&end, &Rfc3339).is_ok_and(|end| end - now > MARGIN),
    };
    ours && same && lasts
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::datetime;

    use super::*;

    type Check = Result<(), Box<dyn std::error::Error>>;

    const NOW: OffsetDateTime = datetime!(2026-03-01 12:00:00.5 UTC);

    /// The Secret as the API server would give it back.
    fn stored(token: &BootstrapToken, ttl: u64) -> Result<Value, Box<dyn std::error::Error>> {
        let mut secret = cluster_secret(token, TokenTtl(ttl), NOW)?;
        let text = secret.string_data.take().unwrap_or_default();
        let mut stored = serde_json::to_value(secret)?;
        stored["data"] = text.iter().map(|(k, v)| (k.clone(), json!(STANDARD.encode(v)))).collect();
        stored["metadata"]["labels"][MANAGED_BY.0] = json!(MANAGED_BY.1);
        Ok(stored)
    }

    fn expiration(ttl: u64) -> Result<Option<String>, Box<dyn std::error::Error>> {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef")?;
        let data = secret(&token, TokenTtl(ttl), NOW)?.string_data.unwrap_or_default();
        Ok(data.get("expiration").cloned())
    }

    #[test]
    fn ends_when_asked_to() -> Check {
        assert_eq!(expiration(86_400)?.as_deref(), Some("2026-03-02T12:00:00Z"));
        assert_eq!(expiration(0)?, None);
        assert_eq!(expiration(u64::MAX)?.as_deref(), Some("9999-12-31T23:59:59Z"));
        Ok(())
    }

    #[test]
    fn is_kept_until_shortly_before_its_end() -> Check {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef")?;
        let stored = [stored(&token, 3600)?];
        let good = |now| still_good(&stored, &token, TokenTtl(3600), now);
        assert!(good(NOW));
        assert!(good(NOW + Duration::minutes(49)));
        assert!(!good(NOW + Duration::minutes(51)));
        assert!(!good(NOW + Duration::hours(2)));
        assert!(!still_good(&[], &token, TokenTtl(3600), NOW));
        Ok(())
    }

    #[test]
    fn one_without_end_is_kept() -> Check {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef")?;
        assert!(still_good(&[stored(&token, 0)?], &token, TokenTtl(0), NOW + Duration::days(4000)));
        Ok(())
    }

    #[test]
    fn another_lifetime_makes_it_anew() -> Check {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef")?;
        assert!(!still_good(&[stored(&token, 86_400)?], &token, TokenTtl(3600), NOW));
        assert!(!still_good(&[stored(&token, 0)?], &token, TokenTtl(3600), NOW));
        Ok(())
    }

    #[test]
    fn a_replaced_token_goes_and_those_of_join_command_stay() -> Check {
        let first = BootstrapToken::parse("aaaaaa.0123456789abcdef")?;
        let second = BootstrapToken::parse("bbbbbb.0123456789abcdef")?;
        let old = stored(&first, 3600)?;
        let new = stored(&second, 3600)?;
        let mut join_command = stored(&BootstrapToken::parse("cccccc.0123456789abcdef")?, 3600)?;
        join_command["metadata"]["labels"] = json!({ MANAGED_BY.0: MANAGED_BY.1 });
        let mut users = stored(&BootstrapToken::parse("dddddd.0123456789abcdef")?, 3600)?;
        users["metadata"]["labels"] = json!({ CLUSTER_TOKEN.0: CLUSTER_TOKEN.1 });
        let gone = replaced(&[old, new, join_command, users], &second);
        assert_eq!(gone, [reference(&first)]);
        Ok(())
    }

    #[test]
    fn others_are_not_good() -> Check {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef")?;
        let good = stored(&token, 3600)?;
        let mut foreign = good.clone();
        foreign["metadata"]["labels"] = json!({});
        let mut unreadable = good.clone();
        unreadable["data"]["expiration"] = json!(STANDARD.encode("tomorrow"));
        let mut useless = good.clone();
        useless["data"]["usage-bootstrap-signing"] = json!(STANDARD.encode("false"));
        for (what, secret) in [("foreign", foreign), ("unreadable", unreadable), ("useless", useless)] {
            assert!(!still_good(&[secret], &token, TokenTtl(3600), NOW), "{what}");
        }
        let other = BootstrapToken::parse("abcdef.1123456789abcdef")?;
        assert!(!still_good(&[good], &other, TokenTtl(3600), NOW));
        Ok(())
    }
}
