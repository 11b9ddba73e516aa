use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::spec::Protocol;

/// Labels that everything hoist makes in an engine carries; they are the truth about a cluster.
pub mod label {
    /// Name of the cluster.
    pub const CLUSTER: &str = "dev.hoist.cluster";
    /// Component name, or `node`.
    pub const ROLE: &str = "dev.hoist.role";
    /// Node name, on the containers and volumes of nodes.
    pub const NODE: &str = "dev.hoist.node";
    /// What a node runs on ([`crate::spec::NodeKind::name`]).
    pub const KIND: &str = "dev.hoist.kind";
    /// Content hash of the [`super::ContainerSpec`] a container was made from.
    pub const HASH: &str = "dev.hoist.hash";
}

/// What the engine and its host can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineInfo {
    pub product: String,
    pub version: String,
    pub api_version: String,
    /// Processors of the engine's host.
    pub cpus: u32,
    /// Memory of the engine's host in bytes.
    pub memory_bytes: u64,
    /// The engine's networks, for overlap checks.
    pub networks: Vec<(String, IpNet)>,
}

/// Which network namespace a container lives in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// One of its own on the engine's default network.
    Own,
    /// That of another container, by name.
    Container(String),
    /// One of its own with nothing but loopback.
    None,
}

/// What a mount is backed by. There is no host path on purpose: the engine may be remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountKind {
    /// A named volume, made on first use, kept until the cluster goes.
    Volume(String),
    /// A named volume whose backing is a tmpfs of so many bytes.
    TmpfsVolume { name: String, bytes: u64 },
    /// A volume without a name that is removed with the container.
    Anonymous,
    /// A tmpfs of this container alone. `exec` allows running programs from it.
    Tmpfs { bytes: Option<u64>, exec: bool },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub target: String,
    pub kind: MountKind,
}

/// A file put into a container before its start through the engine's archive interface.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Absolute path, below a writable mount when the root file system is read-only.
    pub path: String,
    pub mode: u32,
    pub content: Vec<u8>,
}

impl std::fmt::Debug for FileEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:o}, {} bytes)", self.path, self.mode, self.content.len())
    }
}

/// The program that runs now, as a file of a container: one static file, for any image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Absolute path, below a writable mount when the root file system is read-only.
    pub path: String,
    /// What [`Runtime::program_digest`] gave: a container made by another build is made anew.
    pub digest: String,
}

/// A port of the container, published on the engine's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerPort {
    pub container: u16,
    /// Port 0 is a number of the engine's choice.
    pub host: SocketAddr,
    #[serde(default, skip_serializing_if = "Protocol::is_tcp")]
    pub protocol: Protocol,
}

impl ContainerPort {
    /// On 127.0.0.1, on a number of the engine's choice.
    pub fn on_loopback(container: u16) -> Self {
        let host = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        Self { container, host, protocol: Protocol::Tcp }
    }
}

/// A character device that a container may use once it has made the node for it. Nothing of the
/// host is mounted: the rule alone lets mknod(1) and open(2) pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRule {
    pub major: u32,
    pub minor: u32,
}

impl DeviceRule {
    /// /dev/net/tun (Linux, Documentation/admin-guide/devices.txt).
    pub const TUN: Self = Self { major: 10, minor: 200 };
    /// /dev/kvm.
    pub const KVM: Self = Self { major: 10, minor: 232 };
}

/// A container as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    pub name: String,
    pub image: String,
    /// Replaces the image's entry point when not empty.
    pub entrypoint: Vec<String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub network: Network,
    pub hostname: Option<String>,
    /// Name of the container whose PID namespace is shared, if any.
    pub pid_of: Option<String>,
    pub publish: Vec<ContainerPort>,
    /// `UID:GID`; the image's own user when absent. Files and their directories belong to it.
    pub user: Option<String>,
    /// Capabilities kept; all others are dropped.
    pub capabilities: Vec<String>,
    pub read_only_root: bool,
    pub devices: Vec<DeviceRule>,
    /// Lifts seccomp, AppArmor and the masks on /proc and /sys: only for nodes, which run systemd and runc.
    pub unconfined: bool,
    /// Lifts AppArmor alone, whose profiles keep a container from looking at another's processes.
    pub apparmor_unconfined: bool,
    pub sysctls: BTreeMap<String, String>,
    pub mounts: Vec<Mount>,
    pub files: Vec<FileEntry>,
    /// This very program, put in beside the files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<Program>,
    /// Bytes, without swap on top.
    pub memory_bytes: Option<u64>,
    /// Thousandths of a core; never more than the engine's host has.
    pub cpu_millis: Option<u32>,
    /// Open files; the engine's own limit when absent.
    pub nofile: Option<u64>,
    /// The engine starts it again whenever it ends by itself.
    pub restart: bool,
    /// Signal that asks it to end, when not SIGTERM.
    pub stop_signal: Option<String>,
}

impl ContainerSpec {
    /// A container as tight as can be: no capability, read-only root, no limit yet.
    pub fn new(name: impl Into<String>, image: impl Into<String>, network: Network) -> Self {
        Self {
            name: name.into(),
            image: image.into(),
            entrypoint: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            labels: BTreeMap::new(),
            network,
            hostname: None,
            pid_of: None,
            publish: Vec::new(),
            user: None,
            capabilities: Vec::new(),
            read_only_root: true,
            devices: Vec::new(),
            unconfined: false,
            apparmor_unconfined: false,
            sysctls: BTreeMap::new(),
            mounts: Vec::new(),
            files: Vec::new(),
            program: None,
            memory_bytes: None,
            cpu_millis: None,
            nofile: None,
            restart: false,
            stop_signal: None,
        }
    }

    /// SHA-256 over the whole specification, file contents included.
    pub fn content_hash(&self) -> String {
        use sha2::Digest;
        let json = serde_json::to_vec(self).unwrap_or_default();
        sha2::Sha256::digest(json).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Made, never started.
    Created,
    Running,
    /// The engine is starting it again after an end of its own.
    Restarting {
        code: i64,
    },
    Paused,
    Exited {
        code: i64,
        oom_killed: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPort {
    pub container: u16,
    pub host: SocketAddr,
    pub protocol: Protocol,
}

/// A container as the engine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerState {
    pub id: String,
    pub name: String,
    /// What it was made from, as its maker called it.
    pub image: String,
    pub labels: BTreeMap<String, String>,
    pub status: Status,
    pub restarts: u32,
    pub published: Vec<PublishedPort>,
    /// RFC 3339, empty when never started.
    pub started_at: String,
    /// How long its process ran before it ended; none while it runs, or has never run.
    pub lived: Option<Duration>,
    /// Id of the container whose network namespace it was made to share.
    pub network_of: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutput {
    pub code: i64,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("no container engine answers at {endpoint}")]
    Unreachable {
        endpoint: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("no permission to use the container engine at {endpoint}")]
    Denied {
        endpoint: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("image {0} is not in the engine's store")]
    ImageMissing(String),
    #[error("{operation} {object}")]
    Failed {
        operation: &'static str,
        object: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A container engine. Calls are idempotent where the word allows it: removing what is gone and
/// starting what runs succeed, as do freezing what is frozen and its reverse.
#[async_trait]
pub trait Runtime: Send + Sync {
    async fn info(&self) -> Result<EngineInfo, RuntimeError>;

    /// Which of these images the store lacks.
    async fn missing_images(&self, references: &[String]) -> Result<Vec<String>, RuntimeError>;

    /// Makes a container and its volumes and uploads its files; gives its id. The cluster label
    /// of the container goes onto the volumes too.
    async fn create(&self, spec: &ContainerSpec) -> Result<String, RuntimeError>;

    /// SHA-256 of the program that runs now, in hexadecimal.
    async fn program_digest(&self) -> Result<String, RuntimeError>;

    async fn start(&self, name: &str) -> Result<(), RuntimeError>;

    /// Asks a container to end, and after `grace_secs` kills it.
    async fn stop(&self, name: &str, grace_secs: u32) -> Result<(), RuntimeError>;

    /// Freezes everything in a container where it is.
    async fn pause(&self, name: &str) -> Result<(), RuntimeError>;

    /// Lets a frozen container go on.
    async fn unpause(&self, name: &str) -> Result<(), RuntimeError>;

    /// Waits for the end of a container and gives its exit code.
    async fn wait(&self, name: &str) -> Result<i64, RuntimeError>;

    /// `None` when there is no such container.
    async fn inspect(&self, name: &str) -> Result<Option<ContainerState>, RuntimeError>;

    /// All containers of a cluster; of every cluster when `None`.
    async fn list(&self, cluster: Option<&str>) -> Result<Vec<ContainerState>, RuntimeError>;

    /// The last `tail` lines of what a container wrote, both streams.
    async fn logs(&self, name: &str, tail: u32) -> Result<String, RuntimeError>;

    /// Runs a command in a container, feeding it `stdin`.
    async fn exec(&self, name: &str, command: &[&str], stdin: &[u8]) -> Result<ExecOutput, RuntimeError>;

    /// Runs a command in a container, feeding it an image of the store as an archive.
    async fn feed_image(&self, name: &str, command: &[&str], image: &str)
    -> Result<ExecOutput, RuntimeError>;

    /// Kills and removes a container with its anonymous volumes.
    async fn remove(&self, name: &str) -> Result<(), RuntimeError>;

    /// Names of the volumes of a cluster.
    async fn volumes(&self, cluster: &str) -> Result<Vec<String>, RuntimeError>;

    async fn remove_volume(&self, name: &str) -> Result<(), RuntimeError>;
}
