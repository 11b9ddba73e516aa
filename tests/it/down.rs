//! Taking clusters down, over a fake engine.

use std::time::Duration;

use hoist::cluster::down::{SETTLE, Snapshot, Thing, down, down_since};
use hoist::store::{StateDir, StateRoot};
use hoist_phases::ports::{Network, Runtime as _, Store as _};
use hoist_phases::spec::ClusterName;
use tempfile::TempDir;

use crate::support::fake_runtime::FakeRuntime;

fn state(temp: &TempDir, cluster: &str) -> StateDir {
    StateRoot::new(temp.path()).cluster(&ClusterName::new(cluster).unwrap())
}

/// A cluster of owner, two sharers and a node, by the names that sort against the order of removal.
async fn cluster(engine: &FakeRuntime, name: &str) {
    let owner = format!("hoist-{name}-a-owner");
    engine.run(name, "owner", &owner, Network::Own).await;
    for role in ["etcd", "kube-apiserver"] {
        engine.run(name, role, &format!("hoist-{name}-{role}"), Network::Container(owner.clone())).await;
    }
    engine.run(name, "node", &format!("hoist-{name}-node01"), Network::None).await;
}

fn removals(engine: &FakeRuntime) -> Vec<String> {
    engine.calls().into_iter().filter(|call| call.starts_with("remove")).collect()
}

#[tokio::test]
async fn nodes_go_first_and_the_namespace_last() {
    let (temp, engine) = (TempDir::new().unwrap(), FakeRuntime::default());
    cluster(&engine, "one").await;
    cluster(&engine, "two").await;
    let state = state(&temp, "one");
    state.write("pki/ca.key", b"key").unwrap();

    let removed = down(&engine, &state).await.unwrap().into_result().unwrap();
    assert_eq!(
        removals(&engine),
        [
            "remove hoist-one-node01",
            "remove hoist-one-etcd",
            "remove hoist-one-kube-apiserver",
            "remove hoist-one-a-owner",
            "remove_volume hoist-one-a-owner-data",
            "remove_volume hoist-one-etcd-data",
            "remove_volume hoist-one-kube-apiserver-data",
            "remove_volume hoist-one-node01-data",
        ]
    );
    assert_eq!(removed.len(), 9);
    assert!(matches!(removed.last(), Some(Thing::StateDirectory(_))));
    assert!(!state.exists());
    assert!(engine.names().iter().all(|name| name.starts_with("hoist-two")), "{:?}", engine.names());
    assert_eq!(engine.names().len(), 8, "the other cluster is whole");

    let again = down(&engine, &state).await.unwrap().into_result().unwrap();
    assert!(again.is_empty(), "{again:?}");
}

#[tokio::test]
async fn one_stubborn_container_stops_nothing_else() {
    let (temp, engine) = (TempDir::new().unwrap(), FakeRuntime::default());
    cluster(&engine, "one").await;
    let state = state(&temp, "one");
    engine.fail("remove", "hoist-one-etcd", "device or resource busy");
    engine.fail("remove_volume", "hoist-one-etcd-data", "volume is in use");

    let nothing = Snapshot::default();
    let once = down_since(&engine, &state, &nothing, Duration::ZERO).await.unwrap();
    let error = once.into_result().unwrap_err().to_string();
    assert!(
        error.contains("container hoist-one-etcd: remove hoist-one-etcd: device or resource busy"),
        "{error}"
    );
    assert!(error.contains("volume hoist-one-etcd-data: "), "{error}");
    assert_eq!(engine.names(), ["hoist-one-etcd", "hoist-one-etcd-data"]);

    engine.heal();
    assert_eq!(down(&engine, &state).await.unwrap().into_result().unwrap().len(), 2);
    assert!(engine.names().is_empty());
}

#[tokio::test]
async fn an_engine_that_can_not_tell_is_an_error() {
    let (temp, engine) = (TempDir::new().unwrap(), FakeRuntime::default());
    let state = state(&temp, "one");
    state.write("pki/ca.key", b"key").unwrap();
    engine.fail("list", "one", "no such host");
    assert!(down(&engine, &state).await.is_err());
    assert!(state.exists(), "keys of containers that may still run are kept");
}

#[tokio::test]
async fn a_failed_run_takes_back_only_what_it_made() {
    let (temp, engine) = (TempDir::new().unwrap(), FakeRuntime::default());
    cluster(&engine, "one").await;
    let state = state(&temp, "one");
    state.write("pki/ca.key", b"key").unwrap();
    let before = Snapshot::take(&engine, &state).await.unwrap();
    assert!(!before.is_empty());

    engine.run("one", "node", "hoist-one-node02", Network::None).await;
    // Of a container that the run has made anew and that stays.
    engine.add_volume("one", &"ab".repeat(32));
    let removed = down_since(&engine, &state, &before, SETTLE).await.unwrap().into_result().unwrap();
    let [container, volume] = ["hoist-one-node02", "hoist-one-node02-data"].map(str::to_owned);
    assert_eq!(removed, [Thing::Container(container), Thing::Volume(volume)]);
    assert!(state.exists(), "the state directory was there before");
    assert_eq!(engine.list(Some("one")).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_failed_first_run_leaves_nothing() {
    let (temp, engine) = (TempDir::new().unwrap(), FakeRuntime::default());
    let state = state(&temp, "one");
    let before = Snapshot::take(&engine, &state).await.unwrap();
    assert!(before.is_empty());
    state.write("pki/ca.key", b"key").unwrap();
    cluster(&engine, "one").await;
    down_since(&engine, &state, &before, SETTLE).await.unwrap().into_result().unwrap();
    assert!(engine.names().is_empty() && !state.exists());
}
