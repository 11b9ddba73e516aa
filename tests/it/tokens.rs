//! Making tokens, over a fake API that refuses part of it.

use std::sync::Mutex;

use async_trait::async_trait;
use hoist::nodes::tokens::{TokensError, create};
use hoist_phases::object::{Object, ObjectRef};
use hoist_phases::ports::{Applied, Eviction, KubeApi, KubeError};
use hoist_phases::spec::TokenTtl;
use serde_json::{Value, json};

/// An API server that has cluster-info, and lets nobody change it.
#[derive(Default)]
struct FakeApi {
    keeps_secrets: bool,
    /// Names of the Secrets that are there.
    secrets: Mutex<Vec<String>>,
}

fn refused(operation: &'static str, object: &str) -> KubeError {
    KubeError::Status { operation, object: object.to_owned(), code: 403, message: "forbidden".to_owned() }
}

fn unasked<T>() -> T {
    panic!("not asked for by the creation of a token")
}

#[async_trait]
impl KubeApi for FakeApi {
    async fn get_path(&self, _: &str) -> Result<(u16, String), KubeError> {
        unasked()
    }
    async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, KubeError> {
        assert_eq!(object.name, "cluster-info");
        Ok(Some(json!({"data": {"kubeconfig": "clusters: []"}})))
    }
    async fn list(&self, _: &str, _: &str, _: Option<&str>) -> Result<Vec<Value>, KubeError> {
        unasked()
    }
    async fn apply(&self, _: &Object) -> Result<Applied, KubeError> {
        unasked()
    }
    async fn create(&self, object: &Value) -> Result<Value, KubeError> {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.secrets.lock().unwrap().push(name.to_owned());
        Ok(object.clone())
    }
    async fn merge_patch(&self, object: &ObjectRef, _: &Value) -> Result<Value, KubeError> {
        Err(refused("patch", &object.name))
    }
    async fn delete(&self, object: &ObjectRef) -> Result<(), KubeError> {
        if self.keeps_secrets {
            return Err(refused("delete", &object.name));
        }
        self.secrets.lock().unwrap().retain(|name| *name != object.name);
        Ok(())
    }
    async fn evict(&self, _: &str, _: &str) -> Result<Eviction, KubeError> {
        unasked()
    }
}

#[tokio::test]
async fn a_token_that_can_not_be_announced_is_deleted_again() {
    let api = FakeApi::default();
    let error = create(&api, TokenTtl(60), None).await.unwrap_err();
    assert!(matches!(&error, TokensError::Kube(_)) && error.to_string().contains("cluster-info"), "{error}");
    assert_eq!(*api.secrets.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn one_that_stays_is_named_with_the_remedy_and_without_its_secret() {
    let api = FakeApi { keeps_secrets: true, ..FakeApi::default() };
    let error = create(&api, TokenTtl(60), None).await.unwrap_err();
    let id = api.secrets.lock().unwrap()[0].strip_prefix("bootstrap-token-").unwrap().to_owned();
    let told = hoist_phases::causes(&error);
    assert!(
        told.contains(&format!("hoist token delete {id}")) && !told.contains(&format!("{id}.")),
        "{told}"
    );
    assert!(told.contains("cluster-info"), "{told}");
}
