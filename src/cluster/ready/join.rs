//! Makes the requests of a `kubeadm join`, with the credentials it has at each point, and asks for
//! a kubelet's client certificate as the kubelet's TLS bootstrap does.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hoist_phases::engine::PhaseError;
use hoist_phases::object::{MANAGED_BY, ObjectRef};
use hoist_phases::phases::wait::{Poll, until};
use hoist_phases::ports::{KubeApi, KubeError};
use hoist_phases::spec::BootstrapToken;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use ring::hmac;
use serde_json::{Value, json};

use super::{Target, not_yet};
use crate::cluster::kube::{AccessError, Api};

/// The node that the probe asks in the name of. It never exists; neither can a real node be
/// called so by hoist.
const PROBE_NODE: &str = "hoist-join-probe";

const CSR_API: &str = "certificates.k8s.io/v1";
const CSR_KIND: &str = "CertificateSigningRequest";

#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error("certificate request for {PROBE_NODE} can't be made")]
    Request(#[from] rcgen::Error),
    #[error("credentials for the probe")]
    Access(#[from] AccessError),
}

pub(super) async fn probe(target: &Target<'_>, deadline: Duration) -> Result<(), PhaseError> {
    let token = &target.spec.token;
    let anonymous = target.access.anonymous().connect().map_err(JoinError::from)?;
    let joining =
        target.access.with_token(token).and_then(|access| access.connect()).map_err(JoinError::from)?;
    until(deadline, || discovery(&anonymous, token)).await?;
    until(deadline, || configuration(&joining)).await?;
    certificate(target, &joining, deadline).await
}

/// `cluster-info`, read by nobody in particular and trusted for its signature.
async fn discovery(anonymous: &Api, token: &BootstrapToken) -> Result<Poll<()>, PhaseError> {
    let info = match anonymous.get(&config_map("kube-public", "cluster-info")).await {
        Err(error) => return Ok(not_yet(&error)),
        Ok(None) => return Ok(Poll::Pending("ConfigMap kube-public/cluster-info is not there".to_owned())),
        Ok(Some(info)) => info,
    };
    let signature = info["data"][format!("jws-kubeconfig-{}", token.id())].as_str();
    let (Some(kubeconfig), Some(signature)) = (info["data"]["kubeconfig"].as_str(), signature) else {
        return Ok(Poll::Pending(format!("cluster-info has no signature for token {}", token.id())));
    };
    Ok(match is_signed(kubeconfig, signature, token) {
        true => Poll::Ready(()),
        false => Poll::Pending(format!("the signature of cluster-info is not by token {}", token.id())),
    })
}

/// What `kubeadm join` reads with the token before it starts the kubelet.
async fn configuration(joining: &Api) -> Result<Poll<()>, PhaseError> {
    let node = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: None,
        name: PROBE_NODE.to_owned(),
    };
    let kubeadm = config_map("kube-system", "kubeadm-config");
    let kubelet = config_map("kube-system", "kubelet-config");
    // The node may be missing, but asking must be allowed. kube-proxy's ConfigMap is asked for as
    // well, but a refusal doesn't stop kubeadm.
    let found = tokio::try_join!(joining.get(&kubeadm), joining.get(&kubelet), joining.get(&node));
    Ok(match found {
        Err(error) => not_yet(&error),
        Ok((None, ..)) => Poll::Pending(format!("{kubeadm} is not there")),
        Ok((_, None, ..)) => Poll::Pending(format!("{kubelet} is not there")),
        Ok(_) => Poll::Ready(()),
    })
}

async fn certificate(target: &Target<'_>, joining: &Api, deadline: Duration) -> Result<(), PhaseError> {
    let key = KeyPair::generate().map_err(JoinError::from)?;
    let request = signing_request(&key).map_err(JoinError::from)?;
    let created = until(deadline, || async {
        Ok(match joining.create(&request).await {
            Ok(created) => Poll::Ready(created),
            Err(error) => not_yet(&error),
        })
    })
    .await?;
    let reference = ObjectRef {
        api_version: CSR_API.to_owned(),
        kind: CSR_KIND.to_owned(),
        namespace: None,
        name: created["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
    };
    let used = use_certificate(target, joining, &reference, &key, deadline).await;
    // Whatever came of it, the request is done with.
    let deleted = target.admin.delete(&reference).await;
    used?;
    deleted.map_err(PhaseError::from)
}

async fn use_certificate(
    target: &Target<'_>,
    joining: &Api,
    reference: &ObjectRef,
    key: &KeyPair,
    deadline: Duration,
) -> Result<(), PhaseError> {
    let certificate = until(deadline, || async {
        Ok(match joining.get(reference).await {
            Err(error) => not_yet(&error),
            Ok(None) => Poll::Pending(format!("{reference} is gone")),
            Ok(Some(request)) => signed(&request),
        })
    })
    .await?;
    let access =
        target.access.with_certificate(&certificate, &key.serialize_pem()).map_err(JoinError::from)?;
    let kubelet = access.connect().map_err(JoinError::from)?;
    until(deadline, || async {
        Ok(match who_am_i(&kubelet).await {
            Err(error) => not_yet(&error),
            Ok(Some(name)) if name == format!("system:node:{PROBE_NODE}") => Poll::Ready(()),
            Ok(name) => Poll::Pending(format!("the signed certificate makes its bearer {name:?}")),
        })
    })
    .await
}

/// The signed certificate in PEM, or how far the request has come.
fn signed(request: &Value) -> Poll<String> {
    let certificate = request["status"]["certificate"].as_str().and_then(|text| STANDARD.decode(text).ok());
    if let Some(pem) = certificate.and_then(|bytes| String::from_utf8(bytes).ok()) {
        return Poll::Ready(pem);
    }
    let conditions = request["status"]["conditions"].as_array();
    let text = |condition: &Value| {
        ["type", "message"].map(|field| condition[field].as_str().unwrap_or_default().to_owned()).join(" ")
    };
    let seen: Vec<_> = conditions.into_iter().flatten().map(text).collect();
    Poll::Pending(match seen.is_empty() {
        true => "the probe's certificate request is not approved".to_owned(),
        false => format!("the probe's certificate request is not signed: {}", seen.join(", ")),
    })
}

async fn who_am_i(api: &Api) -> Result<Option<String>, KubeError> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = api.create(&review).await?;
    Ok(answer["status"]["userInfo"]["username"].as_str().map(str::to_owned))
}

/// What a kubelet asks for (Kubernetes documentation, "TLS bootstrapping"; signer
/// `kubernetes.io/kube-apiserver-client-kubelet`).
fn signing_request(key: &KeyPair) -> Result<Value, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{PROBE_NODE}"));
    let pem = params.serialize_request(key)?.pem()?;
    Ok(json!({
        "apiVersion": CSR_API,
        "kind": CSR_KIND,
        "metadata": {"generateName": format!("{PROBE_NODE}-"), "labels": {MANAGED_BY.0: MANAGED_BY.1}},
        "spec": {
            "request": STANDARD.encode(pem),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }))
}

/// Checks a detached HS256 signature (RFC 7515, appendix F) as a joining machine does: by what its
/// header says, not by what hoist itself would have written.
fn is_signed(content: &str, signature: &str, token: &BootstrapToken) -> bool {
    let Some((header, tag)) = signature.split_once("..") else {
        return false;
    };
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let claims: Value = serde_json::from_slice(&decode(header)).unwrap_or_default();
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.secret().as_bytes());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    claims["alg"] == "HS256"
        && claims["kid"] == token.id()
        && hmac::verify(&key, signed.as_bytes(), &decode(tag)).is_ok()
}

fn config_map(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoist_phases::jws::sign_detached;

    #[test]
    fn only_the_tokens_own_signature_counts() -> Result<(), Box<dyn std::error::Error>> {
        let token = BootstrapToken::parse("abcdef.1234567890123456")?;
        let other = BootstrapToken::parse("abcdef.6543210987654321")?;
        let signature = sign_detached("content", &token);
        assert!(is_signed("content", &signature, &token));
        assert!(!is_signed("content", &signature, &other));
        assert!(!is_signed("changed", &signature, &token));
        assert!(!is_signed("content", "", &token));
        assert!(!is_signed("content", &signature.replace("..", "."), &token));
        Ok(())
    }

    #[test]
    fn the_request_is_a_kubelets() -> Result<(), Box<dyn std::error::Error>> {
        let request = signing_request(&KeyPair::generate()?)?;
        let pem = STANDARD.decode(request["spec"]["request"].as_str().unwrap_or_default())?;
        assert!(pem.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----"));
        assert_eq!(request["spec"]["usages"], json!(["digital signature", "client auth"]));
        Ok(())
    }

    #[test]
    fn a_denied_request_says_so() {
        let denied = json!({"status": {"conditions": [{"type": "Denied", "message": "by policy"}]}});
        assert!(matches!(signed(&denied), Poll::Pending(last) if last.ends_with("Denied by policy")));
        assert!(matches!(signed(&json!({})), Poll::Pending(last) if last.ends_with("not approved")));
    }
}
