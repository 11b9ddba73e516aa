//! The namespace that all components share.

use std::time::Instant;

use bollard::models::NetworkDisconnectRequest;

use super::{NOT_WELL, mend, status};
use crate::support::{Hoist, Writer, block, deploy, engine, forwarded, tell};

/// moby/moby#36334, kubevirtci#986: a restarted owner has another namespace, and its sharers sit in the old one.
#[test]
fn moby_36334_a_restarted_owner_is_told_of_and_mended() {
    let hoist = Hoist::new("owner");
    hoist.ok(&["up", "--nodes", "1"]);
    let writer = Writer::start(&hoist);
    writer.goes_on(Instant::now());
    let owner = format!("hoist-{}-owner", hoist.name);
    let begin = Instant::now();
    block(engine().docker().restart_container(&owner, None)).expect("the container exists");
    let (code, status) = status(&hoist);
    assert_eq!((code, status["overall"].as_str()), (Some(NOT_WELL), Some("degraded")), "{status}");
    let told = status["problems"].to_string();
    assert!(told.contains("kube-apiserver is in the network namespace of an earlier run"), "{told}");
    assert!(!told.contains("data lost"), "etcd still held it: {told}");
    mend(&hoist, "owner restarted");
    writer.goes_on(Instant::now());
    let gap = writer.longest_gap(begin).as_millis();
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("owner restarted: none of {count} acknowledged writes lost, {gap} ms without one"));
}

/// Somebody may take it off the engine's network: its ports go with that.
#[test]
fn a_disconnected_owner_is_told_of_and_mended() {
    let hoist = Hoist::new("off");
    hoist.ok(&["up", "--nodes", "1"]);
    let writer = Writer::start(&hoist);
    writer.goes_on(Instant::now());
    let owner = format!("hoist-{}-owner", hoist.name);
    let begin = Instant::now();
    let request = NetworkDisconnectRequest { container: owner, force: Some(true) };
    block(engine().docker().disconnect_network("bridge", request)).expect("it is on the engine's network");
    let (code, status) = status(&hoist);
    assert_eq!((code, status["overall"].as_str()), (Some(NOT_WELL), Some("degraded")), "{status}");
    mend(&hoist, "owner disconnected");
    writer.goes_on(Instant::now());
    let gap = writer.longest_gap(begin).as_millis();
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("owner disconnected: none of {count} acknowledged writes lost, {gap} ms without one"));
}

/// As after the loss of all data, when nodes register again in another order.
#[test]
fn a_node_that_registers_again_gets_another_range_of_pods() {
    let hoist = Hoist::new("range");
    hoist.ok(&["up", "--nodes", "2"]);
    deploy(&hoist);
    let range = |node: &str| hoist.kubectl(&["get", "node", node, "-o", "jsonpath={.spec.podCIDR}"]);
    let prefix =
        |range: String| range.rsplit_once('.').map(|(prefix, _)| format!("{prefix}.")).expect("IPv4");
    let before = ["node01", "node02"].map(range);
    hoist.kubectl(&["delete", "node", "node01", "node02"]);
    mend(&hoist, "two nodes deleted from the API");
    let after = ["node01", "node02"].map(range);
    assert_ne!(before, after, "the ranges go on where they were");

    // Pods that were there are gone with their node, or made anew; both must answer each other all the same.
    hoist.kubectl(&[
        "delete",
        "pod",
        "client",
        "server",
        "--ignore-not-found",
        "--force",
        "--grace-period=0",
    ]);
    deploy(&hoist);
    for (pod, range) in ["client", "server"].into_iter().zip(after) {
        let address = hoist.kubectl(&["get", "pod", pod, "-o", "jsonpath={.status.podIP}"]);
        assert!(address.starts_with(&prefix(range.clone())), "{pod}: {address} is not of {range}");
    }
    assert!(forwarded(&hoist).contains("I am server"));
    hoist.kubectl(&["exec", "client", "--", "getent", "hosts", "server.default.svc.cluster.local"]);
    let (code, told) = status(&hoist);
    assert_eq!(code, Some(0), "{told}");
}
