//! The floor: etcd and kube-apiserver as two processes, nothing around them, with the flags and keys
//! of a cluster of hoist's.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::support::{Hoist, inspect};

/// A root directory with both programs and all that they read.
pub(crate) struct Bare {
    root: tempfile::TempDir,
}

/// Of its own namespaces, so that ports and mounts are nobody else's. Ends with its standard input.
const RUN: &str = r#"
set -eu
ip link set lo up
mount -t tmpfs tmpfs "$1/var/lib/etcd"
chroot "$1" /usr/local/bin/etcd $(cat "$1/etcd.args") >"$1/etcd.log" 2>&1 &
chroot "$1" /usr/local/bin/kube-apiserver $(cat "$1/kube-apiserver.args") >"$1/kube-apiserver.log" 2>&1 &
until curl --silent --fail --cacert "$1/etc/kubernetes/pki/ca.crt" https://127.0.0.1:6443/readyz; do sleep 0.02; done
echo
read -r _ || true
"#;

impl Bare {
    /// From the containers of a cluster that runs.
    pub(crate) fn of(hoist: &Hoist) -> Self {
        let root = tempfile::TempDir::new().expect("a temporary directory");
        for component in ["etcd", "kube-apiserver"] {
            let name = format!("hoist-{}-{component}", hoist.name);
            unpack(&name, &format!("/usr/local/bin/{component}"), &root.path().join("usr/local/bin"));
            unpack(&name, "/etc/kubernetes", &root.path().join("etc"));
            let arguments = inspect(&name)["Args"].clone();
            let arguments: Vec<String> = serde_json::from_value(arguments).expect("a list of words");
            assert!(arguments.iter().all(|word| !word.contains(char::is_whitespace)), "{arguments:?}");
            std::fs::write(root.path().join(component).with_extension("args"), arguments.join(" "))
                .expect("room");
        }
        for directory in ["var/lib/etcd", "tmp", "dev", "proc"] {
            std::fs::create_dir_all(root.path().join(directory)).expect("room");
        }
        Self { root }
    }

    /// From the start of both until `/readyz` says ok, in seconds.
    pub(crate) fn ready(&self) -> f64 {
        let begin = Instant::now();
        let mut processes = Processes(
            Command::new("unshare")
                .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", RUN, "sh"])
                .arg(self.root.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("unshare can be started, by root"),
        );
        let mut line = String::new();
        let output = processes.0.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "ok", "logs are in {}", self.root.path().display());
        begin.elapsed().as_secs_f64()
    }

    /// Where a program lies that others are given.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.root.path().join("usr/local/bin").join(name)
    }
}

struct Processes(Child);

impl Drop for Processes {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies a file or directory of a container.
pub(crate) fn unpack(container: &str, path: &str, into: &Path) {
    use crate::support::{block, engine};
    let archive = block(engine().download(container, path, 1 << 30)).expect("the path exists");
    std::fs::create_dir_all(into).expect("room");
    tar::Archive::new(archive.as_slice()).unpack(into).expect("the archive is whole");
}
