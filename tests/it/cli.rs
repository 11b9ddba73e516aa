//! The program as a user runs it, with an engine that is absent or a fake.

use std::path::Path;
use std::process::{Command, Stdio};

use hoist::config::defaults;
use hoist::exit;
use hoist::store::{StateDir, StateRoot};
use hoist_phases::phases::PhaseId;
use hoist_phases::ports::Store as _;
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec, NodeKind, NodeSpec, VmSize};
use serde_json::{Value, json};

use crate::fake_engine::FakeEngine;

/// A home of its own, and an engine that isn't there unless told otherwise.
pub(crate) struct Home {
    pub(crate) dir: tempfile::TempDir,
    engine: String,
}

pub(crate) struct Ran {
    pub(crate) code: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = format!("unix://{}/no.sock", dir.path().display());
        Self { dir, engine }
    }

    fn with(engine: &FakeEngine) -> Self {
        Self { engine: format!("unix://{}", engine.socket().display()), ..Self::new() }
    }

    pub(crate) fn state(&self, name: &str) -> StateDir {
        StateRoot::new(self.dir.path().join("state/hoist")).cluster(&ClusterName::new(name).unwrap())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoist"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("XDG_STATE_HOME", self.dir.path().join("state"))
            .env("DOCKER_HOST", &self.engine)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }

    /// Everything below the state directory.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut todo = vec![self.dir.path().join("state/hoist/clusters")];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                left.push(path.display().to_string());
                todo.push(path);
            }
        }
        left
    }
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = u8::try_from(output.status.code().unwrap()).unwrap();
    Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn spec(name: &str) -> ClusterSpec {
    defaults(ClusterName::new(name).unwrap(), BootstrapToken::generate().unwrap())
}

#[test]
fn wrong_arguments_are_told_on_stderr() {
    let home = Home::new();
    for args in [&["up", "--no-such-flag"][..], &["no-such-command"], &["logs"], &["kubeconfig", "--switch"]]
    {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (exit::USAGE.0, ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("error"), "{}", ran.stderr);
    }
}

#[test]
fn a_view_tells_what_the_environment_has_said() {
    let home = Home::new();
    let view = |args: &[&str]| {
        let ran = ran(home.command(&[&["config", "view"], args].concat()).env("HOIST_NAME", "lane"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    assert!(view(&[]).contains("name: lane  # HOIST_NAME\n"), "{}", view(&[]));
    assert!(view(&["--name", "other"]).contains("name: other  # --name\n"));
}

#[test]
fn wrong_settings_start_nothing() {
    let home = Home::new();
    for (args, part) in [
        (&["up", "--kubernetes", "v9.9.9"][..], "v9.9.9"),
        (&["up", "--name", "Not_A_Name"], "Not_A_Name"),
        (&["up", "--name", &"x".repeat(33)], "33 characters"),
        (&["up", "--pod-subnet", "10.96.0.0/16"], "overlaps"),
        (&["up", "--nodes", "-1"], "-1"),
        (&["up", "--cni", "https://example.org/cni.yaml"], "sha256"),
        (&["up", "--cni", "no-such-file.yaml"], "no-such-file.yaml"),
        (&["up", "--config", "no-such-file.yaml"], "no-such-file.yaml"),
        (&["images", "list", "--kubernetes", "1.2"], "1.2"),
        (&["down", "Not_A_Name"], "Not_A_Name"),
        (&["wait", "--for", "pod/a"], "deployment/NAME"),
        (&["wait", "--for", "deployment/a", "--timeout", "soon"], "--timeout"),
        (&["node", "add", "--timeout", "soon"], "--timeout"),
        (&["node", "start", "node01", "--timeout", "0"], "--timeout 0: must be longer"),
        (&["node", "restart", "node01", "--timeout", "1"], "--timeout \"1\""),
        (&["apply", "no-such-file.yaml"], "no-such-file.yaml"),
        (&["apply", "-"], "holds no object"),
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, exit::USAGE.0, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        assert_eq!(home.left(), [""; 0], "{args:?} left something behind");
    }
}

#[test]
fn an_absent_engine_has_a_code_and_a_hint() {
    let home = Home::new();
    for args in [&["up"][..], &["down"], &["list"], &["status"], &["images", "list"]] {
        let ran = home.run(args);
        assert_eq!(ran.code, exit::ENGINE.0, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("no.sock") && ran.stderr.contains("\nhint: "), "{}", ran.stderr);
        assert_eq!(home.left(), [""; 0], "{args:?} left something behind");
    }
}

#[test]
fn without_an_engine_the_doctor_still_tells_what_it_can() {
    let home = Home::new();
    let ran = home.run(&["doctor", "-o", "json"]);
    assert_eq!(ran.code, exit::NOT_WELL.0, "{}", ran.stderr);
    let checks: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let state = |id: &str| checks.iter().find(|check| check["id"] == id).unwrap()["state"].clone();
    assert_eq!(
        (state("engine"), state("open-files"), state("proxies")),
        (json!("fail"), json!("unknown"), json!("ok"))
    );
    let text = home.run(&["doctor"]).stdout;
    assert!(
        text.contains("fail     engine: none") && text.contains("no.sock") && text.contains("remedy: "),
        "{text}"
    );
}

#[test]
fn an_unknown_cluster_has_a_code() {
    let home = Home::new();
    for args in [
        &["kubeconfig"][..],
        &["kubectl", "get", "nodes"],
        &["join-command"],
        &["node", "add"],
        &["wait", "--for", "deployment/a"],
        &["upgrade", "--kubernetes", "v1.37.2"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, exit::NO_CLUSTER.0, "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_half_written_state_directory_is_told_with_the_way_out() {
    let home = Home::new();
    home.state("hoist").write_spec(&spec("hoist")).unwrap();
    let file = home.state("hoist").path().join("cluster.json");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let ran = home.run(&["up"]);
    assert_eq!(ran.code, exit::GENERAL.0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("cluster.json") && ran.stderr.contains("hint: `hoist down"),
        "{}",
        ran.stderr
    );
    assert!(file.exists(), "a state directory that can't be understood is left as it is");
}

#[test]
fn a_cluster_with_other_settings_is_a_conflict() {
    let home = Home::new();
    home.state("hoist").write_spec(&spec("hoist")).unwrap();
    let ran = home.run(&["up", "--nodes=2", "--pod-subnet=10.1.0.0/16"]);
    assert_eq!(ran.code, exit::CONFLICT.0, "{}", ran.stderr);
    for part in ["networking.podSubnet", "10.244.0.0/16", "10.1.0.0/16", "nodes", "hint: "] {
        assert!(ran.stderr.contains(part), "{part} is missing from: {}", ran.stderr);
    }
}

#[test]
fn an_upgrade_that_can_not_be_is_refused_before_an_engine_is_asked() {
    let home = Home::new();
    home.state("hoist").write_spec(&spec("hoist")).unwrap();
    for (version, words) in [
        ("v1.34.4", ["v1.36.3 can't become v1.34.4", "older minor", "--name OTHER"]),
        ("v1.38.0", ["v1.38.0", "1.34 to 1.37", "v1.37.2"]),
        ("latest", ["latest", "full version", "v1.37.2"]),
    ] {
        let ran = home.run(&["upgrade", "--plan", "--kubernetes", version]);
        assert_eq!(ran.code, exit::USAGE.0, "{version}: {}", ran.stderr);
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{version}: {}", ran.stderr);
    }
    let ran = home.run(&["upgrade", "--plan", "--kubernetes", "v1.37.2"]);
    assert_eq!(ran.code, exit::OK.0, "{}", ran.stderr);
    assert!(ran.stdout.contains("~ container hoist-hoist-kube-apiserver"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("owner"), "{}", ran.stdout);
    assert_eq!(home.state("hoist").read_spec().unwrap().kubernetes.to_string(), "v1.36.3");
}

#[test]
fn two_at_once_on_one_cluster_are_refused() {
    let home = Home::new();
    let _lock = home.state("hoist").lock().unwrap();
    for args in [&["up"][..], &["down"]] {
        let ran = home.run(args);
        assert_eq!(ran.code, exit::CONFLICT.0, "{}", ran.stderr);
        assert!(ran.stderr.contains(&std::process::id().to_string()), "{}", ran.stderr);
    }
}

fn empty_engine() -> FakeEngine {
    let engine = FakeEngine::start();
    engine.answer("GET /containers/json", 200, json!([]));
    engine.answer("GET /volumes", 200, json!({"Volumes": [], "Warnings": []}));
    engine.answer("GET /networks", 200, json!([]));
    engine.answer("GET /images/", 404, json!({"message": "no such image"}));
    engine
}

async fn run_beside(home: Home, args: &'static [&'static str]) -> (Home, Ran) {
    tokio::task::spawn_blocking(move || {
        let ran = home.run(args);
        (home, ran)
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_images_are_all_in_one_error() {
    let engine = empty_engine();
    let (home, ran) = run_beside(Home::with(&engine), &["up", "--nodes=1"]).await;
    assert_eq!(ran.code, exit::IMAGES.0, "{}", ran.stderr);
    for part in ["etcd:v", "kube-apiserver:v", "node:v", "phase preflight", "hint: `hoist images ensure`"] {
        assert!(ran.stderr.contains(part), "{part} is missing from: {}", ran.stderr);
    }
    assert_eq!(home.left(), [""; 0]);
    let made: Vec<_> = engine.lines().into_iter().filter(|line| line.starts_with("POST")).collect();
    assert_eq!(made, [""; 0], "something was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_does_not_tell_its_certificate_has_a_row_with_the_reason() {
    let engine = FakeEngine::start();
    engine.answer("POST /containers/", 404, json!({"message": "No such container: hoist-hoist-node01"}));
    for (home, why) in [(Home::with(&engine), "No such container"), (Home::new(), "no container engine")] {
        home.state("hoist").write_spec(&spec("hoist")).unwrap();
        let (_, ran) = run_beside(home, &["certs", "check", "-o", "json"]).await;
        assert_eq!(ran.code, exit::NOT_WELL.0, "{}", ran.stderr);
        let rows: Value = serde_json::from_str(&ran.stdout).unwrap();
        let row = rows.as_array().unwrap().last().unwrap();
        assert_eq!(row["name"], "kubelet of node01");
        let state = row["state"].as_str().unwrap();
        assert!(state.starts_with("unknown: ") && state.contains(why), "{state}");
        // It may be stopped: that alone is nothing to renew.
        assert!(!ran.stderr.contains("kubelet of"), "{}", ran.stderr);
    }
}

/// Each alone has room on a host of 8 GiB, and a third that is stopped takes none.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_started_beside_others_that_leave_no_memory() {
    for (other, code) in [("running", exit::PHASE), ("exited", exit::IMAGES)] {
        let engine = empty_engine();
        engine.answer("GET /containers/json", 200, json!([{"Id": "1"}]));
        engine.answer(
            "GET /containers/1/json",
            200,
            json!({"Id": "1", "Name": "/hoist-hoist-node01", "State": {"Status": other}}),
        );
        let home = Home::with(&engine);
        let mut spec = spec("hoist");
        let vm = NodeKind::Vm(VmSize { memory_mib: 3072, ..VmSize::default() });
        spec.nodes = (1..=3).map(|number| NodeSpec::new(number, vm).unwrap()).collect();
        home.state("hoist").write_spec(&spec).unwrap();
        let (_, ran) = run_beside(home, &["node", "start", "node02"]).await;
        assert_eq!(ran.code, code.0, "{other}: {}", ran.stderr);
        let sum = "2 virtual machines with qemu's own 7680 MiB";
        assert_eq!(ran.stderr.contains(sum), code == exit::PHASE, "{other}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_without_their_keys_are_not_touched() {
    let engine = empty_engine();
    let container = json!({
        "Id": "1", "Names": ["/hoist-hoist-etcd"], "State": "running", "Status": "Up", "Image": "x",
        "Labels": {"dev.hoist.cluster": "hoist", "dev.hoist.role": "etcd"}
    });
    engine.answer("GET /containers/json", 200, json!([container]));
    engine.answer(
        "GET /containers/1/json",
        200,
        json!({
            "Id": "1", "Name": "/hoist-hoist-etcd", "State": {"Status": "running", "Running": true},
            "Config": {"Labels": {"dev.hoist.cluster": "hoist", "dev.hoist.role": "etcd"}}
        }),
    );
    engine.answer(
        "GET /containers/hoist-hoist-etcd/json",
        200,
        json!({
            "Id": "1", "Name": "/hoist-hoist-etcd", "State": {"Status": "running", "Running": true},
            "Config": {"Labels": {"dev.hoist.cluster": "hoist", "dev.hoist.role": "etcd"}}
        }),
    );
    let (_, ran) = run_beside(Home::with(&engine), &["up"]).await;
    assert_eq!(ran.code, exit::CONFLICT.0, "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: `hoist down"), "{}", ran.stderr);
    let (_, ran) = run_beside(Home::with(&engine), &["list", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(list[0]["name"], "hoist");
    assert_eq!(list[0]["stateDirectory"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_can_not_be_unmerged_is_left_to_another_down() {
    let engine = empty_engine();
    let home = Home::with(&engine);
    let path = home.dir.path().join("config");
    std::fs::write(&path, "clusters: broken\n").unwrap();
    home.state("c1").write_spec(&spec("c1")).unwrap();
    home.state("c1").write("merged-into", path.as_os_str().as_encoded_bytes()).unwrap();

    let (home, ran) = run_beside(home, &["down", "c1"]).await;
    assert!(ran.code == 1 && ran.stderr.contains("is no kubeconfig"), "{}", ran.stderr);
    assert!(home.state("c1").exists());

    std::fs::write(&path, "clusters: []\n").unwrap();
    let (home, ran) = run_beside(home, &["down", "c1"]).await;
    assert!(ran.code == 0 && ran.stderr.contains("out of your kubeconfig"), "{}", ran.stderr);
    assert!(!home.state("c1").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn down_without_a_cluster_succeeds() {
    let engine = empty_engine();
    let (_, ran) = run_beside(Home::with(&engine), &["down"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("there is no cluster hoist"), "{}", ran.stderr);
}

#[test]
fn phases_are_listed_in_an_order_they_can_run_in() {
    let ran = Home::new().run(&["phase", "list", "--output=json"]);
    let list: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let names: Vec<_> = list.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), PhaseId::ALL.len());
    for (index, phase) in list.iter().enumerate() {
        for after in phase["after"].as_array().unwrap() {
            assert!(names[..index].contains(&after.as_str().unwrap()), "{phase}");
        }
    }
}

#[test]
fn versions_are_data() {
    let ran = Home::new().run(&["version", "-o", "json"]);
    let versions: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(versions["hoist"], env!("CARGO_PKG_VERSION"));
    assert_eq!(versions["kubernetes"], "v1.36.3");
    assert_eq!(versions["pinned"], serde_json::json!(["v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"]));
}

#[test]
fn completions_are_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = Home::new().run(&["completion", shell]);
        assert!(ran.code == 0 && ran.stdout.contains("join-command"), "{shell}: {}", ran.stderr);
    }
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let home = Home::new();
    let mut command = home.command(&["completion", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn generated_pages_are_current() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    for (name, content) in hoist::cli::reference_pages() {
        let present = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(present == content, "docs/{name} is out of date: run `cargo run -- docs docs`");
    }
}

#[test]
fn exit_codes_differ() {
    let mut codes: Vec<_> = exit::CODES.iter().map(|(code, _)| code.0).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), exit::CODES.len());
}
