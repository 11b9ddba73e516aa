//! Start, stop, wait, remove.

use std::time::Duration;

use bollard::errors::Error;
use bollard::query_parameters::{RemoveContainerOptionsBuilder, StopContainerOptionsBuilder};
use futures_util::StreamExt;
use hoist_phases::ports::{RuntimeError, Status};
use tokio::time::Instant;

use super::Engine;
use super::trouble::{Refused, refused, status};

/// How long a removal that somebody else began, or that can't begin yet, may take.
const REMOVAL: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

impl Engine {
    /// The engine answers "not modified" for one that runs, which the client takes for success.
    pub(super) async fn start_container(&self, name: &str) -> Result<(), RuntimeError> {
        let started = self.docker.start_container(name, None).await;
        started.map_err(|e| self.failed("start container", name, e))
    }

    pub(super) async fn stop_container(&self, name: &str, grace_secs: u32) -> Result<(), RuntimeError> {
        let grace = i32::try_from(grace_secs).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::new().t(grace).build();
        match self.docker.stop_container(name, Some(options)).await {
            Err(error) if status(&error) == Some(404) => Ok(()),
            stopped => stopped.map_err(|e| self.failed("stop container", name, e)),
        }
    }

    pub(super) async fn pause_container(&self, name: &str) -> Result<(), RuntimeError> {
        let result = self.docker.pause_container(name).await;
        self.unless(name, "pause container", result, |status| *status == Status::Paused).await
    }

    pub(super) async fn unpause_container(&self, name: &str) -> Result<(), RuntimeError> {
        let result = self.docker.unpause_container(name).await;
        self.unless(name, "unpause container", result, |status| *status == Status::Running).await
    }

    /// Engines refuse what is done already, each by a code and in words of its own: the state tells.
    async fn unless(
        &self,
        name: &str,
        operation: &'static str,
        result: Result<(), Error>,
        done: impl Fn(&Status) -> bool,
    ) -> Result<(), RuntimeError> {
        let Err(error) = result else { return Ok(()) };
        match self.inspect_container(name).await? {
            Some(state) if done(&state.status) => Ok(()),
            _ => Err(self.failed(operation, name, error)),
        }
    }

    pub(super) async fn wait_container(&self, name: &str) -> Result<i64, RuntimeError> {
        let mut answers = std::pin::pin!(self.docker.wait_container(name, None));
        match answers.next().await {
            Some(Ok(ended)) => Ok(ended.status_code),
            // The client's name for any exit code but 0.
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(error)) => Err(self.failed("wait for container", name, error)),
            None => Err(refused("wait for container", name, Refused::NoAnswer)),
        }
    }

    pub(super) async fn remove_container(&self, name: &str) -> Result<(), RuntimeError> {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        let deadline = Instant::now() + REMOVAL;
        loop {
            match self.docker.remove_container(name, Some(options.clone())).await {
                Ok(()) => return Ok(()),
                Err(error) if status(&error) == Some(404) => return Ok(()),
                Err(error) if status(&error) == Some(409) && says(&error, "already in progress") => {
                    return self.wait_until_gone(name).await;
                }
                // Podman, between the end of a process and the end of cleaning up after it.
                Err(error) if says(&error, "container state improper") && Instant::now() < deadline => {
                    tokio::time::sleep(POLL).await;
                }
                Err(error) => return Err(self.failed("remove container", name, error)),
            }
        }
    }

    async fn wait_until_gone(&self, name: &str) -> Result<(), RuntimeError> {
        let deadline = Instant::now() + REMOVAL;
        while let Some(state) = self.inspect_container(name).await? {
            if Instant::now() >= deadline {
                let last = format!("{:?}", state.status);
                let why = Refused::Deadline { seconds: REMOVAL.as_secs(), last };
                return Err(refused("remove container", name, why));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

fn says(error: &Error, words: &str) -> bool {
    error.to_string().contains(words)
}
