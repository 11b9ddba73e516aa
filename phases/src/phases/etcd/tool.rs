//! A program of etcd's own image, run once in a container of its own beside the cluster.

use std::sync::Arc;
use std::time::Duration;

use crate::phases::containers::{ContainerError, component_name, name_prefix};
use crate::phases::network::NONROOT;
use crate::phases::{containers, images};
use crate::pki::CONTAINER_PKI_DIR;
use crate::ports::{ContainerSpec, FileEntry, Mount, MountKind, Network, Runtime, RuntimeError, label};
use crate::spec::{ClusterSpec, Component};

/// Lines of output that are kept.
const LINES: u32 = 50;

/// Time for a run: some gigabytes are copied on a slow disk in it.
const DEADLINE: Duration = Duration::from_secs(300);

/// Role of its container, which `down` removes like all that carry the cluster's label.
const ROLE: &str = "etcd-tool";

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error(transparent)]
    Container(#[from] ContainerError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("{program} ended with exit code {code}:\n{output}")]
    Failed { program: String, code: i64, output: String },
    #[error("{program} had not ended after {} s:\n{output}", DEADLINE.as_secs())]
    Late { program: String, output: String },
}

/// One run.
#[derive(Debug, Clone)]
pub struct Tool(ContainerSpec);

impl Tool {
    /// `etcdctl` in the namespace of the control plane, with a client's keys in PEM.
    pub fn client(spec: &ClusterSpec, servers: &str, [ca, cert, key]: [&[u8]; 3], args: &[&str]) -> Self {
        let owner = Network::Container(component_name(spec, Component::Owner));
        let mut tool = Self::new(spec, "etcdctl", owner);
        let place = |name: &str| format!("{CONTAINER_PKI_DIR}/{name}");
        for (name, mode, content) in
            [("ca.crt", 0o644, ca), ("tls.crt", 0o644, cert), ("tls.key", 0o600, key)]
        {
            tool.0.files.push(FileEntry { path: place(name), mode, content: content.to_vec() });
        }
        tool.0.mounts.push(containers::private_mount(spec, &tool.0.name, "/etc/kubernetes"));
        tool.0.args = vec![
            format!("--endpoints={servers}"),
            format!("--cacert={}", place("ca.crt")),
            format!("--cert={}", place("tls.crt")),
            format!("--key={}", place("tls.key")),
        ];
        tool.0.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        tool
    }

    /// `etcdutl`, which works on files and has no network.
    pub fn offline(spec: &ClusterSpec, args: &[&str]) -> Self {
        let mut tool = Self::new(spec, "etcdutl", Network::None);
        tool.0.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        tool
    }

    /// A shell script on the data, with a volume of its own for nothing else.
    pub fn script(spec: &ClusterSpec, script: &str) -> Self {
        let mut tool = Self::new(spec, "sh", Network::None);
        tool.0.image = images::reference(spec, "network");
        tool.0.entrypoint = vec!["/bin/sh".to_owned(), "-euc".to_owned()];
        tool.0.args = vec![script.to_owned()];
        tool
    }

    fn new(spec: &ClusterSpec, program: &str, network: Network) -> Self {
        let name = format!("{}-{program}", name_prefix(spec));
        let mut container = ContainerSpec::new(name, images::reference(spec, "etcd"), network);
        container.entrypoint = vec![format!("/usr/local/bin/{program}")];
        container.labels.insert(label::CLUSTER.to_owned(), spec.name.to_string());
        container.labels.insert(label::ROLE.to_owned(), ROLE.to_owned());
        container.user = Some(NONROOT.to_owned());
        Self(container)
    }

    /// With a mount more.
    #[must_use]
    pub fn mounting(mut self, mount: Mount) -> Self {
        self.0.mounts.push(mount);
        self
    }

    /// With a volume that goes with the run.
    #[must_use]
    pub fn with_room(mut self, spec: &ClusterSpec, target: &str) -> Self {
        self.0.mounts.push(containers::private_mount(spec, &self.0.name, target));
        self
    }

    /// With a file more, below a mount.
    #[must_use]
    pub fn with_file(mut self, file: FileEntry) -> Self {
        self.0.files.push(file);
        self
    }

    pub fn container(&self) -> &str {
        &self.0.name
    }

    /// Runs it and gives what it wrote; its container stays, for what is in it, until [`Tool::remove`].
    ///
    /// # Errors
    /// When the engine can't, or the program ends with another exit code than 0 or not within five minutes.
    pub async fn run(&self, spec: &ClusterSpec, runtime: &Arc<dyn Runtime>) -> Result<String, ToolError> {
        let name = &self.0.name;
        // Of a run that was cut off.
        self.remove(spec, runtime.as_ref()).await?;
        runtime.create(&self.0).await?;
        runtime.start(name).await?;
        let ended = tokio::time::timeout(DEADLINE, runtime.wait(name)).await;
        let output = runtime.logs(name, LINES).await?;
        let program = self.0.entrypoint.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let program = program.to_owned();
        match ended.map_err(|_| ToolError::Late { program: program.clone(), output: output.clone() })?? {
            0 => Ok(output),
            code => Err(ToolError::Failed { program, code, output }),
        }
    }

    /// As [`Tool::run`], and removes what is left of it whatever came of it.
    ///
    /// # Errors
    /// As [`Tool::run`].
    pub async fn run_and_remove(
        &self,
        spec: &ClusterSpec,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<String, ToolError> {
        let result = self.run(spec, runtime).await;
        let removed = self.remove(spec, runtime.as_ref()).await;
        let output = result?;
        removed?;
        Ok(output)
    }

    /// Removes its container, running or not, and the volumes that are its alone: keys and Secrets are in them.
    ///
    /// # Errors
    /// When the engine can't, or a container of that name isn't this cluster's.
    pub async fn remove(&self, spec: &ClusterSpec, runtime: &dyn Runtime) -> Result<(), ToolError> {
        let name = &self.0.name;
        containers::remove_own(runtime, &spec.name, name).await?;
        // Anonymous ones have gone with it; those with a name begin with its own (`private_mount`).
        for mount in &self.0.mounts {
            match &mount.kind {
                MountKind::Volume(volume) if volume.starts_with(&format!("{name}-")) => {
                    runtime.remove_volume(volume).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
