//! The phase `upgrade`, over a fake engine and a fake API.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hoist::store::StateRoot;
use hoist_phases::engine::{Events, PhaseError};
use hoist_phases::events::Outcome;
use hoist_phases::object::{Object, ObjectRef};
use hoist_phases::phases::upgrade::{UpgradeError, is_whole, rules, stale};
use hoist_phases::phases::{Context, NetworkFacts, Outputs, PHASES, PhaseId};
use hoist_phases::ports::{
    Applied, ContainerState, Eviction, ExecOutput, KubeApi, KubeConnect, KubeError, Network, Ports,
    Runtime as _,
};
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec, Component, KubernetesVersion};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::fake_runtime::FakeRuntime;

const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn name(component: &str) -> String {
    format!("hoist-c-{component}")
}

/// Answers as whatever runs in the engine would.
struct FakeApi(Arc<FakeRuntime>);

#[async_trait]
impl KubeConnect for FakeApi {
    async fn connect(&self, _: &str) -> Result<Arc<dyn KubeApi>, KubeError> {
        Ok(Arc::new(Self(Arc::clone(&self.0))))
    }
}

#[async_trait]
impl KubeApi for FakeApi {
    async fn get_path(&self, path: &str) -> Result<(u16, String), KubeError> {
        let server = self.0.inspect(&name("kube-apiserver")).await.unwrap().unwrap();
        let version = server.image.rsplit(':').next().unwrap_or_default();
        Ok(match path {
            "/version" => (200, json!({"gitVersion": version}).to_string()),
            _ => (200, "ok".to_owned()),
        })
    }
    async fn list(&self, _: &str, kind: &str, _: Option<&str>) -> Result<Vec<Value>, KubeError> {
        assert_eq!(kind, "ComponentStatus");
        let healthy = |name: &str| json!({"metadata": {"name": name}, "conditions": [{"type": "Healthy", "status": "True"}]});
        Ok(["controller-manager", "scheduler"].map(healthy).to_vec())
    }
    async fn get(&self, _: &ObjectRef) -> Result<Option<Value>, KubeError> {
        panic!("nothing else is asked")
    }
    async fn apply(&self, _: &Object) -> Result<Applied, KubeError> {
        panic!("nothing is applied")
    }
    async fn create(&self, _: &Value) -> Result<Value, KubeError> {
        panic!("nothing is created")
    }
    async fn merge_patch(&self, _: &ObjectRef, _: &Value) -> Result<Value, KubeError> {
        panic!("nothing is patched")
    }
    async fn delete(&self, _: &ObjectRef) -> Result<(), KubeError> {
        panic!("nothing is deleted")
    }
    async fn evict(&self, _: &str, _: &str) -> Result<Eviction, KubeError> {
        panic!("nothing is evicted")
    }
}

/// The default cluster's control plane, with a node, as it runs before an upgrade.
async fn engine() -> Arc<FakeRuntime> {
    let engine = Arc::new(FakeRuntime::default());
    engine.run("c", "owner", &name("owner"), Network::Own).await;
    for component in COMPONENTS {
        let network = Network::Container(name("owner"));
        engine.run("c", component, &name(component), network).await;
    }
    engine.run("c", "node", &name("node01"), Network::None).await;
    engine.on_exec(|_, command, _| {
        let version = KubernetesVersion { minor: 37, patch: 2 };
        let stdout = match command.last() {
            Some(&"--version") => format!("Kubernetes {version}\n"),
            _ => String::new(),
        };
        ExecOutput { code: 0, stdout, stderr: String::new() }
    });
    engine
}

fn clusters(same_etcd: bool) -> (ClusterSpec, ClusterSpec) {
    let token = BootstrapToken::generate().expect("random numbers");
    let present = hoist::config::defaults(ClusterName::new("c").unwrap(), token);
    let wanted = rules::upgraded(&present, KubernetesVersion { minor: 37, patch: 2 }, same_etcd);
    (present, wanted)
}

/// Runs the phase with the keys that those before it make.
async fn run(engine: &Arc<FakeRuntime>, spec: &ClusterSpec) -> Result<Outcome, PhaseError> {
    let temp = TempDir::new()?;
    let (sender, _receiver) = unbounded_channel();
    let cx = Context {
        ports: Ports {
            runtime: Arc::clone(engine) as _,
            store: Arc::new(StateRoot::new(temp.path()).cluster(&spec.name)),
            connect: Arc::new(FakeApi(Arc::clone(engine))),
        },
        spec: Arc::new(spec.clone()),
        outputs: Arc::new(Outputs::default()),
        events: Events::new(sender),
        timeout: Duration::from_secs(60),
    };
    let api = "127.0.0.1:6443".parse()?;
    cx.outputs.network.set(NetworkFacts { registry: None, api, mtu: 1500, nofile: 1024 });
    let phase = |id| PHASES.iter().find(|phase| phase.id == id).unwrap();
    for id in [PhaseId::Certs, PhaseId::Kubeconfig] {
        (phase(id).run)(&cx).await?;
    }
    (phase(PhaseId::Upgrade).run)(&cx).await
}

/// What was made, fed and asked after the first `before` calls, in order, without looks at containers.
fn done(engine: &FakeRuntime, before: usize) -> Vec<String> {
    let told = ["create", "feed_image", "exec"];
    let calls =
        engine.calls().into_iter().skip(before).filter(|call| told.iter().any(|told| call.starts_with(told)));
    calls.map(|call| call.replace("hoist-c-", "")).collect()
}

fn position(calls: &[String], call: &str) -> usize {
    let found = calls.iter().position(|made| made == call);
    found.unwrap_or_else(|| panic!("no {call} in {calls:#?}"))
}

#[tokio::test]
async fn each_component_is_well_before_the_next_is_replaced() {
    let (engine, (_, wanted)) = (engine().await, clusters(false));
    let before = engine.calls().len();
    assert_eq!(run(&engine, &wanted).await.unwrap(), Outcome::Done);
    let calls = done(&engine, before);
    let order = [
        "feed_image localhost/hoist/kube-proxy:v1.37.2 node01",
        "feed_image localhost/hoist/coredns:v1.37.2 node01",
        "create etcd",
        "exec etcd",
        "create kube-apiserver",
        "create kube-scheduler",
        "exec kube-scheduler",
    ];
    assert!(order.map(|call| position(&calls, call)).is_sorted(), "{calls:#?}");
    assert!(position(&calls, "create kube-apiserver") < position(&calls, "create kube-controller-manager"));
    assert!(!calls.iter().any(|call| call.starts_with("create owner") || call.starts_with("create node")));
    let found = engine.list(Some("c")).await.unwrap();
    assert!(is_whole(&found, &wanted) && stale(&found, &wanted).is_empty());

    assert_eq!(run(&engine, &wanted).await.unwrap(), Outcome::Unchanged);
    assert_eq!(done(&engine, before).len(), calls.len(), "nothing is left to do");
}

#[tokio::test]
async fn an_etcd_of_the_same_version_keeps_its_image_even_one_without_tools() {
    let (engine, (present, wanted)) = (engine().await, clusters(true));
    engine.on_exec(|name, _, _| ExecOutput {
        code: if name.ends_with("etcd") { 127 } else { 0 },
        stdout: "Kubernetes v1.37.2\n".to_owned(),
        stderr: String::new(),
    });
    run(&engine, &wanted).await.unwrap();
    let image = |state: Option<ContainerState>| state.unwrap().image;
    let etcd = image(engine.inspect(&name("etcd")).await.unwrap());
    assert_eq!(etcd, format!("localhost/hoist/etcd:{}", present.kubernetes));
    let server = image(engine.inspect(&name("kube-apiserver")).await.unwrap());
    assert_eq!(server, "localhost/hoist/kube-apiserver:v1.37.2");
}

#[tokio::test]
async fn a_component_that_ends_stops_the_upgrade_and_another_run_goes_on() {
    let (engine, (present, wanted)) = (engine().await, clusters(false));
    engine.fail("create", &name("kube-apiserver"), "no room");
    let error = run(&engine, &wanted).await.unwrap_err();
    let error = error.downcast_ref::<UpgradeError>().expect("an error of the upgrade");
    assert_eq!((error.component, error.version.to_string().as_str()), (Component::ApiServer, "v1.37.2"));
    let found = engine.list(Some("c")).await.unwrap();
    let left = [Component::ControllerManager, Component::Scheduler];
    assert_eq!(stale(&found, &wanted), left, "those after it are as they were");
    assert!(!is_whole(&found, &present) && !is_whole(&found, &wanted));

    engine.heal();
    assert_eq!(run(&engine, &wanted).await.unwrap(), Outcome::Done);
    assert!(is_whole(&engine.list(Some("c")).await.unwrap(), &wanted));
}

#[tokio::test]
async fn a_cluster_that_was_never_upgraded_asks_the_engine_nothing() {
    let (engine, (present, _)) = (engine().await, clusters(true));
    let before = engine.calls().len();
    assert!(matches!(run(&engine, &present).await.unwrap(), Outcome::Skipped(_)));
    assert_eq!(engine.calls().len(), before);
}
