//! Putting a snapshot back, over a fake engine.

use std::path::Path;
use std::sync::Arc;

use hoist::cluster::snapshot::{SnapshotError, read, restore, supported};
use hoist::config::defaults;
use hoist_phases::ports::{Network, Runtime};
use hoist_phases::spec::{Backend, BootstrapToken, ClusterName, ClusterSpec};

use crate::support::fake_runtime::FakeRuntime;

fn spec() -> ClusterSpec {
    let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
    defaults(ClusterName::new("c").unwrap(), token)
}

#[tokio::test]
async fn nothing_is_stopped_when_the_data_can_not_be_laid_down() {
    let engine = Arc::new(FakeRuntime::default());
    engine.run("c", "etcd", "hoist-c-etcd", Network::None).await;
    // Its programs never end, as on an engine that breaks.
    let runtime: Arc<dyn Runtime> = Arc::clone(&engine) as _;
    let error = restore(&runtime, &spec(), b"content".to_vec()).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Tool(_)), "{error}");
    let calls = engine.calls();
    assert!(!calls.iter().any(|call| call.starts_with("stop")), "{calls:?}");
    assert_eq!(engine.names(), ["hoist-c-etcd", "hoist-c-etcd", "hoist-c-etcd-data"], "no tool is left");
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
