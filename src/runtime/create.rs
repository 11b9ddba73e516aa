//! Making a container with all that belongs to it. What fails half-way is taken back.

use std::sync::Arc;

use bollard::errors::Error;
use bollard::query_parameters::CreateContainerOptionsBuilder;
use hoist_phases::ports::{ContainerSpec, MountKind, Network, RuntimeError};

use super::Engine;
use super::archive::{Owner, is_below};
use super::body::{Shared, create_body};
use super::transfer::Place;
use super::trouble::{Refused, refused, status};

const CREATE: &str = "create container";
const STOP: &str = "stop container";

impl Engine {
    /// An engine goes on with a creation whose caller has gone away: a run that is interrupted
    /// would look for what it has made before it is there. So the creation goes on here as well,
    /// and listing waits for it.
    pub(super) async fn create_to_the_end(&self, spec: &ContainerSpec) -> Result<String, RuntimeError> {
        let (engine, spec, name) = (self.clone(), spec.clone(), spec.name.clone());
        self.to_the_end(CREATE, name, async move { engine.create_container(&spec).await }).await
    }

    /// The same for a stop: the next run would take a container for one that runs which is about to end.
    pub(super) async fn stop_to_the_end(&self, name: &str, grace_secs: u32) -> Result<(), RuntimeError> {
        let (engine, container) = (self.clone(), name.to_owned());
        let stop = async move { engine.stop_container(&container, grace_secs).await };
        self.to_the_end(STOP, name.to_owned(), stop).await
    }

    async fn to_the_end<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: String,
        change: impl Future<Output = Result<T, RuntimeError>> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let under_way = Arc::clone(&self.creations).read_owned().await;
        let change = tokio::spawn(async move {
            let changed = change.await;
            drop(under_way);
            changed
        });
        change
            .await
            .unwrap_or_else(|error| Err(RuntimeError::Failed { operation, object, source: error.into() }))
    }

    async fn create_container(&self, spec: &ContainerSpec) -> Result<String, RuntimeError> {
        let owner = Owner::of(spec.user.as_deref()).map_err(|why| refused(CREATE, &spec.name, why))?;
        // Before anything is made: files that have no place.
        let mut uploads = self.uploads(&Place::of(spec), &spec.files, owner)?;
        uploads.extend(self.program_upload(spec, owner).await?);

        let network = match &spec.network {
            Network::Container(name) => Some(name.as_str()),
            Network::Own | Network::None => None,
        };
        let (facts, limits, shared_network, shared_pid, fresh) = tokio::try_join!(
            self.facts(),
            self.limits(spec),
            self.id_of(network, &spec.name),
            self.id_of(spec.pid_of.as_deref(), &spec.name),
            self.make_volumes(spec, owner),
        )?;
        let shared = Shared { network: shared_network, pid: shared_pid };
        let body = create_body(spec, owner, facts, limits, &shared);
        let options = CreateContainerOptionsBuilder::new().name(&spec.name).build();
        let created = self.docker.create_container(Some(options), body).await;
        let id = created.map_err(|error| self.not_created(CREATE, &spec.name, &spec.image, error))?.id;

        let filled = async {
            self.give_mounts_to(spec, &id, owner, &fresh).await?;
            self.send(&id, &spec.name, uploads).await
        };
        if let Err(error) = filled.await {
            if let Err(left) = self.remove_container(&id).await {
                tracing::warn!(container = spec.name, error = %left, "half-made container is left behind");
            }
            return Err(error);
        }
        tracing::debug!(container = spec.name, id, "created");
        Ok(id)
    }

    /// Why a creation failed. What isn't there is the image, or a container whose namespace is shared.
    pub(super) fn not_created(
        &self,
        operation: &'static str,
        object: &str,
        image: &str,
        error: Error,
    ) -> RuntimeError {
        if status(&error) == Some(404) && error.to_string().contains("mage") {
            return RuntimeError::ImageMissing(image.to_owned());
        }
        self.failed(operation, object, error)
    }

    pub(super) async fn id_of(
        &self,
        name: Option<&str>,
        sharer: &str,
    ) -> Result<Option<String>, RuntimeError> {
        let Some(name) = name else { return Ok(None) };
        match self.inspect_container(name).await? {
            Some(state) => Ok(Some(state.id)),
            None => Err(refused(CREATE, sharer, Refused::NoContainer(name.to_owned()))),
        }
    }

    /// The engine mounts new volumes as root's. Those a process of another user is to write to
    /// are handed over: the ones just made, and anonymous ones that aren't there for files alone.
    ///
    /// The mount point itself can't be changed through an archive that lands in it, only through
    /// its parent, which a read-only root forbids. So a second container, never started, mounts the
    /// same volumes at the same places without being read-only.
    async fn give_mounts_to(
        &self,
        spec: &ContainerSpec,
        id: &str,
        owner: Owner,
        fresh: &[String],
    ) -> Result<(), RuntimeError> {
        if owner.is_root() {
            return Ok(());
        }
        let wanted = |mount: &&hoist_phases::ports::Mount| match &mount.kind {
            MountKind::Volume(name) => fresh.contains(name),
            MountKind::Anonymous => !spec.files.iter().any(|file| is_below(&mount.target, &file.path)),
            // Its owner is an option of the mount.
            MountKind::TmpfsVolume { .. } | MountKind::Tmpfs { .. } => false,
        };
        let targets: Vec<&str> = spec.mounts.iter().filter(wanted).map(|m| m.target.as_str()).collect();
        if targets.is_empty() {
            return Ok(());
        }
        self.own_through_helper(spec, id, owner, &targets).await
    }
}
