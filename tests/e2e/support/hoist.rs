//! The program as a child process, with a state directory of its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::engine::{engine, things};

/// One cluster's hoist. Whatever the test does, `hoist down` runs in the end.
#[derive(Debug)]
pub(crate) struct Hoist {
    pub(crate) name: String,
    home: TempDir,
    env: Vec<(String, String)>,
    /// The network namespace to run in, if it isn't that of this process.
    network: Option<String>,
}

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Done {
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Of a command, run to its end.
    pub(crate) fn of(mut command: Command) -> Self {
        done(command.output().expect("the program can be started"))
    }
}

/// Variables of this process that would change what the program does.
const UNWANTED: [&str; 9] = [
    "HOIST_NAME",
    "HOIST_LOG",
    "KUBECONFIG",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

impl Hoist {
    /// A hoist whose cluster is named after what is tested and this process.
    pub(crate) fn new(what: &str) -> Self {
        let name = format!("e2e-up-{what}-{}", std::process::id());
        Self { name, home: TempDir::new().expect("a temporary directory"), env: Vec::new(), network: None }
    }

    /// The same on another engine, whose ports are published in this network namespace.
    #[must_use]
    #[cfg(feature = "faults")]
    pub(crate) fn on(mut self, private: &super::PrivateEngine) -> Self {
        self.network = Some(private.network());
        self.env("DOCKER_HOST", private.endpoint())
    }

    /// The network namespace that the cluster's ports are published in, if it isn't that of this process.
    pub(crate) fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// Adds a variable to the environment of every run.
    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The state directory of the cluster.
    pub(crate) fn state(&self) -> PathBuf {
        self.home().join("state/hoist/clusters").join(&self.name)
    }

    /// Writes a configuration file, without its header and name.
    pub(crate) fn config(&self, fields: &str) -> String {
        let path = self.home().join("cluster.yaml");
        let text = format!("apiVersion: hoist.dev/v1alpha1\nkind: Cluster\nname: {}\n{fields}", self.name);
        std::fs::write(&path, text).expect("the temporary directory is writable");
        path.display().to_string()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_hoist");
        let mut command = match &self.network {
            None => Command::new(program),
            Some(network) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={network}")).args(["--", program]);
                command
            }
        };
        for name in UNWANTED {
            command.env_remove(name);
        }
        command
            .args(["--name", &self.name])
            .args(args)
            .env("HOME", self.home())
            .env("XDG_STATE_HOME", self.home().join("state"))
            // Taking kubectl out of the image once is enough for all clusters.
            .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
            .env("DOCKER_HOST", engine().endpoint().to_string())
            .stdin(Stdio::null());
        for (name, value) in &self.env {
            command.env(name, value);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::of(self.command(args))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be started")
    }

    /// Runs and wants exit code 0; gives what came on stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "hoist {args:?}: {}{}", done.stdout, done.stderr);
        done.stdout
    }

    pub(crate) fn try_kubectl(&self, args: &[&str]) -> Done {
        self.run(&[&["kubectl"], args].concat())
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.ok(&[&["kubectl"], args].concat())
    }

    /// `kubectl get … -o json`.
    pub(crate) fn get(&self, args: &[&str]) -> Value {
        let text = self.kubectl(&[&["get", "-o", "json"], args].concat());
        serde_json::from_str(&text).expect("kubectl prints JSON")
    }

    /// `kubectl apply` of a manifest.
    pub(crate) fn apply(&self, manifest: &str) {
        self.feed("apply", manifest);
    }

    /// `kubectl create` of a manifest: status included, where a kind lets it be created.
    pub(crate) fn create(&self, manifest: &str) {
        self.feed("create", manifest);
    }

    fn feed(&self, verb: &str, manifest: &str) {
        let mut child = self
            .command(&["kubectl", verb, "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl can be started");
        child.stdin.take().expect("a pipe").write_all(manifest.as_bytes()).expect("kubectl reads");
        let done = wait(child);
        assert_eq!(done.code, Some(0), "kubectl {verb}: {}", done.stderr);
    }
}

/// Waits for the end of a child and gives what it wrote.
pub(crate) fn wait(child: Child) -> Done {
    done(child.wait_with_output().expect("the child can be waited for"))
}

fn done(output: std::process::Output) -> Done {
    Done {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The events among the lines that `--progress json` writes.
pub(crate) fn events(stderr: &str) -> Vec<Value> {
    let lines = stderr.lines().filter(|line| line.starts_with("{\"event\""));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

impl Drop for Hoist {
    fn drop(&mut self) {
        // An engine of the test's own goes with all that it has.
        if self.network.is_some() || (things(&self.name).is_empty() && !self.state().exists()) {
            return;
        }
        let done = self.run(&["down"]);
        if done.code != Some(0) {
            super::tell(&format!("hoist down --name {}: {}", self.name, done.stderr));
        }
    }
}
