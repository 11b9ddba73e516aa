//! From the client's errors to the port's.

use std::error::Error as StdError;
use std::io::ErrorKind;

use bollard::errors::Error;
use hoist_phases::ports::RuntimeError;

use super::Engine;
use crate::error::chain;

/// What was asked for can't be done, in hoist's own words.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("file {0}: the path must be absolute, without `.` and `..`")]
    Path(String),
    #[error("file {0}: the root file system is read-only and no volume is mounted above it")]
    NoMount(String),
    #[error("file {path}: {mount} is a tmpfs, which is empty until the container starts")]
    Tmpfs { path: String, mount: String },
    #[error("user {0:?}: must be UID:GID in digits")]
    User(String),
    #[error("volume {0}: exists and doesn't belong to this cluster")]
    ForeignVolume(String),
    #[error("container {0}: no such container")]
    NoContainer(String),
    #[error("it is no regular file")]
    NoFile,
    #[error("the engine ended the answer early")]
    NoAnswer,
    #[error("it is larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
    #[error(
        "the engine has no figures of it: it can't read the container's control groups, or it doesn't run"
    )]
    NoFigures,
    #[error("still there after {seconds} s: {last}")]
    Deadline { seconds: u64, last: String },
}

impl Engine {
    /// `operation` on `object` failed. A connection that broke or was refused is the engine's
    /// trouble, not the object's.
    pub(super) fn failed(&self, operation: &'static str, object: &str, error: Error) -> RuntimeError {
        match io_kind(&error) {
            Some(ErrorKind::PermissionDenied) => {
                RuntimeError::Denied { endpoint: self.endpoint.to_string(), source: error.into() }
            }
            Some(
                ErrorKind::NotFound
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe,
            ) => RuntimeError::Unreachable { endpoint: self.endpoint.to_string(), source: error.into() },
            _ => RuntimeError::Failed { operation, object: object.to_owned(), source: error.into() },
        }
    }
}

pub(super) fn refused(operation: &'static str, object: &str, why: Refused) -> RuntimeError {
    RuntimeError::Failed { operation, object: object.to_owned(), source: why.into() }
}

/// The HTTP status with which the engine refused, if it answered at all.
pub(super) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// The cause behind all others.
pub(super) fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    chain(error).last().unwrap_or(error)
}

/// The kind of the first I/O error in the chain of causes.
pub(super) fn io_kind(error: &Error) -> Option<ErrorKind> {
    if let Error::IOError { err } = error {
        // The client passes its source on as its own, so the chain leaves this one out.
        return Some(err.kind());
    }
    chain(error).find_map(|error| error.downcast_ref::<std::io::Error>()).map(std::io::Error::kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Endpoint;

    /// Root may open any socket, so this can't be had from a real one in every test run.
    #[tokio::test]
    async fn what_the_connection_suffers_is_no_failure_of_the_object() -> Result<(), Error> {
        let docker =
            bollard::Docker::connect_with_http("tcp://127.0.0.1:1", 1, bollard::API_DEFAULT_VERSION)?;
        let engine = Engine::new(docker, Endpoint::Tcp("127.0.0.1:1".to_owned()));
        let map = |kind: ErrorKind| engine.failed("start", "a", Error::IOError { err: kind.into() });
        assert!(matches!(map(ErrorKind::PermissionDenied), RuntimeError::Denied { .. }));
        assert!(matches!(map(ErrorKind::ConnectionRefused), RuntimeError::Unreachable { .. }));
        assert!(matches!(map(ErrorKind::InvalidData), RuntimeError::Failed { operation: "start", .. }));

        let real = engine.inspect_container("a").await;
        assert!(matches!(real, Err(RuntimeError::Unreachable { .. })), "{real:?}");
        Ok(())
    }
}
