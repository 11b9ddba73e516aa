//! Freezing a cluster and letting it go on, over a fake engine.

use hoist::cluster::pause::{pause, resume};
use hoist_phases::ports::{ContainerState, Network, Runtime as _, Status};

use crate::support::fake_runtime::FakeRuntime;

async fn cluster() -> FakeRuntime {
    let engine = FakeRuntime::default();
    for role in ["owner", "etcd", "kube-apiserver", "kube-controller-manager", "steward", "node"] {
        engine.run("c", role, &format!("hoist-c-{role}"), Network::None).await;
    }
    engine.run("other", "owner", "hoist-other-owner", Network::None).await;
    engine
}

async fn paused(engine: &FakeRuntime, cluster: &str) -> usize {
    let all: Vec<ContainerState> = engine.list(Some(cluster)).await.unwrap();
    all.iter().filter(|container| container.status == Status::Paused).count()
}

/// Positions of what was asked of containers, by role.
fn order(engine: &FakeRuntime, operation: &str) -> Vec<String> {
    let prefix = format!("{operation} hoist-c-");
    engine.calls().iter().filter_map(|call| call.strip_prefix(&prefix).map(str::to_owned)).collect()
}

#[tokio::test]
async fn clients_are_frozen_first_and_go_on_last() {
    let engine = cluster().await;
    assert_eq!(pause(&engine, "c").await.unwrap(), 6);
    assert_eq!((paused(&engine, "c").await, paused(&engine, "other").await), (6, 0));
    let frozen = order(&engine, "pause");
    assert_eq!(frozen[2..], ["node", "kube-apiserver", "etcd", "owner"], "{frozen:?}");
    // Again changes nothing.
    assert_eq!(pause(&engine, "c").await.unwrap(), 0);

    assert_eq!(resume(&engine, "c").await.unwrap(), 6);
    let resumed = order(&engine, "unpause");
    assert_eq!(resumed[..4], ["owner", "etcd", "kube-apiserver", "node"], "{resumed:?}");
    assert_eq!(resume(&engine, "c").await.unwrap(), 0);
}

#[tokio::test]
async fn a_cluster_is_never_half_frozen() {
    let engine = cluster().await;
    engine.fail("pause", "hoist-c-etcd", "no freezer");
    let error = pause(&engine, "c").await.unwrap_err().to_string();
    assert!(error.contains("hoist-c-etcd"), "{error}");
    assert_eq!(paused(&engine, "c").await, 0);
}

#[tokio::test]
async fn one_that_stays_frozen_does_not_keep_the_others() {
    let engine = cluster().await;
    pause(&engine, "c").await.unwrap();
    engine.fail("unpause", "hoist-c-etcd", "no freezer");
    let error = resume(&engine, "c").await.unwrap_err().to_string();
    assert!(error.contains("hoist-c-etcd"), "{error}");
    assert_eq!(paused(&engine, "c").await, 1);
}
