use std::error::Error;
use std::time::Duration;

use hoist_phases::ports::KubeError;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::Body;
use serde_json::Value;

/// Longest time for one request with its answer. The API server's own limit is 60 s; whatever
/// hoist asks for takes milliseconds, and a caller with a deadline must get its turn again.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of one answer: whoever sends more is no API server of a cluster that fits on one machine, and
/// must not fill this process's memory. All objects of a kind are one answer.
const LARGEST: usize = 256 << 20;

/// Longest part of an answer that isn't a Status to repeat in an error.
const MAX_MESSAGE: usize = 300;

pub(super) const JSON: &str = "application/json";
/// JSON is YAML too.
pub(super) const APPLY_PATCH: &str = "application/apply-patch+yaml";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";

/// What is asked and of what, for errors.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) operation: &'static str,
    pub(super) object: &'a str,
}

#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", TIMEOUT.as_secs())]
struct NoAnswer;

#[derive(Debug, thiserror::Error)]
#[error("{0} is not what an API server sends")]
struct Unexpected(&'static str);

impl Subject<'_> {
    pub(super) fn other(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> KubeError {
        KubeError::Other { operation: self.operation, object: self.object.to_owned(), source: source.into() }
    }

    pub(super) fn unexpected(&self, what: &'static str) -> KubeError {
        self.other(Unexpected(what))
    }

    fn unreachable(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> KubeError {
        KubeError::Unreachable {
            operation: self.operation,
            object: self.object.to_owned(),
            source: source.into(),
        }
    }

    /// Sends one request and reads the whole answer, whatever its code.
    pub(super) async fn send(
        &self,
        client: &kube::Client,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(u16, Vec<u8>), KubeError> {
        let mut request = Request::builder().method(method).uri(path).header(ACCEPT, "application/json, */*");
        let mut content = Vec::new();
        if let Some((content_type, value)) = body {
            request = request.header(CONTENT_TYPE, content_type);
            content = serde_json::to_vec(value).map_err(|error| self.other(error))?;
        }
        let request = request.body(Body::from(content)).map_err(|error| self.other(error))?;
        let exchange = async {
            let response = client.send(request).await?;
            let code = response.status().as_u16();
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            Ok((code, body.map_err(kube::Error::Service)?.to_bytes().to_vec()))
        };
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Err(_) => Err(self.unreachable(NoAnswer)),
            Ok(Err(kube::Error::Service(source)))
                if is_certificate_error(source.as_ref()) || source.is::<LengthLimitError>() =>
            {
                Err(self.other(source))
            }
            // kube's own wrappers say nothing but what is inside.
            Ok(Err(kube::Error::Service(source))) => Err(self.unreachable(source)),
            Ok(Err(kube::Error::HyperError(source))) => Err(self.unreachable(source)),
            Ok(Err(error)) => Err(self.other(error)),
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    /// The object in an answer, or the error that it tells of.
    pub(super) fn value(&self, (code, body): (u16, Vec<u8>)) -> Result<Value, KubeError> {
        if (200..300).contains(&code) {
            let value: Value = serde_json::from_slice(&body).map_err(|error| self.other(error))?;
            let is_object =
                value.is_object() && matches!(value.get("metadata"), None | Some(Value::Object(_)));
            return if is_object { Ok(value) } else { Err(self.unexpected("an answer that is no object")) };
        }
        Err(self.status(code, &body))
    }

    pub(super) fn status(&self, code: u16, body: &[u8]) -> KubeError {
        let message = explain(self.object, body);
        KubeError::Status { operation: self.operation, object: self.object.to_owned(), code, message }
    }
}

/// A server that presents the wrong certificate will present it again: no reason to retry. Errors
/// of the handshake hide inside [`std::io::Error`], whose `source` skips what it wraps.
fn is_certificate_error(error: &(dyn Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
    if let Some(wrapped) = wrapped
        && is_certificate_error(wrapped)
    {
        return true;
    }
    let wrong = error.downcast_ref::<rustls::Error>();
    wrong.is_some_and(|e| matches!(e, rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)))
        || error.source().is_some_and(is_certificate_error)
}

/// What the server says went wrong (the Status object of the API conventions).
fn explain(object: &str, body: &[u8]) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    // Validation repeats the values it refuses.
    if object.starts_with("Secret ") {
        let causes = status["details"]["causes"].as_array();
        let fields = causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str());
        return [text("reason")].into_iter().chain(fields).collect::<Vec<_>>().join(" ");
    }
    if !text("message").is_empty() {
        return text("message").to_owned();
    }
    String::from_utf8_lossy(body).trim().chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_words_are_repeated_but_for_secrets() {
        let body = br#"{"kind":"Status","reason":"Invalid","message":"data: bad \"hunter2\"",
            "details":{"causes":[{"field":"data[token-secret]","message":"bad \"hunter2\""}]},"code":422}"#;
        assert_eq!(explain("ConfigMap a/b", body), r#"data: bad "hunter2""#);
        assert_eq!(explain("Secret a/b", body), "Invalid data[token-secret]");
        assert_eq!(explain("/readyz", b"[-]etcd failed\n"), "[-]etcd failed");
    }

    #[test]
    fn a_wrong_certificate_is_found_however_deep() {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let handshake = std::io::Error::other(std::io::Error::other(unknown));
        assert!(is_certificate_error(&kube::Error::Service(Box::new(handshake))));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(!is_certificate_error(&kube::Error::Service(Box::new(refused))));
    }
}
