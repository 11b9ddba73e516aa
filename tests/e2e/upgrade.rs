//! Control planes that are upgraded with a node joined and writes going on: `make test-versions`, since it needs
//! the images of every pinned version. How long nobody could write is told on stderr (docs/upgrade.md).

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use hoist_phases::phases::PHASES;
use hoist_phases::spec::MINORS;
use serde_json::{Value, json};

use crate::support::{Hoist, Writer, events, inspect, tell, until};

/// Exit codes: wrong arguments, a failed phase, a conflict, a cluster that isn't well.
const USAGE: i32 = 2;
const PHASE: i32 = 5;
const CONFLICT: i32 = 8;
const NOT_WELL: i32 = 9;

fn pinned(minor: u32) -> String {
    let found = MINORS.iter().map(|minor| minor.pinned).find(|version| version.minor == minor);
    found.expect("a known minor").to_string()
}

fn id(hoist: &Hoist, role: &str) -> String {
    inspect(&format!("hoist-{}-{role}", hoist.name))["Id"].as_str().expect("an id").to_owned()
}

fn server_version(hoist: &Hoist) -> Value {
    let version: Value = serde_json::from_str(&hoist.kubectl(&["get", "--raw", "/version"])).expect("JSON");
    version["gitVersion"].clone()
}

fn kubelet_version(hoist: &Hoist, node: &str) -> String {
    hoist.kubectl(&["get", "node", node, "-o", "jsonpath={.status.nodeInfo.kubeletVersion}"])
}

/// A pod that tells when it was started, with a program that every node has.
fn pod(hoist: &Hoist, name: &str, node: &str, version: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": format!("localhost/hoist/kube-router:{version}"),
                "imagePullPolicy": "Never", "command": ["sh", "-c", "echo listening; sleep infinity"],
            }],
        },
    });
    hoist.apply(&pod.to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=120s"]);
}

fn logs_and_exec_work(hoist: &Hoist, pod: &str) {
    assert_eq!(hoist.kubectl(&["logs", pod]), "listening\n");
    assert_eq!(hoist.kubectl(&["exec", pod, "--", "sh", "-c", "echo here"]), "here\n");
}

/// Who a pod is, and how often its container has been started.
fn identity(hoist: &Hoist, pod: &str) -> (Value, Value) {
    let pod = hoist.get(&["pod", pod]);
    (pod["metadata"]["uid"].clone(), pod["status"]["containerStatuses"][0]["restartCount"].clone())
}

fn status(hoist: &Hoist) -> (Option<i32>, Value) {
    let done = hoist.run(&["status", "-o", "json"]);
    (done.code, serde_json::from_str(&done.stdout).unwrap_or_default())
}

/// Versions of the components that are Kubernetes', by the word of `status`.
fn versions(status: &Value) -> Vec<&str> {
    let components = status["components"].as_array().into_iter().flatten();
    components.filter_map(|component| component["version"].as_str()).collect()
}

/// An upgrade under load; tells how long nobody could write.
fn upgrade(hoist: &Hoist, writer: &Writer, from: &str, to: &str) {
    writer.goes_on(Instant::now());
    let begin = Instant::now();
    hoist.ok(&["upgrade", "--kubernetes", to]);
    let took = begin.elapsed();
    writer.goes_on(Instant::now());
    let gap = writer.longest_gap(begin);
    tell(&format!(
        "upgrade of {from} to {to}: {} ms, {} ms without an acknowledged write",
        took.as_millis(),
        gap.as_millis()
    ));
}

#[test]
fn a_control_plane_goes_up_two_minors_under_load_with_a_node_joined() {
    let [first, second, third] = [34, 35, 36].map(pinned);
    let hoist = Hoist::new("upgrade");
    hoist.ok(&["up", "--nodes", "1", "--kubernetes", &first, "--wait", "dns"]);
    pod(&hoist, "stays", "node01", &first);
    let ids = || ["owner", "etcd", "node01"].map(|role| id(&hoist, role));
    let (containers, member) = (ids(), identity(&hoist, "stays"));

    let refused = hoist.run(&["upgrade", "--kubernetes", &third]);
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    for word in [&first, &third, &second] {
        assert!(refused.stderr.contains(word.as_str()), "no {word} in: {}", refused.stderr);
    }
    let other = hoist.run(&["up", "--kubernetes", &second]);
    assert_eq!(other.code, Some(CONFLICT), "{}", other.stderr);
    assert!(other.stderr.contains(&format!("hoist upgrade --name {}", hoist.name)), "{}", other.stderr);

    let writer = Writer::start(&hoist);
    for (from, to) in [(&first, &second), (&second, &third)] {
        upgrade(&hoist, &writer, from, to);
        assert_eq!(server_version(&hoist), **to);
        let (code, status) = status(&hoist);
        assert_eq!((code, versions(&status)), (Some(0), vec![to.as_str(); 3]), "{status}");
        let config = hoist.get(&["configmap", "kubeadm-config", "--namespace", "kube-system"]);
        let config = config["data"]["ClusterConfiguration"].as_str().expect("a configuration");
        assert!(config.contains(&format!("kubernetesVersion: {to}")), "{config}");
        // What must stay: the namespace and the memory of etcd in it, the node, and its pods.
        assert_eq!(ids(), containers);
        assert_eq!(identity(&hoist, "stays"), member);
        assert_eq!(kubelet_version(&hoist, "node01"), first);
        logs_and_exec_work(&hoist, "stays");
    }
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("none of {count} acknowledged writes is lost"));

    // By kubeadm of the new version, and by that of an older one.
    hoist.ok(&["node", "add"]);
    hoist.ok(&["node", "add", "--image", &format!("localhost/hoist/node:{second}")]);
    let kubelets = ["node01", "node02", "node03"].map(|node| kubelet_version(&hoist, node));
    assert_eq!(kubelets, [first, third.clone(), second]);
    hoist.ok(&["wait", "--for", "level=dns", "--timeout", "120s"]);
    for node in ["node02", "node03"] {
        pod(&hoist, node, node, &third);
        logs_and_exec_work(&hoist, node);
    }

    let again = hoist.run(&["up", "--kubernetes", &third, "--progress", "json"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let finished: Vec<_> =
        events(&again.stderr).into_iter().filter(|event| event["event"] == "finished").collect();
    assert_eq!(finished.len(), PHASES.len(), "{}", again.stderr);
    for event in finished {
        assert!(event["outcome"] == "unchanged" || event["outcome"] == "skipped", "{event}");
    }
    hoist.ok(&["down"]);
}

/// Ends an upgrade by SIGKILL once its API server serves.
fn cut_off(hoist: &Hoist, to: &str) {
    let mut child = hoist.start(&["upgrade", "--kubernetes", to, "--progress", "json"]);
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let served = format!("kube-apiserver of {to} serves");
    let mut told = String::new();
    while !told.contains(&served) {
        told += &lines.next().expect("it goes on").expect("text");
    }
    child.kill().expect("it runs");
    child.wait().expect("a child");
}

/// A gate of 1.36 that 1.37 no longer knows ends its API server at once; etcd is another there, too.
#[test]
fn an_upgrade_that_fails_is_put_back_and_one_that_is_cut_off_goes_on() {
    let (old, new) = (pinned(36), pinned(37));
    let hoist = Hoist::new("upgrade-back");
    let config = |args: &str| {
        hoist.config(&format!(
            "kubernetes: {old}\nnodes: [{{count: 1}}]\nwait: dns\ncomponents: {{kube-apiserver: {{extraArgs: {args}}}}}\n"
        ))
    };
    hoist.ok(&["up", "--config", &config("{feature-gates: JobSuccessPolicy=true}")]);
    let (etcd, writer) = (id(&hoist, "etcd"), Writer::start(&hoist));
    writer.goes_on(Instant::now());

    let begin = Instant::now();
    let failed = hoist.run(&["upgrade", "--kubernetes", &new]);
    let took = begin.elapsed();
    assert_eq!(failed.code, Some(PHASE), "{}", failed.stderr);
    for word in ["kube-apiserver", "JobSuccessPolicy", "put back", &old, &new] {
        assert!(failed.stderr.contains(word), "no {word} in: {}", failed.stderr);
    }
    writer.goes_on(Instant::now());
    tell(&format!(
        "upgrade to {new} that failed and was put back: {} ms, {} ms without an acknowledged write",
        took.as_millis(),
        writer.longest_gap(begin).as_millis()
    ));
    assert_eq!(server_version(&hoist), old);
    let (code, told) = status(&hoist);
    assert_eq!(code, Some(0), "{told}");
    assert_ne!(id(&hoist, "etcd"), etcd, "it may have written what the one before can't read");
    hoist.ok(&["up", "--config", &config("{}")]);

    let etcd = id(&hoist, "etcd");
    cut_off(&hoist, &new);
    let (code, told) = status(&hoist);
    assert_eq!(code, Some(NOT_WELL), "{told}");
    assert!(told["problems"].to_string().contains("hoist upgrade --kubernetes"), "{told}");
    let other = hoist.run(&["upgrade", "--kubernetes", "v1.37.1"]);
    assert_eq!(other.code, Some(CONFLICT), "{}", other.stderr);
    let plan = hoist.ok(&["upgrade", "--kubernetes", &new, "--plan"]);
    assert!(plan.contains(&format!("~ container hoist-{}-kube-scheduler", hoist.name)), "{plan}");
    hoist.ok(&["upgrade", "--kubernetes", &new]);
    writer.goes_on(Instant::now());
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("upgrade to {new}, cut off and gone on with: none of {count} acknowledged writes is lost"));
    let (code, told) = status(&hoist);
    assert_eq!((code, versions(&told)), (Some(0), vec![new.as_str(); 3]), "{told}");
    assert_eq!(id(&hoist, "etcd"), etcd, "of the new version since the first try");
    assert_eq!(kubelet_version(&hoist, "node01"), old);
    until("the node is Ready", Duration::from_secs(60), || {
        let ready = hoist.kubectl(&["get", "nodes", "--no-headers"]);
        if ready.contains(" Ready") { Ok(()) } else { Err(ready) }
    });
    hoist.ok(&["down"]);
}
