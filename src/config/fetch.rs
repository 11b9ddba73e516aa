//! Fetches a small text over HTTPS. The Kubernetes client is an HTTP client with the system's
//! trust roots already; a second one would double the TLS dependencies.

use std::time::Duration;

use http::{Request, Uri, header};
use kube::client::Body;

/// Time for one request; each redirect is a request.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Redirects followed, such as from a release's download link to its store.
const MAX_REDIRECTS: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{text:?} is no URL")]
    Url {
        text: String,
        #[source]
        source: http::Error,
    },
    #[error("request to {host}")]
    Request {
        host: String,
        #[source]
        source: kube::Error,
    },
    #[error("no answer from {host} within {} s", TIMEOUT.as_secs())]
    Timeout { host: String },
    #[error("{host} answered {status}")]
    Status { host: String, status: u16 },
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("{host} redirects to {target:?}, which is no https URL")]
    Redirect { host: String, target: String },
}

/// Gives the body behind an https URL, redirects followed.
///
/// # Errors
/// When it can't be had.
pub(super) async fn get(url: &str) -> Result<Vec<u8>, FetchError> {
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        match tokio::time::timeout(TIMEOUT, one(&url)).await {
            Ok(Ok(Answer::Body(body))) => return Ok(body),
            Ok(Ok(Answer::Redirect(target))) => url = target,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(FetchError::Timeout { host: url }),
        }
    }
    Err(FetchError::Redirects)
}

enum Answer {
    Body(Vec<u8>),
    Redirect(String),
}

async fn one(url: &str) -> Result<Answer, FetchError> {
    let not_a_url = |source: http::Error| FetchError::Url { text: url.to_owned(), source };
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| not_a_url(error.into()))?;
    let host = uri.authority().map(ToString::to_string).unwrap_or_default();
    let failed = |source| FetchError::Request { host: host.clone(), source };

    let base = Uri::builder().scheme("https").authority(host.as_str()).path_and_query("/").build();
    let client = kube::Client::try_from(kube::Config::new(base.map_err(not_a_url)?)).map_err(failed)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(header::USER_AGENT, concat!("hoist/", env!("CARGO_PKG_VERSION")));
    let response = client.send(request.body(Body::empty()).map_err(not_a_url)?).await.map_err(failed)?;

    let status = response.status();
    if status.is_redirection() {
        let target = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        return redirect(&host, target.unwrap_or_default()).map(Answer::Redirect);
    }
    if !status.is_success() {
        return Err(FetchError::Status { host, status: status.as_u16() });
    }
    let body = response.into_body().collect_bytes().await.map_err(failed)?;
    Ok(Answer::Body(body.to_vec()))
}

/// The URL a redirect leads to; never away from https.
fn redirect(host: &str, target: &str) -> Result<String, FetchError> {
    if target.starts_with("https://") {
        return Ok(target.to_owned());
    }
    if target.starts_with('/') && !target.starts_with("//") {
        return Ok(format!("https://{host}{target}"));
    }
    Err(FetchError::Redirect { host: host.to_owned(), target: target.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_https() {
        let to = |target| redirect("a.example", target).ok();
        assert_eq!(to("https://b.example/x").as_deref(), Some("https://b.example/x"));
        assert_eq!(to("/x").as_deref(), Some("https://a.example/x"));
        assert_eq!(to("http://b.example/x"), None);
        assert_eq!(to("//b.example/x"), None);
        assert_eq!(to(""), None);
    }
}
