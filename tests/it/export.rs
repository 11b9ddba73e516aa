//! What `hoist export` gathers, over a fake API without an engine.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hoist::cluster::export::{Sources, Summary, export};
use hoist::store::StateRoot;
use hoist_phases::object::{Object, ObjectRef};
use hoist_phases::ports::{Applied, Eviction, KubeApi, KubeError};
use hoist_phases::spec::ClusterName;
use serde_json::{Value, json};

const PASSWORD: &str = "correct horse battery";

/// Has a Secret, and a ConfigMap and a pod that tell it. One group of kinds doesn't answer.
struct FakeApi {
    secrets: bool,
}

impl FakeApi {
    fn refusal() -> KubeError {
        KubeError::Unreachable {
            operation: "list",
            object: "all Secret".to_owned(),
            source: "connection refused".into(),
        }
    }
}

#[async_trait]
impl KubeApi for FakeApi {
    async fn get_path(&self, path: &str) -> Result<(u16, String), KubeError> {
        let kind = |name: &str| json!({"name": name, "verbs": ["list"]});
        let answer = match path {
            "/apis" => json!({"groups": [
                {"name": "dead", "preferredVersion": {"groupVersion": "dead.example.com/v1"}}]}),
            "/api/v1" => json!({"resources": [kind("configmaps"), kind("secrets")]}),
            "/api/v1/configmaps" => json!({"kind": "ConfigMapList", "items": [{"data": {"said": PASSWORD}}]}),
            "/api/v1/secrets" => {
                json!({"kind": "SecretList", "items": [{"data": {"p": STANDARD.encode(PASSWORD)}}]})
            }
            "/version" => json!({"gitVersion": "v1"}),
            "/readyz?verbose" => json!("[-]etcd failed"),
            path if path.contains("/log?") => json!(format!("they said {PASSWORD}")),
            _ => return Ok((503, "no endpoints".to_owned())),
        };
        Ok((200, answer.to_string()))
    }
    async fn get(&self, _: &ObjectRef) -> Result<Option<Value>, KubeError> {
        panic!("an export lists")
    }
    async fn list(&self, _: &str, kind: &str, _: Option<&str>) -> Result<Vec<Value>, KubeError> {
        match kind {
            "Secret" if !self.secrets => Err(Self::refusal()),
            "Secret" => Ok(vec![json!({"kind": "Secret", "data": {"p": STANDARD.encode(PASSWORD)}})]),
            "Pod" => Ok(vec![json!({"metadata": {"namespace": "n", "name": "p"},
                "status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}})]),
            _ => Ok(vec![json!({"message": PASSWORD})]),
        }
    }
    async fn apply(&self, _: &Object) -> Result<Applied, KubeError> {
        panic!("an export only reads")
    }
    async fn create(&self, _: &Value) -> Result<Value, KubeError> {
        panic!("an export only reads")
    }
    async fn merge_patch(&self, _: &ObjectRef, _: &Value) -> Result<Value, KubeError> {
        panic!("an export only reads")
    }
    async fn evict(&self, _: &str, _: &str) -> Result<Eviction, KubeError> {
        panic!("an export only reads")
    }
    async fn delete(&self, _: &ObjectRef) -> Result<(), KubeError> {
        panic!("an export only reads")
    }
}

async fn exported(directory: &Path, secrets: bool) -> Summary {
    let state = StateRoot::new(directory.join("none")).cluster(&ClusterName::new("c").unwrap());
    let sources = Sources {
        engine: Err("there is no engine".to_owned()),
        api: Ok(Arc::new(FakeApi { secrets })),
        spec: Err("there are no settings".to_owned()),
        cluster: "c",
        state: &state,
    };
    let summary = export(directory, &sources, Vec::new()).await.unwrap();
    for file in &summary.files {
        let content = std::fs::read_to_string(directory.join(file)).unwrap();
        assert!(
            !content.contains(PASSWORD) && !content.contains(&STANDARD.encode(PASSWORD)),
            "{file}: {content}"
        );
    }
    summary
}

fn missing(summary: &Summary) -> Vec<&str> {
    summary.missing.iter().map(|missing| missing.path.as_str()).collect()
}

/// Nothing that could hold what isn't known is written as it is.
#[tokio::test]
async fn without_the_secrets_nothing_that_could_hold_them_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let summary = exported(directory.path(), false).await;
    assert_eq!(missing(&summary), ["containers", "events.txt", "objects", "pods"]);
    assert!(summary.missing[2].reason.contains("connection refused"), "{:?}", summary.missing);
    assert_eq!(summary.files, ["api-readyz.txt", "api-version.json", "errors.txt", "summary.json"]);
}

#[tokio::test]
async fn a_group_of_kinds_that_does_not_answer_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let summary = exported(directory.path(), true).await;
    assert_eq!(missing(&summary), ["containers", "objects of /apis/dead.example.com/v1"]);
    let read = |file: &str| std::fs::read_to_string(directory.path().join(file)).unwrap();
    assert!(read("objects/configmaps.json").contains("\"said\": \"[redacted]\""));
    assert!(read("pods/n/p/c.log").contains("they said [redacted]"));
}
