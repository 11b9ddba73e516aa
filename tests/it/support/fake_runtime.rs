//! A fake of the container engine: containers and volumes are entries of a map, nothing runs. It
//! logs what was asked of it and fails where a test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use hoist_phases::ports::{
    ContainerSpec, ContainerState, EngineInfo, ExecOutput, MountKind, Network, Runtime, RuntimeError, Status,
    label,
};
use hoist_phases::spec::KubernetesVersion;

/// Exit code and output of a program that runs once, or nothing where it runs on.
type Program = Box<dyn Fn(&ContainerSpec) -> Option<(i64, String)> + Send + Sync>;

type Exec = Box<dyn Fn(&str, &[&str], &[u8]) -> ExecOutput + Send + Sync>;

/// The fake engine. Clocks don't run in it either: each start is one second after the one before.
#[derive(Default)]
pub(crate) struct FakeRuntime {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    containers: BTreeMap<String, ContainerState>,
    /// Name of a volume and its cluster.
    volumes: BTreeMap<String, String>,
    missing_images: BTreeSet<String>,
    failures: BTreeMap<(&'static str, String), String>,
    calls: Vec<String>,
    exec: Option<Exec>,
    program: Option<Program>,
    ended: BTreeMap<String, (i64, String)>,
    made: u32,
    seconds: u32,
}

impl Inner {
    fn tick(&mut self) -> String {
        self.seconds += 1;
        format!("2026-01-01T00:{:02}:{:02}Z", self.seconds / 60, self.seconds % 60)
    }

    fn find(&mut self, name: &str) -> Result<&mut ContainerState, RuntimeError> {
        self.containers.get_mut(name).ok_or_else(|| RuntimeError::Failed {
            operation: "find",
            object: name.to_owned(),
            source: "no such container".into(),
        })
    }
}

#[allow(dead_code, reason = "shared by several test files")]
impl FakeRuntime {
    /// Adds a running container with the labels that hoist gives, and a volume of its own.
    pub(crate) async fn run(&self, cluster: &str, role: &str, name: &str, network: Network) {
        let image = format!("localhost/hoist/{role}:{}", KubernetesVersion::DEFAULT);
        let mut spec = ContainerSpec::new(name, image, network);
        spec.labels = BTreeMap::from([
            (label::CLUSTER.to_owned(), cluster.to_owned()),
            (label::ROLE.to_owned(), role.to_owned()),
        ]);
        if role == "node" {
            let node = name.rsplit('-').next().unwrap_or_default();
            spec.labels.insert(label::NODE.to_owned(), node.to_owned());
        }
        let volume = MountKind::Volume(format!("{name}-data"));
        spec.mounts.push(hoist_phases::ports::Mount { target: "/data".to_owned(), kind: volume });
        self.create(&spec).await.unwrap();
        self.start(name).await.unwrap();
    }

    /// Adds a volume without a container that knows it.
    pub(crate) fn add_volume(&self, cluster: &str, name: &str) {
        self.lock().volumes.insert(name.to_owned(), cluster.to_owned());
    }

    /// Makes each later `operation` on `object` fail.
    pub(crate) fn fail(&self, operation: &'static str, object: &str, why: &str) {
        self.lock().failures.insert((operation, object.to_owned()), why.to_owned());
    }

    /// Takes all failures back.
    pub(crate) fn heal(&self) {
        self.lock().failures.clear();
    }

    /// Changes a container behind everyone's back, as a crash does.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut ContainerState)) {
        change(self.lock().find(name).unwrap());
    }

    pub(crate) fn lack_image(&self, reference: &str) {
        self.lock().missing_images.insert(reference.to_owned());
    }

    pub(crate) fn on_exec(&self, exec: impl Fn(&str, &[&str], &[u8]) -> ExecOutput + Send + Sync + 'static) {
        self.lock().exec = Some(Box::new(exec));
    }

    /// Tells what a container's program does, at its creation.
    pub(crate) fn on_run(
        &self,
        program: impl Fn(&ContainerSpec) -> Option<(i64, String)> + Send + Sync + 'static,
    ) {
        self.lock().program = Some(Box::new(program));
    }

    /// What was asked, in order: `operation object`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// Names of everything that is there.
    pub(crate) fn names(&self) -> Vec<String> {
        let inner = self.lock();
        inner.containers.keys().chain(inner.volumes.keys()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn call(&self, operation: &'static str, object: &str) -> Result<MutexGuard<'_, Inner>, RuntimeError> {
        let mut inner = self.lock();
        inner.calls.push(format!("{operation} {object}"));
        match inner.failures.get(&(operation, object.to_owned())) {
            None => Ok(inner),
            Some(why) => {
                Err(RuntimeError::Failed { operation, object: object.to_owned(), source: why.clone().into() })
            }
        }
    }
}

#[async_trait]
impl Runtime for FakeRuntime {
    async fn info(&self) -> Result<EngineInfo, RuntimeError> {
        drop(self.call("info", "")?);
        Ok(EngineInfo { product: "fake".to_owned(), cpus: 2, memory_bytes: 8 << 30, ..EngineInfo::default() })
    }

    async fn missing_images(&self, references: &[String]) -> Result<Vec<String>, RuntimeError> {
        let inner = self.call("missing_images", "")?;
        Ok(references.iter().filter(|image| inner.missing_images.contains(*image)).cloned().collect())
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<String, RuntimeError> {
        let mut inner = self.call("create", &spec.name)?;
        inner.made += 1;
        let id = format!("id-{}", inner.made);
        let network_of = match &spec.network {
            Network::Container(owner) => Some(inner.find(owner)?.id.clone()),
            Network::Own | Network::None => None,
        };
        let cluster = spec.labels.get(label::CLUSTER).cloned().unwrap_or_default();
        for mount in &spec.mounts {
            if let MountKind::Volume(name) | MountKind::TmpfsVolume { name, .. } = &mount.kind {
                inner.volumes.insert(name.clone(), cluster.clone());
            }
        }
        let state = ContainerState {
            id: id.clone(),
            name: spec.name.clone(),
            image: spec.image.clone(),
            labels: spec.labels.clone(),
            status: Status::Created,
            restarts: 0,
            published: Vec::new(),
            started_at: String::new(),
            lived: None,
            network_of,
        };
        inner.containers.insert(spec.name.clone(), state);
        match inner.program.as_ref().and_then(|program| program(spec)) {
            Some(end) => inner.ended.insert(spec.name.clone(), end),
            None => inner.ended.remove(&spec.name),
        };
        Ok(id)
    }

    async fn program_digest(&self) -> Result<String, RuntimeError> {
        Ok("digest".to_owned())
    }

    async fn start(&self, name: &str) -> Result<(), RuntimeError> {
        let mut inner = self.call("start", name)?;
        let now = inner.tick();
        let container = inner.find(name)?;
        if container.status != Status::Running {
            container.status = Status::Running;
            container.started_at = now;
        }
        Ok(())
    }

    async fn stop(&self, name: &str, _grace_secs: u32) -> Result<(), RuntimeError> {
        self.call("stop", name)?.find(name)?.status = Status::Exited { code: 0, oom_killed: false };
        Ok(())
    }

    async fn pause(&self, name: &str) -> Result<(), RuntimeError> {
        self.call("pause", name)?.find(name)?.status = Status::Paused;
        Ok(())
    }

    async fn unpause(&self, name: &str) -> Result<(), RuntimeError> {
        self.call("unpause", name)?.find(name)?.status = Status::Running;
        Ok(())
    }

    async fn wait(&self, name: &str) -> Result<i64, RuntimeError> {
        let mut inner = self.call("wait", name)?;
        if let Some((code, _)) = inner.ended.get(name) {
            return Ok(*code);
        }
        match inner.find(name)?.status {
            Status::Exited { code, .. } => Ok(code),
            _ => Err(RuntimeError::Failed {
                operation: "wait",
                object: name.to_owned(),
                source: "nothing ends by itself in a fake".into(),
            }),
        }
    }

    async fn inspect(&self, name: &str) -> Result<Option<ContainerState>, RuntimeError> {
        Ok(self.call("inspect", name)?.containers.get(name).cloned())
    }

    async fn list(&self, cluster: Option<&str>) -> Result<Vec<ContainerState>, RuntimeError> {
        let inner = self.call("list", cluster.unwrap_or_default())?;
        let of = |container: &&ContainerState| {
            let label = container.labels.get(label::CLUSTER);
            label.is_some_and(|label| cluster.is_none_or(|cluster| label == cluster))
        };
        Ok(inner.containers.values().filter(of).cloned().collect())
    }

    async fn logs(&self, name: &str, _tail: u32) -> Result<String, RuntimeError> {
        let mut inner = self.call("logs", name)?;
        inner.find(name)?;
        if let Some((_, output)) = inner.ended.get(name) {
            return Ok(output.clone());
        }
        Ok(format!("last words of {name}\n"))
    }

    async fn exec(&self, name: &str, command: &[&str], stdin: &[u8]) -> Result<ExecOutput, RuntimeError> {
        let mut inner = self.call("exec", name)?;
        inner.find(name)?;
        Ok(match &inner.exec {
            Some(exec) => exec(name, command, stdin),
            None => {
                ExecOutput { code: 127, stdout: String::new(), stderr: "nothing runs in a fake".to_owned() }
            }
        })
    }

    async fn feed_image(
        &self,
        name: &str,
        command: &[&str],
        image: &str,
    ) -> Result<ExecOutput, RuntimeError> {
        drop(self.call("feed_image", &format!("{image} {name}"))?);
        self.exec(name, command, &[]).await
    }

    async fn remove(&self, name: &str) -> Result<(), RuntimeError> {
        self.call("remove", name)?.containers.remove(name);
        Ok(())
    }

    async fn volumes(&self, cluster: &str) -> Result<Vec<String>, RuntimeError> {
        let inner = self.call("volumes", cluster)?;
        Ok(inner.volumes.iter().filter(|(_, of)| *of == cluster).map(|(name, _)| name.clone()).collect())
    }

    async fn remove_volume(&self, name: &str) -> Result<(), RuntimeError> {
        self.call("remove_volume", name)?.volumes.remove(name);
        Ok(())
    }
}
