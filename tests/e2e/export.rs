//! `hoist export`: of a healthy cluster, of one that is half dead, and of an `up` that fails. No secret is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hoist_phases::ports::Runtime as _;
use serde_json::{Value, json};

use crate::support::{Hoist, alone, block, engine, until};

const PASSWORD: &str = "tr0ub4dor-and-3";

/// Path and content of every file, all of which are this user's alone.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let mode = path.metadata().expect("it is there").permissions().mode() & 0o777;
        if path.is_dir() {
            assert_eq!(mode, 0o700, "{}", path.display());
            todo.extend(
                path.read_dir().expect("it can be read").map(|entry| entry.expect("an entry").path()),
            );
            continue;
        }
        assert_eq!(mode, 0o600, "{}", path.display());
        let name = path.strip_prefix(directory).expect("it is in there").display().to_string();
        let content = std::fs::read(&path).expect("it can be read");
        found.insert(name, String::from_utf8_lossy(&content).into_owned());
    }
    found
}

/// What nobody may find: keys and the token of the state directory, as they are and in Base64.
fn secrets(hoist: &Hoist) -> Vec<String> {
    let mut secrets = vec!["PRIVATE KEY".to_owned(), STANDARD.encode("-----BEGIN EC PRIVATE")];
    let spec = std::fs::read_to_string(hoist.state().join("cluster.json")).expect("the cluster's settings");
    let spec: Value = serde_json::from_str(&spec).expect("JSON");
    let token = spec["token"].as_str().expect("a token");
    secrets.push(token.split('.').nth(1).expect("its second part").to_owned());
    let mut todo = vec![hoist.state()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(
                path.read_dir().expect("it can be read").map(|entry| entry.expect("an entry").path()),
            );
        } else if path.extension().is_some_and(|extension| extension == "key") {
            let key = std::fs::read_to_string(&path).expect("a key");
            secrets.extend(key.lines().filter(|line| line.len() >= 40).map(str::to_owned));
        }
    }
    let kubeconfig = std::fs::read_to_string(hoist.state().join("kubeconfig")).expect("the kubeconfig");
    let key = kubeconfig.split("client-key-data").nth(1).expect("a key");
    let of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    secrets.extend(key.split(|c| !of_key(c)).find(|word| word.len() > 40).map(str::to_owned));
    assert!(secrets.len() > 10, "there are keys to look for");
    secrets
}

fn no_secret(files: &BTreeMap<String, String>, secrets: &[String]) {
    for (name, content) in files {
        for (index, secret) in secrets.iter().enumerate() {
            assert!(!content.contains(secret.as_str()), "secret {index} is in {name}");
        }
    }
}

/// All in one, since the cluster is stopped in the midst of it.
#[test]
fn a_cluster_is_exported_without_its_secrets_well_and_half_dead() {
    let (shared, _alone) = alone();
    let hoist = &shared.hoist;
    let name = &hoist.name;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
        "stringData": {"password": PASSWORD}});
    hoist.create(&secret.to_string());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leak"},
        "data": {"config": format!("users: [{{password: x}}]\nsaid: {PASSWORD}\ntoken: of-somebody\n")}});
    hoist.create(&map.to_string());
    let secrets =
        [secrets(hoist), vec![PASSWORD.to_owned(), STANDARD.encode(PASSWORD), "of-somebody".to_owned()]];
    let secrets = secrets.concat();

    // Another test may have removed nodes a moment ago: nobody has the logs of pods that were on them.
    until("no pod is left of a node that is gone", Duration::from_secs(180), || {
        let names = |kind: &str, field: &str| -> BTreeSet<String> {
            let found = hoist.get(&[kind, "--all-namespaces"]);
            let items = found["items"].as_array().into_iter().flatten();
            items.filter_map(|item| item.pointer(field)?.as_str().map(str::to_owned)).collect()
        };
        let (used, there) = (names("pods", "/spec/nodeName"), names("nodes", "/metadata/name"));
        let gone: Vec<_> = used.difference(&there).cloned().collect();
        if gone.is_empty() { Ok(()) } else { Err(gone.join(", ")) }
    });
    let well = hoist.home().join("well");
    let done = hoist.run(&["export", &well.display().to_string(), "-o", "json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let summary: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(summary["missing"], json!([]));
    let found = files(&well);
    no_secret(&found, &secrets);
    for (file, words) in [
        (format!("containers/hoist-{name}-kube-apiserver.log"), "Golang settings"),
        (format!("containers/hoist-{name}-etcd.json"), "\"Status\": \"running\""),
        ("nodes/node01/journal.txt".to_owned(), "kubelet"),
        ("nodes/node02/journal.txt".to_owned(), "containerd"),
        ("objects/nodes.json".to_owned(), "node02"),
        ("objects/secrets.json".to_owned(), "\"password\": \"[redacted]\""),
        ("objects/configmaps.json".to_owned(), "said: [redacted]"),
        ("events.txt".to_owned(), "node01"),
        ("network/routes.txt".to_owned(), "dev br0"),
        ("network/packet-filter.txt".to_owned(), "nat"),
        ("config.yaml".to_owned(), "kind: Cluster"),
        ("status.txt".to_owned(), "running"),
        ("doctor.txt".to_owned(), "ok       engine"),
        ("versions.json".to_owned(), "v1.36"),
        ("summary.json".to_owned(), name.as_str()),
    ] {
        let content = found.get(&file).unwrap_or_else(|| panic!("no {file}: {:?}", found.keys()));
        assert!(content.contains(words), "no {words:?} in {file}: {}", &content[..content.len().min(500)]);
    }
    let pods = found.keys().filter(|file| file.starts_with("pods/kube-system/coredns-"));
    assert!(pods.count() > 0, "logs of pods: {:?}", found.keys());
    let again = hoist.run(&["export", &well.display().to_string()]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("not empty"), "{}", again.stderr);
    hoist.kubectl(&["delete", "secret/password", "configmap/leak"]);

    block(engine().stop(&format!("hoist-{name}-etcd"), 1)).expect("etcd is there");
    block(engine().stop(&format!("hoist-{name}-node02"), 1)).expect("the node is there");
    let dead = hoist.home().join("dead");
    let done = hoist.run(&["export", &dead.display().to_string()]);
    assert_eq!(done.code, Some(10), "{}{}", done.stdout, done.stderr);
    let found = files(&dead);
    no_secret(&found, &secrets);
    assert!(found["errors.txt"].contains("nodes/node02/journal.txt: "), "{}", found["errors.txt"]);
    assert!(found[&format!("containers/hoist-{name}-etcd.log")].contains("etcd"));
    assert!(found["status.txt"].contains("etcd is exited"), "{}", found["status.txt"]);
    assert!(found["nodes/node01/journal.txt"].contains("kubelet"));
    hoist.ok(&["up"]);
}

#[test]
fn a_failed_up_leaves_what_it_came_to() {
    let hoist = Hoist::new("evidence");
    let config = hoist
        .config("nodes: []\ncomponents:\n  kube-apiserver:\n    extraArgs:\n      no-such-flag: \"1\"\n");
    let directory = hoist.home().join("evidence");
    let place = directory.display().to_string();
    let args = [
        "--log-format",
        "json",
        "-v",
        "up",
        "--config",
        &config,
        "--progress",
        "json",
        "--timeout",
        "2m",
        "--export-on-failure",
    ];
    let done = hoist.run(&[&args[..], &[&place]].concat());
    assert_eq!(done.code, Some(5), "{}", done.stderr);
    let found = files(&directory);
    let log = &found[&format!("containers/hoist-{}-kube-apiserver.log", hoist.name)];
    assert!(log.contains("no-such-flag"), "{log}");
    assert!(found["failure.txt"].contains("kube-apiserver"), "{}", found["failure.txt"]);
    no_secret(&found, &["PRIVATE KEY".to_owned()]);
    // One name for all that the run has said.
    let summary: Value = serde_json::from_str(&found["summary.json"]).expect("JSON");
    let run = &summary["run"];
    let lines = done.stderr.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line.get("event").is_some()), "{}", done.stderr);
    assert!(lines.iter().any(|line| line["target"] == "hoist::runtime::create"), "{}", done.stderr);
    for line in &lines {
        assert_eq!(&line["run"], run, "{line}");
    }
    let done = hoist.run(&["up", "--config", &config, "--export-on-failure", &place]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--export-on-failure"), "{}", done.stderr);
}
