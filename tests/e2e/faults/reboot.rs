//! All containers of a cluster end at once, as they do with their host.

use std::time::{Duration, Instant};

use super::{NOT_WELL, kill_all, mend, names, status};
use crate::support::{Hoist, Writer, inspect, tell};

/// The port that the engine has published the API on.
fn port(hoist: &Hoist) -> String {
    let owner = inspect(&format!("hoist-{}-owner", hoist.name));
    let port = owner["NetworkSettings"]["Ports"]["6443/tcp"][0]["HostPort"].as_str().map(str::to_owned);
    port.expect("the API port is published")
}

fn says_data_lost(hoist: &Hoist, overall: &str) {
    let begin = Instant::now();
    let (code, status) = status(hoist);
    assert_eq!((code, status["overall"].as_str()), (Some(NOT_WELL), Some(overall)), "{status}");
    let told = status["problems"].to_string();
    assert!(told.contains("data lost"), "{told}");
    // What it says has to be there for a person who waits for it.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

/// In memory, objects go with the containers: `status` says so, and `up` makes the cluster anew, with the
/// nodes and the kubeconfigs that are there.
#[test]
fn a_throw_away_cluster_is_made_anew_after_a_reboot() {
    let hoist = Hoist::new("reboot");
    hoist.ok(&["up", "--nodes", "1"]);
    let copy = hoist.home().join("copy.yaml");
    hoist.ok(&["kubeconfig", "--write", &copy.display().to_string()]);
    hoist.ok(&["kubeconfig", "--merge"]);
    let merged = hoist.home().join(".kube/config");
    hoist.kubectl(&["create", "configmap", "gone"]);
    let before = port(&hoist);

    kill_all(&names(&hoist, |_| true));
    says_data_lost(&hoist, "stopped");
    let done = mend(&hoist, "reboot, in memory");
    assert!(done.stderr.contains("data of cluster"), "{}", done.stderr);
    let gone = hoist.try_kubectl(&["get", "configmap", "gone"]);
    assert!(gone.stderr.contains("NotFound"), "{}", gone.stderr);

    let after = port(&hoist);
    assert_ne!(before, after, "the engine chose the same port: nothing is shown");
    for file in [&copy, &merged] {
        let text = std::fs::read_to_string(file).expect("the file is there");
        assert!(text.contains(&format!("127.0.0.1:{after}")), "{}: no port {after} in it", file.display());
        assert!(!text.contains(&format!("127.0.0.1:{before}")), "{}", file.display());
    }
    // Once told is enough.
    let again = hoist.run(&["up"]);
    assert!(again.code == Some(0) && !again.stderr.contains("warning"), "{}", again.stderr);
}

/// On disk, nothing that was acknowledged is lost.
#[test]
fn a_durable_cluster_loses_nothing_in_a_reboot() {
    let hoist = Hoist::new("durable");
    hoist.ok(&["up", "--nodes", "1", "--durable-etcd"]);
    let writer = Writer::start(&hoist);
    writer.goes_on(Instant::now());
    let killed = Instant::now();
    kill_all(&names(&hoist, |_| true));
    let (code, status) = status(&hoist);
    assert_eq!((code, status["overall"].as_str()), (Some(NOT_WELL), Some("stopped")), "{status}");
    assert!(!status["problems"].to_string().contains("data lost"), "{status}");
    mend(&hoist, "reboot, durable");
    writer.goes_on(Instant::now());
    let gap = writer.longest_gap(killed).as_millis();
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("reboot, durable: none of {count} acknowledged writes lost, {gap} ms without one"));
}

/// Nodes that went on while the data was lost are unknown to the API server, until their kubelets register again.
#[test]
fn nodes_outlive_the_data_of_their_cluster() {
    let hoist = Hoist::new("memory");
    hoist.ok(&["up", "--nodes", "2"]);
    kill_all(&names(&hoist, |role| ["owner", "etcd"].contains(&role)));
    says_data_lost(&hoist, "degraded");
    let done = mend(&hoist, "etcd's memory lost, nodes go on");
    assert!(done.stderr.contains("node01, node02; they register again"), "{}", done.stderr);
    let nodes = hoist.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes, "node/node01\nnode/node02\n");
}
