//! `kwokctl create cluster --runtime binary` with the programs that hoist starts: a control plane
//! which no node can join.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::bare::{Bare, unpack};
use crate::support::Hoist;

const VERSION: &str = "v0.8.0";

pub(crate) struct Kwok {
    programs: PathBuf,
    components: tempfile::TempDir,
}

impl Kwok {
    /// Builds kwok unless that is done, and takes the components from a cluster that runs.
    pub(crate) fn of(hoist: &Hoist, bare: &Bare) -> Self {
        let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kwok-{VERSION}"));
        if !programs.join("kwokctl").exists() {
            let packages = ["kwok", "kwokctl"].map(|name| format!("sigs.k8s.io/kwok/cmd/{name}@{VERSION}"));
            let built = Command::new("go").arg("install").args(packages).env("GOBIN", &programs).status();
            assert!(built.is_ok_and(|status| status.success()), "kwok {VERSION} can't be built");
        }
        let components = tempfile::TempDir::new().expect("a temporary directory");
        for name in ["kube-controller-manager", "kube-scheduler"] {
            let container = format!("hoist-{}-{name}", hoist.name);
            unpack(&container, &format!("/usr/local/bin/{name}"), components.path());
        }
        for name in ["etcd", "kube-apiserver"] {
            std::fs::copy(bare.program(name), components.path().join(name)).expect("room");
        }
        Self { programs, components }
    }

    /// From the call until it says that the cluster is ready, in seconds.
    pub(crate) fn create(&self) -> f64 {
        let begin = Instant::now();
        let mut arguments = vec!["create", "cluster", "--runtime", "binary", "--wait", "120s"]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            arguments.push(format!("--{name}-binary={}", self.components.path().join(name).display()));
        }
        arguments.push(format!("--kwok-controller-binary={}", self.programs.join("kwok").display()));
        self.run(&arguments);
        let elapsed = begin.elapsed().as_secs_f64();
        self.run(&["delete", "cluster"].map(str::to_owned));
        elapsed
    }

    fn run(&self, arguments: &[String]) {
        let mut command = Command::new(self.programs.join("kwokctl"));
        command.args(["--name", "hoist-bench"]).args(arguments).env("HOME", self.components.path());
        let output = command.output().expect("kwokctl can be started");
        assert!(
            output.status.success(),
            "kwokctl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
