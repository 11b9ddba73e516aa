//! Draining nodes that live and nodes that are dead, over a fake engine and a fake API.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use hoist::nodes::drain::{Machine, drain};
use hoist_phases::engine::PhaseError;
use hoist_phases::object::{Object, ObjectRef};
use hoist_phases::ports::{Applied, Eviction, KubeApi, KubeError, Network, Runtime as _};
use serde_json::{Value, json};

use crate::support::fake_runtime::FakeRuntime;

const MACHINE: &str = "hoist-c-node02";

/// An API server with one Node and two pods on it, one of which a budget protects. No kubelet ends
/// what is evicted.
struct FakeApi {
    ready: &'static str,
    /// Names of the pods whose eviction was asked for.
    asked: Mutex<Vec<String>>,
}

impl FakeApi {
    fn new(ready: &'static str) -> Self {
        Self { ready, asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn unasked<T>() -> T {
        panic!("not asked for by a drain")
    }
}

#[async_trait]
impl KubeApi for FakeApi {
    async fn get_path(&self, _: &str) -> Result<(u16, String), KubeError> {
        Self::unasked()
    }
    async fn get(&self, _: &ObjectRef) -> Result<Option<Value>, KubeError> {
        let ready = json!({"type": "Ready", "status": self.ready, "message": "Kubelet stopped posting"});
        Ok(Some(json!({"metadata": {"name": "node02"}, "status": {"conditions": [ready]}})))
    }
    async fn list(&self, _: &str, _: &str, _: Option<&str>) -> Result<Vec<Value>, KubeError> {
        let asked = self.asked();
        let pod = |name: &str| {
            let mut pod =
                json!({"metadata": {"namespace": "a", "name": name}, "spec": {"nodeName": "node02"}});
            if name == "free" && asked.iter().any(|asked| asked == name) {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            pod
        };
        Ok(vec![pod("free"), pod("kept")])
    }
    async fn apply(&self, _: &Object) -> Result<Applied, KubeError> {
        Self::unasked()
    }
    async fn create(&self, _: &Value) -> Result<Value, KubeError> {
        Self::unasked()
    }
    async fn merge_patch(&self, _: &ObjectRef, patch: &Value) -> Result<Value, KubeError> {
        assert_eq!(patch["spec"]["unschedulable"], true);
        Ok(Value::Null)
    }
    async fn delete(&self, _: &ObjectRef) -> Result<(), KubeError> {
        Self::unasked()
    }
    async fn evict(&self, _: &str, pod: &str) -> Result<Eviction, KubeError> {
        self.asked.lock().unwrap().push(pod.to_owned());
        Ok(if pod == "kept" { Eviction::Blocked("its budget".to_owned()) } else { Eviction::Granted })
    }
}

async fn engine() -> FakeRuntime {
    let engine = FakeRuntime::default();
    engine.run("c", "node", MACHINE, Network::None).await;
    engine
}

async fn drained(api: &FakeApi, engine: Option<&FakeRuntime>) -> Result<Option<String>, PhaseError> {
    let machine = engine.map(|runtime| Machine { runtime, container: MACHINE });
    drain(api, "node02", machine, Duration::from_millis(300)).await
}

#[tokio::test]
async fn pods_that_end_on_a_node_that_lives_are_waited_for() {
    let (engine, api) = (engine().await, FakeApi::new("True"));
    let error = drained(&api, Some(&engine)).await.unwrap_err().to_string();
    assert!(error.contains("pod a/free is ending; pod a/kept: its budget"), "{error}");
    // What has been granted is not asked for again, what a budget forbade is.
    let asked = api.asked();
    assert_eq!(asked.iter().filter(|pod| *pod == "free").count(), 1, "{asked:?}");
    assert!(asked.iter().filter(|pod| *pod == "kept").count() > 1, "{asked:?}");
}

/// Its kubelet has said Ready a moment ago, which the API believes for some time.
#[tokio::test]
async fn pods_of_a_machine_that_does_not_run_are_evicted_and_not_waited_for() {
    let (stopped, removed) = (engine().await, engine().await);
    stopped.stop(MACHINE, 0).await.unwrap();
    removed.remove(MACHINE).await.unwrap();
    for engine in [stopped, removed] {
        let api = FakeApi::new("True");
        let told = drained(&api, Some(&engine)).await.unwrap();
        assert_eq!(
            told.as_deref(),
            Some("its machine does not run; not waited for: pod a/free is ending; pod a/kept: its budget")
        );
        assert_eq!(api.asked(), ["free", "kept"]);
    }
}

#[tokio::test]
async fn pods_of_a_node_that_is_not_ready_are_evicted_and_not_waited_for() {
    let engine = engine().await;
    // A machine of hoist's that runs and hangs, and one of somebody else's.
    for machine in [Some(&engine), None] {
        let api = FakeApi::new("Unknown");
        let told = drained(&api, machine).await.unwrap().unwrap();
        assert!(told.starts_with("it is not Ready (Kubelet stopped posting); not waited for: "), "{told}");
        assert_eq!(api.asked(), ["free", "kept"]);
    }
}
