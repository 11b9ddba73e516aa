//! The engine of this machine, seen from outside hoist.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::LazyLock;

use bollard::query_parameters::{
    BuildImageOptionsBuilder, ListContainersOptionsBuilder, ListNetworksOptionsBuilder,
    ListVolumesOptionsBuilder, RemoveImageOptions,
};
use futures_util::TryStreamExt as _;
use hoist::runtime::Engine;
use hoist_phases::ports::{ContainerState, ExecOutput, Runtime as _, Status};
use serde_json::Value;

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Runtime::new().expect("a tokio runtime"));

static ENGINE: LazyLock<Engine> = LazyLock::new(|| block(Engine::connect()).expect("a container engine"));

pub(crate) fn block<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

pub(crate) fn engine() -> &'static Engine {
    &ENGINE
}

/// The whole of what the engine tells about a container.
pub(crate) fn inspect(name: &str) -> Value {
    let found = block(engine().docker().inspect_container(name, None)).expect("the container exists");
    serde_json::to_value(found).expect("the engine's answer is JSON")
}

pub(crate) fn state(name: &str) -> Option<ContainerState> {
    block(engine().inspect(name)).expect("the engine answers")
}

/// The containers of a cluster, by label.
pub(crate) fn containers(cluster: &str) -> Vec<ContainerState> {
    block(engine().list(Some(cluster))).expect("the engine answers")
}

pub(crate) fn exec(name: &str, command: &[&str]) -> ExecOutput {
    block(engine().exec(name, command, b"")).expect("the container runs")
}

/// The first process of a container, as the engine's host counts.
pub(crate) fn pid(name: &str) -> i32 {
    let pid = inspect(name)["State"]["Pid"].as_i64().unwrap_or_default();
    i32::try_from(pid).ok().filter(|pid| *pid > 1).expect("the container runs")
}

/// SIGKILL to everything in a container.
pub(crate) fn kill(name: &str) {
    block(engine().docker().kill_container(name, None)).expect("the container runs");
}

/// Builds an image with the engine's own builder from a Dockerfile and other files.
pub(crate) fn build_image(reference: &str, dockerfile: &str, files: &[(&str, &[u8])]) {
    let mut context = tar::Builder::new(Vec::new());
    for (path, content) in [("Dockerfile", dockerfile.as_bytes())].iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        context.append_data(&mut header, path, *content).expect("memory is writable");
    }
    let context = context.into_inner().expect("memory is writable");
    let options = BuildImageOptionsBuilder::new().t(reference).rm(true).networkmode("host").build();
    let docker = engine().docker().clone().with_timeout(BUILD_WITHIN);
    let body = bollard::body_full(context.into());
    let output: Result<Vec<_>, _> = block(docker.build_image(options, None, Some(body)).try_collect());
    output.unwrap_or_else(|error| panic!("build of {reference}: {error}"));
}

/// Copies a file out of an image.
pub(crate) fn copy_out(image: &str, path: &str, to: &std::path::Path) {
    let docker = engine().docker();
    let body = bollard::models::ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(vec!["none".to_owned()]),
        ..Default::default()
    };
    let none = None::<bollard::query_parameters::CreateContainerOptions>;
    let id = block(docker.create_container(none, body)).expect("the image exists").id;
    let archive = block(engine().download(&id, path, 1 << 30)).expect("the file exists");
    block(docker.remove_container(&id, None)).expect("the container exists");
    let mut archive = tar::Archive::new(archive.as_slice());
    let mut entries = archive.entries().expect("the engine sends a tar archive");
    let mut entry = entries.next().expect("the archive has an entry").expect("the archive is whole");
    entry.unpack(to).expect("there is room");
}

/// Time for an image of the tests: packages are fetched.
const BUILD_WITHIN: std::time::Duration = std::time::Duration::from_secs(1800);

pub(crate) fn remove_image(reference: &str) {
    let removed = block(engine().docker().remove_image(reference, None::<RemoveImageOptions>, None));
    removed.unwrap_or_else(|error| panic!("removal of {reference}: {error}"));
}

/// Paths and modes of the regular files of a directory of a container.
pub(crate) fn archive_files(name: &str, directory: &str) -> Vec<(String, u32)> {
    let archive = block(engine().download(name, directory, 1 << 30)).expect("the directory exists");
    let mut archive = tar::Archive::new(archive.as_slice());
    let mut files = Vec::new();
    for entry in archive.entries().expect("the engine sends a tar archive") {
        let entry = entry.expect("the archive is whole");
        if entry.header().entry_type().is_file() {
            let path = entry.path().expect("a path").display().to_string();
            files.push((path, entry.header().mode().expect("a mode") & 0o777));
        }
    }
    files.sort();
    files
}

/// Containers, volumes and networks that belong to a cluster by label or by name, described.
pub(crate) fn things(cluster: &str) -> Vec<String> {
    block(async {
        let docker = engine().docker();
        let label = format!("\"dev.hoist.cluster\":\"{cluster}\"");
        let prefix = format!("hoist-{cluster}-");
        let ours = |value: &Value| {
            let text = value.to_string();
            text.contains(&label) || text.contains(&prefix)
        };
        let all = ListContainersOptionsBuilder::new().all(true).build();
        let containers = docker.list_containers(Some(all)).await.expect("the engine answers");
        let volumes = docker.list_volumes(Some(ListVolumesOptionsBuilder::new().build())).await;
        let networks = docker.list_networks(Some(ListNetworksOptionsBuilder::new().build())).await;
        let volumes = volumes.expect("the engine answers").volumes.unwrap_or_default();
        let values = |kind: &'static str, value: Result<Value, serde_json::Error>| {
            (kind, value.expect("the engine's answer is JSON"))
        };
        let all = containers.iter().map(|container| values("container", serde_json::to_value(container)));
        let all = all.chain(volumes.iter().map(|volume| values("volume", serde_json::to_value(volume))));
        let networks = networks.expect("the engine answers");
        let all = all.chain(networks.iter().map(|network| values("network", serde_json::to_value(network))));
        all.filter(|(_, value)| ours(value))
            .map(|(kind, value)| {
                format!("{kind} {}", value.get("Name").or(value.get("Names")).unwrap_or(&Value::Null))
            })
            .collect()
    })
}

/// Directories in /proc of the processes in containers, nested ones included.
pub(crate) fn processes_in(ids: &BTreeSet<String>) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let paths = entries.map(|entry| entry.path());
    let inside = |path: &PathBuf| {
        // The control groups of everything in a container name its id.
        let groups = std::fs::read_to_string(path.join("cgroup")).unwrap_or_default();
        ids.iter().any(|id| groups.contains(id))
    };
    paths.filter(inside).collect()
}

/// By what a cluster can be found on the engine's host, which has to be this one.
#[derive(Debug)]
pub(crate) struct Traces {
    cluster: String,
    ids: BTreeSet<String>,
    /// Index of the host's end of the shared namespace's veth.
    veth: String,
}

impl Traces {
    /// Of a cluster that runs.
    pub(crate) fn of(cluster: &str) -> Self {
        let running = containers(cluster).into_iter().filter(|state| state.status == Status::Running);
        let ids: BTreeSet<_> = running.map(|state| state.id).collect();
        let veth = exec(&format!("hoist-{cluster}-dnsmasq"), &["cat", "/sys/class/net/eth0/iflink"]);
        let traces = Self { cluster: cluster.to_owned(), ids, veth: veth.stdout.trim().to_owned() };
        // A look that finds nothing while the cluster runs would prove nothing later.
        let kinds: BTreeSet<_> = traces
            .left()
            .iter()
            .map(|thing| thing.split(' ').next().map(str::to_owned).unwrap_or_default())
            .collect();
        for kind in ["container", "volume", "process", "veth", "mount"] {
            assert!(kinds.contains(kind), "no {kind} of a running cluster seen: {kinds:?}");
        }
        traces
    }

    /// What is left of the cluster.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = things(&self.cluster);
        for process in processes_in(&self.ids) {
            let command = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
            left.push(format!("process {} {}", process.display(), command.trim()));
        }
        for entry in std::fs::read_dir("/sys/class/net").expect("/sys/class/net").filter_map(Result::ok) {
            let index = std::fs::read_to_string(entry.path().join("ifindex")).unwrap_or_default();
            if index.trim() == self.veth {
                left.push(format!("veth {}", entry.file_name().display()));
            }
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("the list of mounts");
        let prefix = format!("hoist-{}-", self.cluster);
        left.extend(mounts.lines().filter(|line| line.contains(&prefix)).map(|line| format!("mount {line}")));
        left
    }
}
