//! Fetches over HTTPS. The Kubernetes client is an HTTP client with the system's trust roots already; a
//! second one would double the TLS dependencies.

use std::path::Path;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use http::{Request, Response, Uri, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::io::AsyncWriteExt as _;

/// Time for the answer to one request, and for each piece of a large one; each redirect is a request.
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
    #[error("write {path}")]
    Write {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("{host} redirects to {target:?}, which is no https URL")]
    Redirect { host: String, target: String },
}

/// URL and digest of `URL#sha256=HEX`, the digest in lower case; `None` where either is missing.
pub(crate) fn pinned(text: &str) -> Option<(&str, String)> {
    let (url, hex) = text.rsplit_once("#sha256=")?;
    let whole = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    whole.then(|| (url, hex.to_ascii_lowercase()))
}

/// Gives the body behind an https URL, redirects followed.
///
/// # Errors
/// When it can't be had.
pub(crate) async fn get(url: &str) -> Result<Vec<u8>, FetchError> {
    let response = follow(url).await?;
    let body = tokio::time::timeout(TIMEOUT, response.into_body().collect_bytes()).await;
    let body = body.map_err(|_| FetchError::Timeout { host: url.to_owned() })?;
    let body = body.map_err(|source| FetchError::Request { host: url.to_owned(), source })?;
    Ok(body.to_vec())
}

/// The same into a file, whatever its size; time is limited for each piece.
///
/// # Errors
/// When it can't be had or written.
pub(crate) async fn to_file(url: &str, path: &Path) -> Result<(), FetchError> {
    let written = |source| FetchError::Write { path: path.display().to_string(), source };
    let response = follow(url).await?;
    let mut file = tokio::fs::File::create(path).await.map_err(written)?;
    let mut pieces = std::pin::pin!(response.into_body().into_data_stream());
    loop {
        let piece = tokio::time::timeout(TIMEOUT, pieces.try_next()).await;
        let piece = piece.map_err(|_| FetchError::Timeout { host: url.to_owned() })?;
        match piece.map_err(|source| FetchError::Request { host: url.to_owned(), source })? {
            Some(piece) => file.write_all(&piece).await.map_err(written)?,
            None => return file.flush().await.map_err(written),
        }
    }
}

async fn follow(url: &str) -> Result<Response<Body>, FetchError> {
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        match tokio::time::timeout(TIMEOUT, one(&url)).await {
            Ok(Ok(Answer::Content(response))) => return Ok(response),
            Ok(Ok(Answer::Redirect(target))) => url = target,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(FetchError::Timeout { host: url }),
        }
    }
    Err(FetchError::Redirects)
}

enum Answer {
    Content(Response<Body>),
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
    Ok(Answer::Content(response))
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
    fn a_url_is_pinned_whole_or_not_at_all() {
        let hex = "AB".repeat(32);
        assert_eq!(pinned(&format!("https://a/b#sha256={hex}")), Some(("https://a/b", "ab".repeat(32))));
        for bad in ["https://a/b", "https://a/b#sha256=", "https://a/b#sha256=ab"] {
            assert_eq!(pinned(bad), None);
        }
    }

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
