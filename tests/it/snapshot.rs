//! Putting a snapshot back, over a fake engine.

use std::path::Path;
use std::sync::{Arc, Mutex};

use hoist::cluster::snapshot::{SnapshotError, prepare, read, recover, supported};
use hoist::config::defaults;
use hoist::error::BoxError;
use hoist_phases::ports::{Network, Runtime};
use hoist_phases::spec::{Attach, Backend, BootstrapToken, ClusterName, ClusterSpec, Owner};

use crate::support::fake_runtime::FakeRuntime;

const FREE: &str = "1000000000\n";

fn spec() -> ClusterSpec {
    let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
    defaults(ClusterName::new("c").unwrap(), token)
}

/// What became of etcd's volume, as the scripts leave it.
#[derive(Debug, Default, Clone, PartialEq)]
struct Disk {
    member: &'static str,
    spare: Option<&'static str>,
    /// Whether the data in use carry the mark.
    on_trial: bool,
}

struct Cluster {
    engine: Arc<FakeRuntime>,
    runtime: Arc<dyn Runtime>,
    disk: Arc<Mutex<Disk>>,
}

impl Cluster {
    /// Two components, as after `skipPhases`, on a disk with so much free.
    async fn new(free: &'static str) -> Self {
        let engine = Arc::new(FakeRuntime::default());
        for role in ["etcd", "kube-apiserver"] {
            engine.run("c", role, &format!("hoist-c-{role}"), Network::None).await;
        }
        let disk = Arc::new(Mutex::new(Disk { member: "before", ..Disk::default() }));
        let shared = Arc::clone(&disk);
        engine.on_run(move |spec| {
            let mut disk = shared.lock().unwrap();
            let text = spec.args.join(" ");
            let swapped = |disk: &Disk, on_trial| Disk {
                member: disk.spare.unwrap(),
                spare: Some(disk.member),
                on_trial,
            };
            if spec.name.ends_with("etcdutl") {
                disk.spare = Some("snapshot");
            } else if text.starts_with("df ") {
                return Some((0, free.to_owned()));
            } else if text.contains("echo cut-off") {
                let cut_off = disk.on_trial && disk.spare.is_some();
                return Some((0, if cut_off { "cut-off\n".to_owned() } else { String::new() }));
            } else if text.starts_with("touch ") {
                *disk = swapped(&disk, true);
            } else if text.contains("then mv ") {
                if disk.on_trial && disk.spare.is_some() {
                    *disk = swapped(&disk, false);
                }
                disk.spare = None;
            } else if text.starts_with("rm -f ") {
                *disk = Disk { member: disk.member, ..Disk::default() };
            } else if text.starts_with("[ -e ") {
                disk.spare = disk.spare.filter(|_| disk.on_trial);
            } else {
                return None;
            }
            Some((0, String::new()))
        });
        Self { runtime: Arc::clone(&engine) as _, engine, disk }
    }

    fn disk(&self) -> Disk {
        self.disk.lock().unwrap().clone()
    }

    fn asked(&self, operation: &str) -> Vec<String> {
        let prefix = format!("{operation} hoist-c-");
        let mut asked: Vec<_> = self
            .engine
            .calls()
            .iter()
            .filter_map(|call| call.strip_prefix(&prefix).map(str::to_owned))
            .collect();
        asked.retain(|name| name != "sh" && name != "etcdutl");
        asked
    }
}

fn only(member: &'static str) -> Disk {
    Disk { member, ..Disk::default() }
}

fn told(error: &SnapshotError) -> String {
    hoist_phases::causes(error)
}

#[tokio::test]
async fn a_snapshot_takes_the_place_of_the_data() {
    let (cluster, spec) = (Cluster::new(FREE).await, spec());
    let prepared = prepare(&cluster.runtime, &spec, b"content".to_vec()).await.unwrap();
    assert_eq!(cluster.asked("stop"), [""; 0]);
    let restored = prepared.exchange().await.unwrap();
    assert_eq!(cluster.disk(), Disk { member: "snapshot", spare: Some("before"), on_trial: true });
    // What the cluster doesn't have is neither stopped nor started.
    assert_eq!(cluster.asked("stop"), ["kube-apiserver", "etcd"]);
    restored.keep().await.unwrap();
    assert_eq!(cluster.disk(), only("snapshot"));
}

#[tokio::test]
async fn data_on_which_nothing_is_ready_are_taken_back_and_removed() {
    let (cluster, spec) = (Cluster::new(FREE).await, spec());
    let prepared = prepare(&cluster.runtime, &spec, b"content".to_vec()).await.unwrap();
    let restored = prepared.exchange().await.unwrap();
    let why = restored.undone("not ready".into()).await.unwrap();
    assert_eq!((why.to_string().as_str(), cluster.disk()), ("not ready", only("before")));
}

#[tokio::test]
async fn an_undo_that_fails_tells_both_reasons() {
    let (cluster, spec) = (Cluster::new(FREE).await, spec());
    let prepared = prepare(&cluster.runtime, &spec, b"content".to_vec()).await.unwrap();
    let restored = prepared.exchange().await.unwrap();
    cluster.engine.fail("stop", "hoist-c-etcd", "no answer");
    let why: BoxError = "not ready".into();
    let error = told(&restored.undone(why).await.unwrap_err());
    assert!(error.contains("hoist-c-etcd") && error.contains("not ready"), "{error}");
    assert_eq!(cluster.asked("start").len(), 6, "all are started again: {:?}", cluster.engine.calls());

    // The next run puts back what was there before, and forgets nothing.
    cluster.engine.heal();
    recover(&cluster.runtime, &spec).await.unwrap();
    assert_eq!(cluster.disk(), only("before"));
}

#[tokio::test]
async fn a_component_that_does_not_stop_keeps_the_data_as_they_are() {
    let (cluster, spec) = (Cluster::new(FREE).await, spec());
    let prepared = prepare(&cluster.runtime, &spec, b"content".to_vec()).await.unwrap();
    cluster.engine.fail("stop", "hoist-c-kube-apiserver", "no answer");
    let error = told(&prepared.exchange().await.unwrap_err());
    assert!(error.contains("hoist-c-kube-apiserver"), "{error}");
    assert_eq!(cluster.disk().member, "before");
    assert_eq!(cluster.asked("start")[2..4], ["kube-apiserver", "etcd"]);
}

#[tokio::test]
async fn data_that_do_not_fit_are_refused_before_they_are_laid_down() {
    for (durable, field) in [(false, "etcd.tmpfsSize"), (true, "etcd.durable")] {
        let (cluster, mut spec) = (Cluster::new("104857600\n").await, spec());
        spec.etcd.durable = durable;
        let error = prepare(&cluster.runtime, &spec, vec![0; 1 << 20]).await.unwrap_err().to_string();
        assert!(
            error.starts_with(field) && error.contains("161 MiB") && error.contains("100 MiB"),
            "{error}"
        );
        assert_eq!(cluster.disk(), only("before"));
    }
}

#[tokio::test]
async fn nothing_is_stopped_when_the_data_can_not_be_laid_down() {
    let (cluster, spec) = (Cluster::new(FREE).await, spec());
    cluster.engine.fail("start", "hoist-c-etcdutl", "no answer");
    let error = prepare(&cluster.runtime, &spec, b"content".to_vec()).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Tool(_)), "{error}");
    assert_eq!((cluster.asked("stop"), cluster.disk()), (vec![], only("before")));
    assert!(!cluster.engine.names().iter().any(|name| name.contains("etcdutl") || name.ends_with("-sh")));
}

#[tokio::test]
async fn a_paused_cluster_is_refused() {
    let (cluster, spec) = (Cluster::new(FREE).await, spec());
    cluster.runtime.pause("hoist-c-etcd").await.unwrap();
    let error = recover(&cluster.runtime, &spec).await.unwrap_err().to_string();
    assert!(error.contains("paused") && error.contains("hoist resume"), "{error}");
}

/// Where volumes have names, since a tool of the owner's maker cleans up by them.
#[tokio::test]
async fn no_volume_of_a_tool_stays() {
    let (cluster, mut spec) = (Cluster::new(FREE).await, spec());
    let container = "hoist-c-dnsmasq".to_owned();
    spec.owner = Owner::Attach(Attach { container, prefix: Some("hoist-c".to_owned()), registry: None });
    let before = cluster.engine.names();
    let prepared = prepare(&cluster.runtime, &spec, b"content".to_vec()).await.unwrap();
    prepared.exchange().await.unwrap().keep().await.unwrap();
    let calls = cluster.engine.calls();
    assert!(calls.contains(&"remove_volume hoist-c-etcdutl-snapshot".to_owned()), "{calls:?}");
    let mut left = cluster.engine.names();
    left.retain(|name| !before.contains(name));
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_file_that_is_no_snapshot_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "apiVersion: v1\n").unwrap();
    for path in [file.path(), Path::new("/nowhere/saved.db")] {
        let error = read(&spec(), b"", path).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn data_that_are_not_in_an_etcd_of_the_clusters_own_are_refused() {
    let mut spec = spec();
    assert!(supported(&spec).is_ok());
    spec.etcd.backend = Backend::Kine;
    assert!(supported(&spec).unwrap_err().to_string().contains("etcd.backend kine"));
}
