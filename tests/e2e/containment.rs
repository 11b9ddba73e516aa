//! What containers show, and what reaches them that shouldn't; what they may do and hold is in `security`.

use serde_json::Value;

use crate::support::{Hoist, block, calm, containers, engine, inspect, on_node, pid, processes_in};

const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// A controller that a node's systemd mounts where the host had none is a hierarchy of the whole kernel, of
/// which the engine knows nothing: it counted no container's use any more.
#[test]
fn a_node_has_no_control_groups_but_those_the_engine_gave_it() {
    let (shared, _calm) = calm();
    let node = format!("hoist-{}-node01", shared.hoist.name);
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", pid(&node))).expect("it runs");
    let groups: Vec<_> = mounts.lines().filter(|line| line.contains(" - cgroup")).collect();
    assert!(!groups.is_empty(), "{mounts}");
    for line in groups {
        // Fields as in proc_pid_mountinfo(5): the fourth is what of the hierarchy is seen.
        assert_ne!(line.split(' ').nth(3), Some("/"), "{line}");
    }
    let used = block(engine().stats(&node)).expect("the engine can tell");
    assert!(used.rss_bytes > 0 && used.rss_bytes <= used.memory_bytes, "{used:?}");
    let told: Value =
        serde_json::from_str(&shared.hoist.ok(&["report", "--for", "1s", "-o", "json"])).unwrap();
    let sum: u64 = rows(&told, "components").map(|row| row["rssBytes"].as_u64().unwrap()).sum();
    assert_eq!(told["controlPlane"]["rssBytes"], sum);
    let names: Vec<_> = rows(&told, "components").map(|row| row["name"].as_str().unwrap()).collect();
    assert!(COMPONENTS.iter().all(|component| names.contains(component)), "{told}");
    assert_eq!(rows(&told, "nodes").filter(|row| row["name"] == "node01").count(), 1, "{told}");
}

fn rows<'a>(report: &'a Value, what: &str) -> impl Iterator<Item = &'a Value> {
    report[what].as_array().expect("a list").iter()
}

#[test]
fn dnsmasq_gives_root_up() {
    let (shared, _calm) = calm();
    let dnsmasq = format!("hoist-{}-dnsmasq", shared.hoist.name);
    let status = crate::support::exec(&dnsmasq, &["cat", "/proc/1/status"]).stdout;
    let field =
        |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert_eq!(field("Name:"), "Name:\tdnsmasq");
    assert!(!field("Uid:").split_whitespace().skip(1).any(|id| id == "0"), "{}", field("Uid:"));
}

/// The shared cluster was made with all proxy variables set to a proxy that answers nobody.
#[test]
fn kubeadm_687_no_proxy_variable_reaches_a_component() {
    let (shared, _calm) = calm();
    for container in containers(&shared.hoist.name) {
        let env = inspect(&container.name)["Config"]["Env"].to_string().to_lowercase();
        assert!(!env.contains("proxy="), "{}: {env}", container.name);
    }
}

/// Nor the programs of a node, whose webhook calls and pulls would go astray.
#[test]
fn kubeadm_2370_no_proxy_variable_reaches_a_node() {
    let (shared, _calm) = calm();
    let read = "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -i '_proxy=' || true";
    for node in ["node01", "node02"] {
        assert_eq!(on_node(shared, node, read), "", "{node}");
    }
}

/// What nobody but its owner may see: the token's secret half and the private keys, by name.
pub(crate) fn secrets(hoist: &Hoist) -> Vec<(String, String)> {
    let spec = std::fs::read_to_string(hoist.state().join("cluster.json")).expect("the recorded settings");
    let spec: Value = serde_json::from_str(&spec).expect("JSON");
    let (_, secret) = spec["token"].as_str().and_then(|token| token.split_once('.')).expect("a token");
    let mut secrets = vec![("token".to_owned(), secret.to_owned())];
    let mut directories = vec![hoist.state().join("pki")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("the state directory").filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "key") {
                let pem = std::fs::read_to_string(&path).expect("a key");
                // The first line of a key says only what kind it is.
                let line = pem.lines().nth(2).expect("a key of several lines").to_owned();
                assert!(line.len() > 20, "{}", path.display());
                secrets.push((path.display().to_string(), line));
            }
        }
    }
    assert!(secrets.len() > 5, "keys were found: {}", secrets.len());
    secrets
}

#[test]
fn secrets_show_up_nowhere() {
    let (shared, _calm) = calm();
    let secrets = secrets(&shared.hoist);
    let mut places: Vec<(String, String)> = vec![
        ("stdout of up -vv".to_owned(), shared.up.stdout.clone()),
        ("stderr of up -vv".to_owned(), shared.up.stderr.clone()),
    ];
    for container in containers(&shared.hoist.name) {
        places.push((format!("inspect {}", container.name), inspect(&container.name).to_string()));
        places.push((format!("logs {}", container.name), logs(&container.name)));
    }
    let ids = containers(&shared.hoist.name).into_iter().map(|container| container.id).collect();
    for process in processes_in(&ids) {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(process.join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            places.push((process.join(file).display().to_string(), text));
        }
    }
    // The logs hold something, or this would prove nothing.
    assert!(places.iter().any(|(_, text)| text.contains("kube-apiserver")));
    for (place, text) in &places {
        for (name, secret) in &secrets {
            assert!(!text.contains(secret.as_str()), "{name} is in {place}");
        }
    }
}

pub(crate) fn logs(name: &str) -> String {
    use hoist_phases::ports::Runtime as _;
    crate::support::block(crate::support::engine().logs(name, 100_000)).expect("the engine has its log")
}

#[test]
fn files_of_the_state_directory_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (shared, _calm) = calm();
    let mut seen = 0;
    let mut directories = vec![shared.hoist.home().join("state/hoist")];
    while let Some(directory) = directories.pop() {
        let mode = std::fs::metadata(&directory).expect("a directory").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", directory.display());
        for entry in std::fs::read_dir(&directory).expect("a directory").filter_map(Result::ok) {
            if entry.path().is_dir() {
                directories.push(entry.path());
                continue;
            }
            let mode = entry.metadata().expect("a file").permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} files seen");
}
