//! Status, over a fake engine and a fake API.

use async_trait::async_trait;
use hoist::cluster::status::{Overall, Status, status};
use hoist_phases::object::{Object, ObjectRef};
use hoist_phases::phases::upgrade::rules;
use hoist_phases::ports::{
    Applied, Eviction, ExecOutput, KubeApi, KubeError, Network, PublishedPort, Status as Run,
};
use hoist_phases::spec::{
    BootstrapToken, ClusterName, ClusterSpec, Component, KubernetesVersion, NodeKind, NodeSpec,
    PlacementPolicy, Protocol, Reach,
};
use serde_json::{Value, json};

use crate::support::fake_runtime::FakeRuntime;

/// A fake API server that knows Nodes and metrics, or is down.
#[derive(Default)]
struct FakeApi {
    nodes: Vec<Value>,
    metrics: String,
    down: bool,
}

impl FakeApi {
    fn answer<T>(&self, value: T) -> Result<T, KubeError> {
        if !self.down {
            return Ok(value);
        }
        let source = "connection refused".into();
        Err(KubeError::Unreachable { operation: "list", object: "all Node".to_owned(), source })
    }

    fn unasked<T>() -> Result<T, KubeError> {
        panic!("status only reads")
    }
}

#[async_trait]
impl KubeApi for FakeApi {
    async fn get_path(&self, _: &str) -> Result<(u16, String), KubeError> {
        self.answer((200, self.metrics.clone()))
    }
    async fn get(&self, _: &ObjectRef) -> Result<Option<Value>, KubeError> {
        Self::unasked()
    }
    async fn list(&self, _: &str, _: &str, _: Option<&str>) -> Result<Vec<Value>, KubeError> {
        self.answer(self.nodes.clone())
    }
    async fn apply(&self, _: &Object) -> Result<Applied, KubeError> {
        Self::unasked()
    }
    async fn create(&self, _: &Value) -> Result<Value, KubeError> {
        Self::unasked()
    }
    async fn merge_patch(&self, _: &ObjectRef, _: &Value) -> Result<Value, KubeError> {
        Self::unasked()
    }
    async fn evict(&self, _: &str, _: &str) -> Result<Eviction, KubeError> {
        Ok(Eviction::Granted)
    }

    async fn delete(&self, _: &ObjectRef) -> Result<(), KubeError> {
        Self::unasked()
    }
}

fn node(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:09Z"},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "192.168.66.101"}],
            "conditions": [{"type": "Ready", "status": ready, "message": "cni plugin not initialized"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    })
}

fn said(code: i64, stdout: &str) -> ExecOutput {
    ExecOutput { code, stdout: stdout.to_owned(), stderr: String::new() }
}

async fn healthy() -> (FakeRuntime, FakeApi) {
    let engine = FakeRuntime::default();
    for component in Component::ALL
        .into_iter()
        .filter(|component| component.is_in_every_cluster() || *component == Component::Etcd)
    {
        let network = match component {
            Component::Owner => Network::Own,
            _ => Network::Container("hoist-c-owner".to_owned()),
        };
        engine.run("c", component.name(), &format!("hoist-c-{component}"), network).await;
    }
    engine.run("c", "node", "hoist-c-node01", Network::None).await;
    engine.on_exec(|_, _, _| said(0, ""));
    let published =
        PublishedPort { container: 6443, host: "127.0.0.1:32768".parse().unwrap(), protocol: Protocol::Tcp };
    engine.change("hoist-c-owner", |owner| owner.published.push(published));
    (engine, FakeApi { nodes: vec![node("node01", "True")], ..FakeApi::default() })
}

fn spec() -> ClusterSpec {
    let token = BootstrapToken::parse("abcdef.1234567890123456").unwrap();
    let mut spec = hoist::config::defaults(ClusterName::new("c").unwrap(), token);
    spec.etcd.quota_bytes = 1 << 20;
    spec
}

async fn look(engine: &FakeRuntime, api: &FakeApi) -> Status {
    status(engine, Some(api), "c", Some(&spec()), None).await.unwrap()
}

#[tokio::test]
async fn a_healthy_cluster_runs() {
    let (engine, api) = healthy().await;
    let status = look(&engine, &api).await;
    assert_eq!((status.overall, &status.problems), (Overall::Running, &vec![]));
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["overall"], "running");
    assert_eq!(json["components"].as_array().map(Vec::len), Some(7));
    assert_eq!(json["components"][3]["endpoint"], "127.0.0.1:32768");
    assert_eq!(
        json["nodes"],
        json!([{
            "name": "node01", "container": "running", "ready": true, "version": "v1.36.3",
            "addresses": ["192.168.66.101"], "joined": "2026-01-01T00:00:09Z",
        }])
    );
}

#[tokio::test]
async fn only_what_hoist_does_not_run_is_external() {
    let (engine, mut api) = healthy().await;
    api.nodes.extend([node("node02", "True"), node("elsewhere", "True")]);
    let mut spec = spec();
    spec.nodes = [1, 2].map(|number| NodeSpec::new(number, NodeKind::Container).unwrap()).to_vec();
    let status = status(&engine, Some(&api), "c", Some(&spec), None).await.unwrap();
    assert_eq!(status.problems, ["container of node02 is missing"]);
    let kinds: Vec<_> = status.nodes.iter().skip(1).map(|n| (n.name.as_str(), n.kind.as_deref())).collect();
    assert_eq!(kinds, [("node02", Some("container")), ("elsewhere", Some("external"))]);
}

#[tokio::test]
async fn what_this_cluster_alone_has_is_missed() {
    let (engine, api) = healthy().await;
    let spec = ClusterSpec { reach: Reach::Konnectivity, ..spec() };
    let status = status(&engine, Some(&api), "c", Some(&spec), None).await.unwrap();
    assert_eq!(status.problems, ["konnectivity-server is missing"]);
}

#[tokio::test]
async fn a_policy_that_the_server_is_too_old_for_is_noted_and_nothing_is_wrong() {
    let (engine, api) = healthy().await;
    let mut spec = spec();
    spec.kubernetes = KubernetesVersion::parse("v1.35.4").unwrap();
    for component in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let image = format!("localhost/hoist/{component}:v1.35.4");
        engine.change(&format!("hoist-c-{component}"), |state| state.image = image);
    }
    let namespaces = vec!["kubevirt".to_owned()];
    spec.placement.policy = Some(PlacementPolicy { namespaces, ..PlacementPolicy::default() });
    let status = status(&engine, Some(&api), "c", Some(&spec), None).await.unwrap();
    assert_eq!(status.overall, Overall::Running);
    assert!(
        status.notes[0].contains("v1.35.4") && status.notes[0].contains("kubevirt"),
        "{:?}",
        status.notes
    );
}

#[tokio::test]
async fn a_restarted_namespace_owner_degrades_all_sharers() {
    let (engine, api) = healthy().await;
    // Without the engine's zeros at the end, text would compare the wrong way round.
    engine.change("hoist-c-owner", |owner| owner.started_at = "2026-01-01T00:00:06.1Z".to_owned());
    engine.change("hoist-c-kube-scheduler", |s| s.started_at = "2026-01-01T00:00:06.12Z".to_owned());
    let status = look(&engine, &api).await;
    assert_eq!(status.overall, Overall::Degraded);
    let named = |name: &str| status.problems.iter().any(|p| p.starts_with(name) && p.contains("namespace"));
    for sharer in ["dnsmasq", "etcd", "kube-apiserver", "kube-controller-manager"] {
        assert!(named(sharer), "{sharer}: {:?}", status.problems);
    }
    assert!(!named("kube-scheduler"), "it started after the owner: {:?}", status.problems);
    assert!(!named("owner"), "{:?}", status.problems);
}

#[tokio::test]
async fn sharers_of_an_owner_made_anew_are_stranded() {
    let (engine, api) = healthy().await;
    engine.change("hoist-c-owner", |owner| owner.id = "another".to_owned());
    let status = look(&engine, &api).await;
    assert_eq!(status.overall, Overall::Degraded);
    assert_eq!(status.problems.len(), 6, "{:?}", status.problems);
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let (engine, mut api) = healthy().await;
    engine.change("hoist-c-etcd", |etcd| etcd.status = Run::Exited { code: 137, oom_killed: true });
    engine.change("hoist-c-node01", |node| node.status = Run::Exited { code: 255, oom_killed: false });
    api.nodes = vec![node("node02", "False")];
    api.metrics = "apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} 900000\n".to_owned();
    let status = look(&engine, &api).await;
    assert_eq!(status.overall, Overall::Degraded);
    assert_eq!(
        status.problems,
        [
            "etcd is exited (out of memory)",
            "container of node01 is exited (255)",
            "node02 is not Ready: cni plugin not initialized",
            "node01 has not joined",
            "etcd holds 0 MiB of at most 1 MiB; it takes no more writes when that is full; a larger etcd.quota gives it room",
        ]
    );
}

#[tokio::test]
async fn an_etcd_that_takes_no_writes_is_told_with_the_way_out() {
    let (engine, api) = healthy().await;
    engine.on_exec(|name, command, _| match (name, command.last()) {
        ("hoist-c-etcd", Some(&"list")) => said(0, "memberID:8 alarm:NOSPACE \n"),
        _ => said(0, ""),
    });
    let told = look(&engine, &api).await.problems;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("NOSPACE") && told[0].contains("larger etcd.quota"), "{told:?}");
}

#[tokio::test]
async fn what_the_steward_can_not_do_is_told() {
    let (engine, api) = healthy().await;
    engine.on_exec(|name, command, _| {
        if name == "hoist-c-etcd" {
            return said(0, "");
        }
        assert_eq!((name, command.last()), ("hoist-c-steward", Some(&"--health")));
        said(0, "routes: add route 10.244.0.0/24 via 192.168.66.101: unreachable\n")
    });
    let told = look(&engine, &api).await.problems;
    assert_eq!(told, ["steward: routes: add route 10.244.0.0/24 via 192.168.66.101: unreachable"]);
    engine.on_exec(|_, _, _| said(1, "nodes: not seen yet\n"));
    assert_eq!(look(&engine, &api).await.problems, ["steward: nodes: not seen yet"]);
}

#[tokio::test]
async fn an_upgrade_that_was_cut_off_is_told_with_the_way_on() {
    let (engine, api) = healthy().await;
    let server = |version: &str| format!("localhost/hoist/kube-apiserver:{version}");
    engine.change("hoist-c-kube-apiserver", |state| state.image = server("v1.37.2"));
    let wanted = rules::upgraded(&spec(), KubernetesVersion::parse("v1.37.2").unwrap(), true);
    let status = status(&engine, Some(&api), "c", Some(&wanted), None).await.unwrap();
    assert_eq!(status.overall, Overall::Degraded);
    assert_eq!(
        status.problems,
        ["an upgrade to v1.37.2 has not ended: not yet of it are kube-controller-manager, kube-scheduler; \
          `hoist upgrade --name c --kubernetes v1.37.2` goes on"]
    );
    let version = |name: &str| {
        let component = status.components.iter().find(|component| component.name == name);
        component.and_then(|component| component.version).map(|version| version.to_string())
    };
    assert_eq!(version("kube-apiserver").as_deref(), Some("v1.37.2"));
    assert_eq!(version("kube-scheduler").as_deref(), Some("v1.36.3"));
    assert_eq!(version("etcd"), None, "it has versions of its own");
}

#[tokio::test]
async fn a_silent_api_degrades() {
    let (engine, api) = healthy().await;
    let status = look(&engine, &FakeApi { down: true, ..api }).await;
    assert_eq!(status.overall, Overall::Degraded);
    assert!(status.problems[0].ends_with("connection refused"), "{:?}", status.problems);
}

#[tokio::test]
async fn stopped_and_absent_are_not_degraded() {
    let (engine, api) = healthy().await;
    for container in [
        "owner",
        "dnsmasq",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "steward",
        "node01",
    ] {
        engine.change(&format!("hoist-c-{container}"), |c| {
            c.status = Run::Exited { code: 0, oom_killed: false }
        });
    }
    assert_eq!(look(&engine, &api).await.overall, Overall::Stopped);
    let absent = status(&engine, None, "other", None, None).await.unwrap();
    assert_eq!((absent.overall, absent.components.len(), absent.problems.len()), (Overall::Absent, 0, 0));
}

#[tokio::test]
async fn a_frozen_cluster_is_paused_and_nobody_is_asked() {
    let (engine, api) = healthy().await;
    let all: Vec<_> = engine.names().into_iter().filter(|name| !name.ends_with("-data")).collect();
    for name in &all {
        engine.change(name, |container| container.status = Run::Paused);
    }
    let told =
        status(&engine, Some(&FakeApi { down: true, ..api }), "c", Some(&spec()), Some("uid")).await.unwrap();
    assert_eq!(told.overall, Overall::Paused);
    assert_eq!(told.problems, ["8 containers are paused; `hoist resume` lets them go on"]);
    assert_eq!(told.nodes[0].container.as_deref(), Some("paused"));
    // One that goes on makes it a cluster that isn't well.
    engine.change("hoist-c-owner", |owner| owner.status = Run::Running);
    assert_eq!(look(&engine, &FakeApi::default()).await.overall, Overall::Degraded);
}

#[tokio::test]
async fn lost_data_is_told_of() {
    let lost = |status: &Status| status.problems.iter().any(|problem| problem.starts_with("data lost"));
    let (engine, mut api) = healthy().await;
    let look = async |engine: &FakeRuntime, api: &FakeApi, spec: &ClusterSpec| {
        status(engine, Some(api), "c", Some(spec), Some("first")).await.unwrap()
    };
    for (answer, gone) in
        [(r#"{"metadata": {"uid": "first"}}"#, false), (r#"{"metadata": {"uid": "second"}}"#, true)]
    {
        api.metrics = answer.to_owned();
        assert_eq!(lost(&look(&engine, &api, &spec()).await), gone, "{answer}");
    }
    api.metrics.clear();
    // The owner alone holds it too.
    let ended = Run::Exited { code: 137, oom_killed: false };
    engine.change("hoist-c-etcd", |etcd| etcd.status = ended.clone());
    assert!(!lost(&look(&engine, &api, &spec()).await));
    engine.change("hoist-c-owner", |owner| owner.status = ended);
    assert!(lost(&look(&engine, &api, &spec()).await));
    let mut durable = spec();
    durable.etcd.durable = true;
    assert!(!lost(&look(&engine, &api, &durable).await));
    // Before the first `up` has ended there is nothing to lose.
    assert!(!lost(&status(&engine, Some(&api), "c", Some(&spec()), None).await.unwrap()));
}
