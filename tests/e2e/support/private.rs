//! An engine of a test's own, which it may restart, and of which nothing else makes or removes anything:
//! in a network, mount and process namespace of its own on this machine.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bollard::query_parameters::ImportImageOptionsBuilder;
use futures_util::{StreamExt as _, TryStreamExt as _};
use hoist::runtime::{Endpoint, Engine};
use hoist_phases::ports::Runtime as _;
use tempfile::TempDir;

use super::hoist::Done;
use super::{block, engine, until};

const SOON: Duration = Duration::from_secs(120);

/// The first process of the namespaces: they end with it, and it ends with this process, whose end closes the
/// pipe. A /run of its own, as containerd puts its sockets there whatever it is told.
const HOLD: &str = "ip link set lo up && mount -t tmpfs tmpfs /run && echo ready && cat";

/// What a cluster without nodes needs; one with container nodes `node` as well.
pub(crate) const CONTROL_PLANE: [&str; 10] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "coredns",
    "pause",
    "kube-router",
    "network",
    "tools",
];

#[derive(Debug)]
pub(crate) struct PrivateEngine {
    directory: TempDir,
    /// Parent, below the root, of the control groups of its containers.
    group: String,
    holder: Child,
    /// The first process of the namespaces, as the host counts.
    first: u32,
    daemon: Option<Child>,
    engine: Engine,
}

impl PrivateEngine {
    /// Starts it with copies of hoist's images of these roles.
    pub(crate) fn start(roles: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = format!("hoist-e2e-{}-{number}", std::process::id());
        // Not /tmp, which may be a tmpfs: images would be in memory.
        let directory = TempDir::with_prefix_in("engine-", env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", HOLD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare of util-linux");
        let mut said = String::new();
        let words = holder.stdout.as_mut().expect("a pipe");
        BufReader::new(words).read_line(&mut said).expect("a pipe");
        assert_eq!(said, "ready\n", "namespaces of the test's own");
        let id = holder.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("/proc");
        let first = children.trim().parse().expect("one child");

        let (daemon, engine) = daemon(directory.path(), &group, first);
        let private = Self { directory, group, holder, first, daemon: Some(daemon), engine };
        private.load(roles);
        private
    }

    /// Copies images from the usual engine.
    fn load(&self, roles: &[&str]) {
        let names: Vec<_> = roles.iter().map(|role| format!("localhost/hoist/{role}:v1.36.3")).collect();
        let usual = engine().docker().clone();
        block(async {
            let (send, receive) = tokio::sync::mpsc::channel(4);
            tokio::spawn(async move {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let mut pieces = std::pin::pin!(usual.export_images(&names));
                while let Some(piece) = pieces.next().await {
                    if send.send(piece).await.is_err() {
                        break;
                    }
                }
            });
            let pieces = futures_util::stream::unfold(receive, async |mut receive| {
                receive.recv().await.map(|piece| (piece, receive))
            });
            let options = ImportImageOptionsBuilder::new().quiet(true).build();
            let loaded: Vec<_> = self
                .engine
                .docker()
                .import_image_stream(options, pieces, None)
                .try_collect()
                .await
                .expect("the images can be copied");
            assert!(!loaded.is_empty());
        });
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn endpoint(&self) -> String {
        self.engine.endpoint().to_string()
    }

    /// The namespace that its ports are published in, as a path.
    pub(crate) fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.first)
    }

    /// Where its files are, and its /run.
    pub(crate) fn places(&self) -> [PathBuf; 2] {
        [self.directory.path().join("root"), format!("/proc/{}/root/run", self.first).into()]
    }

    /// Runs a shell script in its namespaces; gives its stdout.
    pub(crate) fn inside(&self, script: &str) -> String {
        let mut command = nsenter(self.first);
        command.args(["sh", "-euc", script]);
        let done = Done::of(command);
        assert_eq!(done.code, Some(0), "{script}: {}", done.stderr);
        done.stdout
    }

    /// Directories in /proc of all processes in its namespaces.
    pub(crate) fn processes(&self) -> Vec<PathBuf> {
        let of = |path: PathBuf| std::fs::metadata(path).ok().map(|found| found.ino());
        let ours = of(format!("/proc/{}/ns/pid", self.first).into()).expect("it runs");
        let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| of(path.join("ns/pid")) == Some(ours)).collect()
    }

    /// Directories of its control groups, as paths.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let roots = std::fs::read_dir("/sys/fs/cgroup").expect("control groups").filter_map(Result::ok);
        let mut left: Vec<_> = roots.map(|root| root.path().join(&self.group)).collect();
        left.push(Path::new("/sys/fs/cgroup").join(&self.group));
        while let Some(directory) = left.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            left.extend(
                entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()),
            );
            found.push(directory);
        }
        found
    }

    /// Ends the engine as its service manager (`TERM`) or a crash (`KILL`) does, and starts it again.
    pub(crate) fn restart(&mut self, signal: &str) {
        self.inside(&format!("kill -{signal} $(cat /run/docker.pid)"));
        if let Some(mut daemon) = self.daemon.take() {
            daemon.wait().expect("a child");
        }
        // One that was killed leaves its number, which another process may have got since.
        self.inside("rm -f /run/docker.pid");
        let (daemon, engine) = daemon(self.directory.path(), &self.group, self.first);
        (self.daemon, self.engine) = (Some(daemon), engine);
    }
}

/// A command that runs in the namespaces of a process.
fn nsenter(first: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &first.to_string(), "--net", "--mount", "--pid", "--"]);
    command
}

fn daemon(directory: &Path, group: &str, first: u32) -> (Child, Engine) {
    let socket = directory.join("engine.sock");
    let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).expect("a file");
    let mut daemon = nsenter(first)
        .arg("dockerd")
        .arg(format!("--data-root={}", directory.join("root").display()))
        .arg(format!("--host=unix://{}", socket.display()))
        .arg(format!("--cgroup-parent=/{group}"))
        .args(["--exec-root=/run/docker", "--pidfile=/run/docker.pid"])
        .args(["--exec-opt=native.cgroupdriver=cgroupfs", "--log-level=warn"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("nsenter of util-linux");
    let engine = until("the engine of the test's own answers", SOON, || {
        assert_eq!(
            daemon.try_wait().expect("a child"),
            None,
            "dockerd has ended, see {}",
            directory.display()
        );
        let engine = block(Engine::connect_any(vec![Endpoint::Unix(socket.clone())]));
        let engine = engine.map_err(|error| error.to_string())?;
        // It answers before it has put right what an earlier run of it has left.
        block(engine.list(None)).map_err(|error| error.to_string())?;
        Ok(engine)
    });
    (daemon, engine)
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.wait();
        }
        let mut groups = self.groups();
        groups.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        for group in groups {
            let _ = std::fs::remove_dir(group);
        }
    }
}
