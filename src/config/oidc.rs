//! Users of an OpenID Connect provider, in short: becomes an AuthenticationConfiguration
//! (apiserver.config.k8s.io/v1).

use http::Uri;
use serde_json::{Value, json};

use super::document::Document;
use super::file::OidcFile;
use super::pem;
use super::problem::Problem;

const FIELD: &str = "apiServer.oidc";
const LONG: &str = "apiServer.authenticationConfig";

/// Before names of users and groups when no prefix is said: an issuer that names `system:masters`
/// makes nobody the cluster's administrator.
const PREFIX: &str = "oidc:";

/// Puts the short form's meaning in the place of the long one. Mistakes are added to the document's.
pub(super) fn resolve(document: &mut Document) {
    let Some(oidc) = document.file.api_server.oidc.take() else { return };
    let origin = document.origins.of(FIELD).cloned();
    if document.file.api_server.authentication_config.is_some() {
        let rule = format!("stands beside {LONG}, where it belongs then: leave one of them out");
        document.problems.push(Problem::of(FIELD, rule));
        return;
    }
    let ca = pem::certificates("apiServer.oidc.ca", &document.beside.join(&oidc.ca));
    let ca = document.problems.keep(ca);
    let problems = judge(&oidc);
    let right = problems.is_empty();
    document.problems.extend(problems);
    if let Some(ca) = ca.filter(|_| right) {
        document.file.api_server.authentication_config = Some(authentication(oidc, ca).to_string());
        if let Some(origin) = origin {
            document.origins.set(LONG, origin);
        }
    }
}

/// What kube-apiserver would end over.
fn judge(oidc: &OidcFile) -> Vec<Problem> {
    let OidcFile {
        issuer_url,
        client_id,
        username_claim,
        username_prefix,
        groups_claim,
        groups_prefix,
        ca: _,
    } = oidc;
    let mut problems = Vec::new();
    let mut refuse = |field: &str, value: &str, rule: &str| {
        problems.push(Problem::new(&format!("{FIELD}.{field}"), format_args!("{value:?}"), rule));
    };
    // OpenID Connect Discovery 1.0, section 3, "issuer".
    let uri = issuer_url.parse::<Uri>().ok();
    let is_https = uri.as_ref().is_some_and(|uri| {
        uri.scheme_str() == Some("https")
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
            && uri.query().is_none()
            && !issuer_url.contains('#')
    });
    if !is_https {
        refuse(
            "issuerUrl",
            issuer_url,
            "must be https://HOST[:PORT][/PATH], without user, query or fragment",
        );
    }
    if client_id.is_empty() {
        refuse("clientId", client_id, "must be the audience that tokens for this cluster are made for");
    }
    for (field, claim) in [("usernameClaim", username_claim), ("groupsClaim", groups_claim)] {
        if claim.as_deref() == Some("") {
            refuse(field, "", "must be the name of a claim, or be left out");
        }
    }
    for (field, prefix) in [("usernamePrefix", username_prefix), ("groupsPrefix", groups_prefix)] {
        if let Some(prefix) = prefix.as_deref().filter(|prefix| prefix.starts_with("system:")) {
            refuse(field, prefix, "names that begin with system: are Kubernetes' own; choose another");
        }
    }
    if groups_prefix.is_some() && groups_claim.is_none() {
        refuse(
            "groupsPrefix",
            groups_prefix.as_deref().unwrap_or_default(),
            "without groupsClaim no group is read",
        );
    }
    problems
}

fn authentication(oidc: OidcFile, ca: String) -> Value {
    let OidcFile {
        issuer_url,
        client_id,
        username_claim,
        username_prefix,
        groups_claim,
        groups_prefix,
        ca: _,
    } = oidc;
    let prefix = |given: Option<String>| given.unwrap_or_else(|| PREFIX.to_owned());
    let issuer = json!({ "url": issuer_url, "audiences": [client_id], "certificateAuthority": ca });
    let username = username_claim.unwrap_or_else(|| "sub".to_owned());
    let mut mappings = json!({ "username": { "claim": username, "prefix": prefix(username_prefix) } });
    if let Some(claim) = groups_claim {
        mappings["groups"] = json!({ "claim": claim, "prefix": prefix(groups_prefix) });
    }
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{ "issuer": issuer, "claimMappings": mappings }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oidc() -> OidcFile {
        OidcFile {
            issuer_url: "https://issuer.example:8443/realms/a".to_owned(),
            client_id: "hoist".to_owned(),
            ..OidcFile::default()
        }
    }

    #[test]
    fn names_have_a_prefix_unless_it_is_taken_away() {
        let jwt = |oidc| authentication(oidc, "PEM".to_owned())["jwt"][0].clone();
        let plain = jwt(oidc());
        assert_eq!(
            plain["issuer"],
            json!({ "url": oidc().issuer_url, "audiences": ["hoist"], "certificateAuthority": "PEM" })
        );
        assert_eq!(plain["claimMappings"], json!({ "username": { "claim": "sub", "prefix": "oidc:" } }));
        let given = OidcFile {
            username_claim: Some("email".to_owned()),
            username_prefix: Some(String::new()),
            groups_claim: Some("groups".to_owned()),
            ..oidc()
        };
        let wanted = json!({
            "username": { "claim": "email", "prefix": "" },
            "groups": { "claim": "groups", "prefix": "oidc:" },
        });
        assert_eq!(jwt(given)["claimMappings"], wanted);
    }

    #[test]
    fn what_the_api_server_would_end_over_is_refused() {
        let told = |oidc: OidcFile| judge(&oidc).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(told(oidc()), Vec::<String>::new());
        for url in [
            "",
            "issuer.example",
            "http://a.example",
            "https://u@a.example",
            "https://a.example?x",
            "https://a.example/#b",
        ] {
            let told = told(OidcFile { issuer_url: url.to_owned(), ..oidc() });
            assert!(told.len() == 1 && told[0].starts_with("apiServer.oidc.issuerUrl"), "{url}: {told:?}");
        }
        let all = OidcFile {
            client_id: String::new(),
            username_claim: Some(String::new()),
            username_prefix: Some("system:".to_owned()),
            groups_prefix: Some("system:a".to_owned()),
            ..oidc()
        };
        assert_eq!(told(all).len(), 5);
    }
}
