//! A look at the engine's host, or into a container's network, by this very program: in a container
//! that reads, prints, and is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder};
use futures_util::TryStreamExt as _;
use hoist_phases::ports::{ContainerSpec, DeviceRule, Mount, MountKind, Network, Program, RuntimeError};

use super::Engine;
use super::archive::Owner;
use super::body::{Shared, create_body};
use super::trouble::{Refused, refused, status};

/// The volume that the program is in; made by the engine, so that its file system is the engine's.
pub const VOLUME: &str = "/opt/hoist";

const LOOK: &str = "look by a container of";

/// Marks containers that only look; no cluster's label, since no cluster has them.
const LABEL: (&str, &str) = ("dev.hoist.role", "look");

/// Bytes of the tmpfs that a command of an image may write to.
const SCRATCH: u64 = 16 << 20;

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
    /// Of it all; the container is removed then.
    pub deadline: Duration,
}

impl Engine {
    /// Runs the program and gives what it wrote to stdout and to stderr.
    ///
    /// # Errors
    /// When the engine refuses, or at the deadline.
    pub async fn look(&self, look: &Look<'_>) -> Result<(String, String), RuntimeError> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("hoist-look-{}-{unique}", std::process::id());
        let done = tokio::time::timeout(look.deadline, self.look_as(&name, look)).await;
        let late = || {
            let seconds = look.deadline.as_secs();
            refused(LOOK, look.image, Refused::Deadline { seconds, last: "it has not ended".to_owned() })
        };
        let result = done.unwrap_or_else(|_| Err(late()));
        // The engine removes one that has ended; what never started, or still runs, it doesn't.
        let removed = self.remove_container(&name).await;
        result.and_then(|printed| removed.map(|()| printed))
    }

    async fn look_as(&self, name: &str, look: &Look<'_>) -> Result<(String, String), RuntimeError> {
        let failed = |error| self.failed(LOOK, look.image, error);
        let network = match look.into {
            Where::Network(container) => Network::Container(container.to_owned()),
            Where::Host | Where::Image => Network::None,
        };
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

        let owner = Owner::default();
        let shared = match look.into {
            Where::Network(container) => {
                Shared { network: self.id_of(Some(container), name).await?, pid: None }
            }
            Where::Host | Where::Image => Shared::default(),
        };
        let mut body = create_body(&spec, owner, self.facts().await?, self.limits(&spec).await?, &shared);
        if let Some(host) = body.host_config.as_mut() {
            host.auto_remove = Some(true);
            if look.into == Where::Host {
                (host.network_mode, host.pid_mode) = (Some("host".to_owned()), Some("host".to_owned()));
            }
        }
        let body = ContainerCreateBody { attach_stdout: Some(true), attach_stderr: Some(true), ..body };
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        match self.docker.create_container(Some(options), body).await {
            Ok(_) => {}
            Err(error) if status(&error) == Some(404) => {
                return Err(RuntimeError::ImageMissing(look.image.to_owned()));
            }
            Err(error) => return Err(failed(error)),
        }
        let uploads = self.program_upload(&spec, owner).await?;
        self.send(name, name, uploads.into_iter().collect()).await?;
        // Before it starts: nothing is left to be read once it has ended.
        let options = AttachContainerOptionsBuilder::new().stdout(true).stderr(true).stream(true).build();
        let attached = self.docker.attach_container(name, Some(options)).await.map_err(failed)?;
        self.start_container(name).await?;
        let parts: Vec<LogOutput> = attached.output.try_collect().await.map_err(failed)?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for part in parts {
            let to = if matches!(part, LogOutput::StdErr { .. }) { &mut stderr } else { &mut stdout };
            to.extend_from_slice(part.as_ref());
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((text(stdout), text(stderr)))
    }
}
