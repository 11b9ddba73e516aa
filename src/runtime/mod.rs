//! The container engine: [`Engine`] implements [`hoist_phases::ports::Runtime`] over the Docker
//! API, which Podman's service answers too.
//!
//! It makes, observes and removes single containers and volumes as it is told. What a cluster
//! consists of, and whether a container still is as it should be, is decided by the phases.

mod archive;
mod body;
pub mod connect;
mod create;
mod exec;
mod info;
mod interactive;
mod lifecycle;
mod limits;
mod logs;
mod look;
mod program;
mod state;
mod stats;
mod transfer;
mod trouble;
mod volumes;

use std::sync::Arc;

use async_trait::async_trait;
use bollard::Docker;
use hoist_phases::ports::{ContainerSpec, ContainerState, EngineInfo, ExecOutput, Runtime, RuntimeError};
use tokio::sync::{OnceCell, RwLock};

pub use connect::{ConnectError, Endpoint};
pub use info::About;
pub use logs::{LogLine, Stream};
pub use look::{Look, VOLUME, Where};
pub use stats::Stats;

use info::Facts;
use limits::Limits;

/// A container engine that has answered.
#[derive(Debug, Clone)]
pub struct Engine {
    docker: Docker,
    endpoint: Endpoint,
    /// What the engine's host can do: asked for once, by the first call that needs it.
    facts: Arc<OnceCell<Facts>>,
    /// What it gives other than it is asked for: found out by the first creation.
    limits: Arc<OnceCell<Limits>>,
    /// Held, for reading, by each creation under way.
    creations: Arc<RwLock<()>>,
    /// Digest of the program that runs now.
    program: Arc<OnceCell<String>>,
}

impl Engine {
    fn new(docker: Docker, endpoint: Endpoint) -> Self {
        Self {
            docker,
            endpoint,
            facts: Arc::default(),
            limits: Arc::default(),
            creations: Arc::default(),
            program: Arc::default(),
        }
    }

    /// The client underneath, for what isn't about containers: building, loading and pulling images.
    pub fn docker(&self) -> &Docker {
        &self.docker
    }

    /// To be held, for reading, by a creation that goes past this type: the engine goes on with one
    /// whose caller has been interrupted, so removing waits for all of them. Stops hold it as well.
    pub(crate) fn creations(&self) -> &Arc<RwLock<()>> {
        &self.creations
    }

    /// Where the engine answers.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

#[async_trait]
impl Runtime for Engine {
    async fn info(&self) -> Result<EngineInfo, RuntimeError> {
        self.engine_info().await
    }

    async fn missing_images(&self, references: &[String]) -> Result<Vec<String>, RuntimeError> {
        self.images_missing(references).await
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<String, RuntimeError> {
        self.create_to_the_end(spec).await
    }

    async fn program_digest(&self) -> Result<String, RuntimeError> {
        self.digest_of_program().await
    }

    async fn start(&self, name: &str) -> Result<(), RuntimeError> {
        self.start_container(name).await
    }

    async fn stop(&self, name: &str, grace_secs: u32) -> Result<(), RuntimeError> {
        self.stop_to_the_end(name, grace_secs).await
    }

    async fn pause(&self, name: &str) -> Result<(), RuntimeError> {
        self.pause_container(name).await
    }

    async fn unpause(&self, name: &str) -> Result<(), RuntimeError> {
        self.unpause_container(name).await
    }

    async fn wait(&self, name: &str) -> Result<i64, RuntimeError> {
        self.wait_container(name).await
    }

    async fn inspect(&self, name: &str) -> Result<Option<ContainerState>, RuntimeError> {
        self.inspect_container(name).await
    }

    async fn list(&self, cluster: Option<&str>) -> Result<Vec<ContainerState>, RuntimeError> {
        drop(self.creations.write().await);
        self.list_containers(cluster).await
    }

    async fn logs(&self, name: &str, tail: u32) -> Result<String, RuntimeError> {
        self.last_logs(name, tail).await
    }

    async fn exec(&self, name: &str, command: &[&str], stdin: &[u8]) -> Result<ExecOutput, RuntimeError> {
        self.run_in(name, command, stdin).await
    }

    async fn feed_image(
        &self,
        name: &str,
        command: &[&str],
        image: &str,
    ) -> Result<ExecOutput, RuntimeError> {
        self.feed_archive(name, command, image).await
    }

    async fn remove(&self, name: &str) -> Result<(), RuntimeError> {
        self.remove_container(name).await
    }

    async fn volumes(&self, cluster: &str) -> Result<Vec<String>, RuntimeError> {
        self.volumes_of(cluster).await
    }

    async fn remove_volume(&self, name: &str) -> Result<(), RuntimeError> {
        self.volume_removed(name).await
    }
}
