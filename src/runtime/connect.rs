//! Finding the engine: the places Docker's own client looks at, then the usual sockets of Docker
//! and Podman. The API version is negotiated here, once.
//!
//! Only Unix sockets and plain TCP are spoken; TLS and SSH endpoints are refused with the way
//! around them.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use serde::Deserialize;

use super::Engine;
use super::trouble::{innermost, io_kind};
use crate::digest;

/// Endpoint of the engine: `unix://`, `tcp://` or `http://`; wins over everything else.
pub const DOCKER_HOST: &str = "DOCKER_HOST";
/// Name of the docker context to use.
pub const DOCKER_CONTEXT: &str = "DOCKER_CONTEXT";
/// Directory of the docker client's configuration, `~/.docker` by default.
pub const DOCKER_CONFIG: &str = "DOCKER_CONFIG";
/// Not empty: the engine at a `tcp://` endpoint wants TLS, which hoist refuses.
pub const DOCKER_TLS_VERIFY: &str = "DOCKER_TLS_VERIFY";
/// Directory of the user's own sockets (XDG Base Directory Specification).
pub const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// The user's home directory.
pub const HOME: &str = "HOME";

/// How long an engine may take to say who it is; a busy host has been seen to need more than ten
/// seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How long a single request may take until its answer begins: loading an image of a gigabyte on a
/// slow disk is one request. What may take longer (waiting, following logs) answers at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// The variables that decide where to look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub docker_host: Option<String>,
    pub docker_context: Option<String>,
    pub docker_config: Option<PathBuf>,
    pub docker_tls_verify: bool,
    pub runtime_dir: Option<PathBuf>,
    pub home: Option<PathBuf>,
}

impl Environment {
    /// Reads this process's variables; empty ones count as absent.
    pub fn of_process() -> Self {
        let get = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            docker_host: get(DOCKER_HOST),
            docker_context: get(DOCKER_CONTEXT),
            docker_config: get(DOCKER_CONFIG).map(PathBuf::from),
            docker_tls_verify: get(DOCKER_TLS_VERIFY).is_some(),
            runtime_dir: get(XDG_RUNTIME_DIR).map(PathBuf::from),
            home: get(HOME).map(PathBuf::from),
        }
    }
}

/// Where an engine may answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Unix(PathBuf),
    /// `HOST:PORT` without encryption.
    Tcp(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// An endpoint that was tried, and what came of it.
#[derive(Debug)]
pub struct Attempt {
    pub endpoint: Endpoint,
    pub error: AttemptError,
}

#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    #[error("no such socket")]
    Missing,
    #[error("permission denied")]
    Denied,
    #[error("no answer within {} s", ANSWER_WITHIN.as_secs())]
    Silent,
    /// The innermost cause.
    #[error("{0}")]
    Failed(String),
}

impl From<bollard::errors::Error> for AttemptError {
    fn from(error: bollard::errors::Error) -> Self {
        match io_kind(&error) {
            Some(ErrorKind::PermissionDenied) => Self::Denied,
            Some(ErrorKind::NotFound) => Self::Missing,
            _ => Self::Failed(innermost(&error).to_string()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no container engine answers; tried {}", list(.tried))]
    Unreachable { tried: Vec<Attempt> },
    #[error("no permission to use the container engine at {endpoint}; tried {}", list(.tried))]
    Denied { endpoint: Endpoint, tried: Vec<Attempt> },
    #[error("container engine at {endpoint}: {scheme} is not supported")]
    Scheme { endpoint: String, scheme: String },
    #[error("container engine at {endpoint}: not an address of the form {expected}")]
    Address { endpoint: String, expected: &'static str },
    #[error("container engine at {endpoint}: TLS is not supported")]
    Tls { endpoint: String },
    #[error("docker context {name:?}: can't read {}", .path.display())]
    Context {
        name: String,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("docker context {name:?}: can't understand {}", .path.display())]
    ContextContent {
        name: String,
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("docker context {0:?}: has no endpoint of a docker engine")]
    ContextEndpoint(String),
}

impl ConnectError {
    /// What the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreachable { .. } => {
                format!("start Docker or Podman's service, or point {DOCKER_HOST} at an engine")
            }
            Self::Denied { endpoint, .. } => format!(
                "run as a user who may use {endpoint}: root, a member of the socket's group (often `docker`), or point {DOCKER_HOST} at an engine of your own"
            ),
            Self::Scheme { scheme, .. } if scheme == "ssh" => format!(
                "forward the socket: `ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST`, then {DOCKER_HOST}=unix:///tmp/engine.sock"
            ),
            Self::Scheme { .. } | Self::Address { .. } => {
                format!("{DOCKER_HOST} must be unix:///PATH, tcp://HOST:PORT or http://HOST:PORT")
            }
            Self::Tls { .. } => format!(
                "forward the engine's socket over SSH and set {DOCKER_HOST}=unix:///PATH, with {DOCKER_TLS_VERIFY} unset"
            ),
            Self::Context { .. } | Self::ContextContent { .. } | Self::ContextEndpoint(_) => {
                format!("choose another with `docker context use`, or set {DOCKER_HOST}")
            }
        }
    }
}

fn list(tried: &[Attempt]) -> String {
    let each = tried.iter().map(|attempt| format!("{} ({})", attempt.endpoint, attempt.error));
    each.collect::<Vec<_>>().join(", ")
}

#[derive(Deserialize)]
struct ClientConfig {
    #[serde(rename = "currentContext")]
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct ContextMeta {
    #[serde(rename = "Endpoints", default)]
    endpoints: std::collections::BTreeMap<String, ContextEndpoint>,
}

#[derive(Deserialize)]
struct ContextEndpoint {
    #[serde(rename = "Host", default)]
    host: String,
}

/// Where to look, in order: one place when the user named one, else all the usual ones.
///
/// The order is Docker's: `DOCKER_HOST`, `DOCKER_CONTEXT`, the context chosen with
/// `docker context use`.
///
/// # Errors
/// When the place named can't be used at all.
pub fn endpoints(environment: &Environment) -> Result<Vec<Endpoint>, ConnectError> {
    if let Some(host) = &environment.docker_host {
        return Ok(vec![parse(host, environment.docker_tls_verify)?]);
    }
    let directory = environment
        .docker_config
        .clone()
        .or_else(|| environment.home.as_ref().map(|home| home.join(".docker")))
        .unwrap_or_default();
    let chosen = environment.docker_context.clone().or_else(|| current_context(&directory));
    match chosen {
        Some(name) if name != "default" => Ok(vec![context(&directory, &name)?]),
        _ => Ok(usual(environment.runtime_dir.as_deref())),
    }
}

fn usual(runtime_dir: Option<&Path>) -> Vec<Endpoint> {
    let mut paths = vec![PathBuf::from("/var/run/docker.sock"), PathBuf::from("/run/docker.sock")];
    if let Some(directory) = runtime_dir {
        paths.push(directory.join("docker.sock"));
        paths.push(directory.join("podman/podman.sock"));
    }
    paths.push(PathBuf::from("/run/podman/podman.sock"));
    paths.into_iter().map(Endpoint::Unix).collect()
}

/// A client configuration that can't be read is as good as none: it is Docker's, not hoist's.
fn current_context(directory: &Path) -> Option<String> {
    let text = std::fs::read(directory.join("config.json")).ok()?;
    serde_json::from_slice::<ClientConfig>(&text).ok()?.current_context.filter(|name| !name.is_empty())
}

/// Contexts are kept in a directory named after the SHA-256 of the context's name.
fn context(directory: &Path, name: &str) -> Result<Endpoint, ConnectError> {
    let id = digest::of_bytes(name.as_bytes());
    let path = directory.join("contexts/meta").join(&id).join("meta.json");
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(source) => return Err(ConnectError::Context { name: name.to_owned(), path, source }),
    };
    let meta: ContextMeta = match serde_json::from_slice(&text) {
        Ok(meta) => meta,
        Err(source) => return Err(ConnectError::ContextContent { name: name.to_owned(), path, source }),
    };
    let host = meta.endpoints.get("docker").map(|endpoint| endpoint.host.as_str()).filter(|h| !h.is_empty());
    let host = host.ok_or_else(|| ConnectError::ContextEndpoint(name.to_owned()))?;
    parse(host, directory.join("contexts/tls").join(&id).join("docker").exists())
}

fn parse(host: &str, tls: bool) -> Result<Endpoint, ConnectError> {
    let endpoint = host.to_owned();
    let Some((scheme, rest)) = host.split_once("://") else {
        return Err(ConnectError::Address { endpoint, expected: "SCHEME://ADDRESS" });
    };
    match scheme {
        "unix" if rest.starts_with('/') => Ok(Endpoint::Unix(PathBuf::from(rest))),
        "unix" => Err(ConnectError::Address { endpoint, expected: "unix:///PATH" }),
        "https" => Err(ConnectError::Tls { endpoint }),
        "tcp" | "http" if tls => Err(ConnectError::Tls { endpoint }),
        "tcp" | "http" => {
            let address = rest.trim_end_matches('/');
            let port = address.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
            match port {
                Some((host, Ok(_))) if !host.is_empty() && !address.contains('/') => {
                    Ok(Endpoint::Tcp(address.to_owned()))
                }
                _ => Err(ConnectError::Address { endpoint, expected: "tcp://HOST:PORT" }),
            }
        }
        _ => Err(ConnectError::Scheme { endpoint, scheme: scheme.to_owned() }),
    }
}

impl Engine {
    /// Finds an engine by this process's environment and agrees on an API version with it.
    ///
    /// # Errors
    /// When none answers, or the one that was named can't be used.
    pub async fn connect() -> Result<Self, ConnectError> {
        Self::connect_any(endpoints(&Environment::of_process())?).await
    }

    /// The first of these endpoints that answers.
    ///
    /// # Errors
    /// [`ConnectError::Denied`] when one refused for want of permission, else
    /// [`ConnectError::Unreachable`]; both name all that were tried.
    pub async fn connect_any(candidates: Vec<Endpoint>) -> Result<Self, ConnectError> {
        let mut tried = Vec::new();
        for endpoint in candidates {
            match attempt(&endpoint).await {
                Ok(docker) => return Ok(Self::new(docker, endpoint)),
                Err(error) => {
                    tracing::debug!(%endpoint, %error, "no engine here");
                    tried.push(Attempt { endpoint, error });
                }
            }
        }
        let denied = tried.iter().find(|attempt| matches!(attempt.error, AttemptError::Denied));
        match denied.map(|attempt| attempt.endpoint.clone()) {
            Some(endpoint) => Err(ConnectError::Denied { endpoint, tried }),
            None => Err(ConnectError::Unreachable { tried }),
        }
    }
}

async fn attempt(endpoint: &Endpoint) -> Result<Docker, AttemptError> {
    let seconds = REQUEST_TIMEOUT.as_secs();
    let client = match endpoint {
        Endpoint::Unix(path) => {
            // The client would say "not found" for a directory that may not be entered, too.
            match std::fs::metadata(path) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(AttemptError::Denied);
                }
                Err(_) => return Err(AttemptError::Missing),
                Ok(_) => Docker::connect_with_unix(&path.to_string_lossy(), seconds, API_DEFAULT_VERSION),
            }
        }
        Endpoint::Tcp(address) => {
            Docker::connect_with_http(&format!("tcp://{address}"), seconds, API_DEFAULT_VERSION)
        }
    };
    let negotiation = tokio::time::timeout(ANSWER_WITHIN, client?.negotiate_version());
    Ok(negotiation.await.map_err(|_| AttemptError::Silent)??)
}
