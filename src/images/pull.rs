//! Pulls of upstream images, with little patience for registries that do not answer: on a machine without
//! one, nobody wants to learn that ten times.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;

use super::engine;

/// Once data flows, a stall of this length is the end of it.
const STALL: Duration = Duration::from_secs(60);

/// What came of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pulled,
    /// Why there is no image, for a progress line.
    Unavailable(String),
}

/// Remembers which registries can't be reached.
#[derive(Debug)]
pub(crate) struct Registries {
    /// How long a registry may take to answer at all; none means that pulls are off.
    timeout: Option<Duration>,
    unreachable: Mutex<BTreeMap<String, String>>,
}

impl Registries {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, unreachable: Mutex::default() }
    }

    /// Pulls an image. A failure is an outcome and no error: there is always another source.
    pub(crate) async fn pull(&self, docker: &Docker, reference: &str) -> Outcome {
        let Some(timeout) = self.timeout else {
            return Outcome::Unavailable("pulls are turned off".to_owned());
        };
        let registry = reference.split('/').next().unwrap_or_default();
        if let Some(reason) = self.known(registry) {
            return Outcome::Unavailable(reason);
        }
        match pull(docker, reference, timeout).await {
            Ok(()) => Outcome::Pulled,
            Err(failure) => {
                if failure.registry {
                    let reason = format!("{registry} can't be reached: {}", failure.reason);
                    if let Ok(mut unreachable) = self.unreachable.lock() {
                        unreachable.insert(registry.to_owned(), reason.clone());
                    }
                    return Outcome::Unavailable(reason);
                }
                Outcome::Unavailable(failure.reason)
            }
        }
    }

    fn known(&self, registry: &str) -> Option<String> {
        self.unreachable.lock().ok()?.get(registry).cloned()
    }
}

struct Failure {
    /// The registry is the reason, not the image.
    registry: bool,
    reason: String,
}

async fn pull(docker: &Docker, reference: &str, timeout: Duration) -> Result<(), Failure> {
    let (repository, tag) = engine::split(reference);
    let options = CreateImageOptionsBuilder::new().from_image(repository).tag(tag).build();
    let mut answers = std::pin::pin!(docker.create_image(Some(options), None, None));
    let mut patience = timeout;
    loop {
        match tokio::time::timeout(patience, answers.next()).await {
            Err(_) => {
                let reason = format!("no answer in {} s", patience.as_secs());
                return Err(Failure { registry: true, reason });
            }
            Ok(None) => return Ok(()),
            Ok(Some(Ok(_))) => patience = STALL,
            Ok(Some(Err(error))) => return Err(judge(&error)),
        }
    }
}

fn judge(error: &EngineError) -> Failure {
    match error {
        // The engine's word for an image that is not there, or not for everyone.
        EngineError::DockerResponseServerError { status_code: 403 | 404, message } => {
            Failure { registry: false, reason: message.clone() }
        }
        EngineError::DockerResponseServerError { message, .. } => {
            Failure { registry: true, reason: message.clone() }
        }
        other => Failure { registry: true, reason: other.to_string() },
    }
}
