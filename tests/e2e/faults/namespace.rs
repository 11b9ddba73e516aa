//! The namespace that all components share.

use std::time::Instant;

use bollard::models::NetworkDisconnectRequest;

use super::{NOT_WELL, mend, status};
use crate::support::{Hoist, Writer, block, engine, tell};

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
