//! A look at the engine's host, or into a container's network, by this very program: in a container
//! that reads, prints, and is gone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ContainerSummary};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder,
};
use hoist_phases::ports::{ContainerSpec, DeviceRule, Mount, MountKind, Network, Program, RuntimeError};
use tokio::time::{Instant, timeout_at};

use super::Engine;
use super::archive::Owner;
use super::body::{Shared, create_body};
use super::exec::collect;
use super::trouble::{Refused, refused};

/// The volume that the program is in; made by the engine, so that its file system is the engine's.
pub const VOLUME: &str = "/opt/hoist";

const LOOK: &str = "look by a container of";

/// Marks containers that only look; no cluster's label, since no cluster has them.
const LABEL: (&str, &str) = ("dev.hoist.role", "look");

/// Bytes of the tmpfs that a command of an image may write to.
const SCRATCH: u64 = 16 << 20;

/// Seconds after which no look can still be under way: far more than the longest deadline.
const STALE: i64 = 600;

/// Where a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where<'a> {
    /// The host's network and list of processes.
    Host,
    /// The network of a container, by name.
    Network(&'a str),
    /// Nowhere: what the image alone can tell.
    Image,
}

/// A program run for what it prints.
#[derive(Debug, Clone)]
pub struct Look<'a> {
    pub image: &'a str,
    /// Arguments of this very program, or, as [`Look::of_image`] says, a command of the image's.
    pub command: &'a [&'a str],
    pub of_image: bool,
    pub into: Where<'a>,
    pub capabilities: &'a [&'a str],
    pub devices: &'a [DeviceRule],
    /// Of it all but the removal, which follows.
    pub deadline: Duration,
}

impl Engine {
    /// Runs the program and gives what it wrote to stdout and to stderr.
    ///
    /// The container is removed whether or not the caller still waits: it may be in the host's own
    /// network and list of processes.
    ///
    /// # Errors
    /// When the engine refuses, or at the deadline.
    pub async fn look(&self, look: &Look<'_>) -> Result<(String, String), RuntimeError> {
        let (engine, spec, deadline) = (self.clone(), container(look), look.deadline);
        let on_host = look.into == Where::Host;
        let done = tokio::spawn(async move { engine.look_to_the_end(spec, on_host, deadline).await });
        done.await.unwrap_or_else(|error| {
            let object = look.image.to_owned();
            Err(RuntimeError::Failed { operation: LOOK, object, source: error.into() })
        })
    }

    async fn look_to_the_end(
        &self,
        spec: ContainerSpec,
        on_host: bool,
        deadline: Duration,
    ) -> Result<(String, String), RuntimeError> {
        let until = Instant::now() + deadline;
        let late = || {
            let last = "it has not ended".to_owned();
            refused(LOOK, &spec.image, Refused::Deadline { seconds: deadline.as_secs(), last })
        };
        let made = timeout_at(until, self.make_look(&spec, on_host)).await;
        let Ok(made) = made else {
            // The engine may go on with it. The name is of this run alone, so it can be nobody else's.
            self.remove_container(&spec.name).await?;
            return Err(late());
        };
        let id = made?;
        let (printed, _) =
            tokio::join!(timeout_at(until, self.run_look(&id, &spec)), timeout_at(until, self.sweep(&id)));
        // The engine removes one that has ended; what never started, or still runs, it doesn't.
        let removed = self.remove_container(&id).await;
        let printed = printed.unwrap_or_else(|_| Err(late()))?;
        removed.map(|()| printed)
    }

    /// Creates the container and gives its id.
    async fn make_look(&self, spec: &ContainerSpec, on_host: bool) -> Result<String, RuntimeError> {
        let network = match &spec.network {
            Network::Container(name) => self.id_of(Some(name), &spec.name).await?,
            Network::Own | Network::None => None,
        };
        let shared = Shared { network, pid: None };
        let (facts, limits) = (self.facts().await?, self.limits(spec).await?);
        let mut body = create_body(spec, Owner::default(), facts, limits, &shared);
        if let Some(host) = body.host_config.as_mut() {
            host.auto_remove = Some(true);
            if on_host {
                (host.network_mode, host.pid_mode) = (Some("host".to_owned()), Some("host".to_owned()));
            }
        }
        let body = ContainerCreateBody { attach_stdout: Some(true), attach_stderr: Some(true), ..body };
        let options = CreateContainerOptionsBuilder::new().name(&spec.name).build();
        let created = self.docker.create_container(Some(options), body).await;
        let failed = |error| self.not_created(LOOK, &spec.image, &spec.image, error);
        Ok(created.map_err(failed)?.id)
    }

    async fn run_look(&self, id: &str, spec: &ContainerSpec) -> Result<(String, String), RuntimeError> {
        let failed = |error| self.failed(LOOK, &spec.image, error);
        let uploads = self.program_upload(spec, Owner::default()).await?;
        self.send(id, &spec.name, uploads.into_iter().collect()).await?;
        // Before it starts: nothing is left to be read once it has ended.
        let options = AttachContainerOptionsBuilder::new().stdout(true).stderr(true).stream(true).build();
        let attached = self.docker.attach_container(id, Some(options)).await.map_err(failed)?;
        self.start_container(id).await?;
        let (stdout, stderr) = collect(attached.output).await.map_err(failed)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((text(stdout), text(stderr)))
    }

    /// Removes what a hoist that was killed has left. That it can't be is for the next look to mend.
    async fn sweep(&self, id: &str) {
        let label = format!("{}={}", LABEL.0, LABEL.1);
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let looks = match self.docker.list_containers(Some(options)).await {
            Ok(looks) => looks,
            Err(error) => {
                tracing::debug!(%error, "containers that look can't be listed");
                return;
            }
        };
        for id in stale(&looks, id) {
            if let Err(error) = self.remove_container(id).await {
                tracing::debug!(id, %error, "a look's container is left behind");
            }
        }
    }
}

/// Those that are far older than `own`: by the engine's clock, which may be another than this machine's.
fn stale<'a>(looks: &'a [ContainerSummary], own: &str) -> impl Iterator<Item = &'a str> {
    let made = looks.iter().find(|look| look.id.as_deref() == Some(own)).and_then(|look| look.created);
    let before = made.map(|made| made.saturating_sub(STALE));
    let old =
        move |look: &&ContainerSummary| look.created.zip(before).is_some_and(|(made, before)| made < before);
    looks.iter().filter(old).filter_map(|look| look.id.as_deref())
}

/// Named by the run, so that no two on one engine meet.
fn container(look: &Look<'_>) -> ContainerSpec {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    let network = match look.into {
        Where::Network(container) => Network::Container(container.to_owned()),
        Where::Host | Where::Image => Network::None,
    };
    let name = format!("hoist-look-{}-{unique}", crate::run::id());
    let mut spec = ContainerSpec::new(name, look.image, network);
    spec.user = Some("0:0".to_owned());
    spec.capabilities = look.capabilities.iter().map(|name| (*name).to_owned()).collect();
    spec.devices = look.devices.to_vec();
    let words = look.command.iter().map(|word| (*word).to_owned()).collect();
    if look.of_image {
        let kind = MountKind::Tmpfs { bytes: Some(SCRATCH), exec: false };
        spec.entrypoint = words;
        spec.mounts = vec![Mount { target: "/run".to_owned(), kind }];
    } else {
        let path = format!("{VOLUME}/hoist");
        spec.entrypoint = vec![path.clone()];
        spec.args = words;
        spec.mounts = vec![Mount { target: VOLUME.to_owned(), kind: MountKind::Anonymous }];
        spec.program = Some(Program { path, digest: String::new() });
    }
    spec.labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_that_are_long_over_are_removed() {
        let look = |id: &str, created| ContainerSummary {
            id: Some(id.to_owned()),
            created,
            ..ContainerSummary::default()
        };
        let looks = [
            look("own", Some(10_000)),
            look("beside", Some(9_999)),
            look("edge", Some(10_000 - STALE)),
            look("left", Some(10_000 - STALE - 1)),
            look("unknown", None),
        ];
        assert_eq!(stale(&looks, "own").collect::<Vec<_>>(), ["left"]);
        assert_eq!(stale(&looks[1..], "own").count(), 0, "without a clock none is old");
    }
}
