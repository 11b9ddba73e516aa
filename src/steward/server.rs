//! Health and metrics over HTTP on loopback of the shared namespace, and the question for them.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hoist_phases::phases::steward::PORT;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use super::health::Health;

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);

/// For a request line and headers: whoever is slower holds a connection for nothing.
const HEADERS: Duration = Duration::from_secs(5);

/// For a question and its answer.
const ANSWER: Duration = Duration::from_secs(5);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("listen at {ADDRESS}")]
    Listen(#[source] std::io::Error),
    #[error("the steward doesn't answer at {ADDRESS}")]
    Connect(#[source] std::io::Error),
    #[error("the steward doesn't answer at {ADDRESS}")]
    Http(#[from] hyper::Error),
    #[error("the steward doesn't answer at {ADDRESS} within {} s", ANSWER.as_secs())]
    Silent,
    #[error("a request can't be made")]
    Request(#[from] http::Error),
}

/// Serves until the process ends.
pub(super) async fn serve(health: Arc<Health>) -> Result<Infallible, ServerError> {
    let listener = TcpListener::bind(ADDRESS).await.map_err(ServerError::Listen)?;
    loop {
        // Out of descriptors for example: the next connection may do better.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let health = Arc::clone(&health);
        tokio::spawn(async move {
            let answer = |request: Request<hyper::body::Incoming>| {
                let answer = answer(&health, request.uri().path());
                async move { answer }
            };
            let mut server = hyper::server::conn::http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADERS).keep_alive(false);
            // Whoever hangs up early isn't interested.
            let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

fn answer(health: &Health, path: &str) -> Result<Response<Full<Bytes>>, http::Error> {
    let (code, kind, body) = match path {
        "/healthz" => {
            let (seen, report) = health.report();
            let code = if seen { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (code, "text/plain; charset=utf-8", report)
        }
        "/metrics" => (StatusCode::OK, OPEN_METRICS, health.metrics()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "see /healthz and /metrics\n".to_owned()),
    };
    Response::builder().status(code).header(http::header::CONTENT_TYPE, kind).body(Full::new(body.into()))
}

/// Asks the steward of this namespace how it is: whether it has seen the cluster, and what it
/// can't do, one a line.
///
/// # Errors
/// When it doesn't answer.
pub async fn ask() -> Result<(bool, String), ServerError> {
    let exchange = async {
        let stream = TcpStream::connect(ADDRESS).await.map_err(ServerError::Connect)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder().uri("/healthz").header(http::header::HOST, ADDRESS.to_string());
        let response = sender.send_request(request.body(Empty::new())?).await?;
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((code == StatusCode::OK, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(ANSWER, exchange).await.unwrap_or(Err(ServerError::Silent))
}
