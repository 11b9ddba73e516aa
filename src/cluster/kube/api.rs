use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use hoist_phases::object::{HASH_ANNOTATION, MANAGED_BY, Object, ObjectRef};
use hoist_phases::ports::{Applied, Eviction, KubeApi, KubeError};
use http::Method;
use serde_json::{Value, json};

use super::contained::contained;
use super::request::{JSON, MERGE_PATCH, Subject};
use super::resource::{Resource, built_in, encode, group_path};

/// Who changed a field, in `metadata.managedFields`.
const FIELD_MANAGER: &str = "fieldManager=hoist";

/// How often an update is tried that collides with someone else's.
const UPDATE_TRIES: u32 = 5;

/// A client of one API server, with one identity.
///
/// Connections are kept and reused; as many as there are requests under way are opened (HTTP/1.1).
pub struct Api {
    pub(super) client: kube::Client,
    /// Kinds that the server was asked about.
    discovered: Mutex<BTreeMap<(String, String), Resource>>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}

impl Api {
    /// Of a client that somebody else has made.
    pub fn new(client: kube::Client) -> Self {
        Self { client, discovered: Mutex::default() }
    }

    pub(super) async fn resource(&self, api_version: &str, kind: &str) -> Result<Resource, KubeError> {
        if let Some(resource) = built_in(api_version, kind) {
            return Ok(resource);
        }
        let key = (api_version.to_owned(), kind.to_owned());
        let cached = self.discovered.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(resource) = cached {
            return Ok(resource);
        }
        let object = format!("{api_version} {kind}");
        let subject = Subject { operation: "discover", object: &object };
        let answer = subject.send(&self.client, Method::GET, &group_path(api_version), None).await?;
        let found = subject.value(answer)?;
        let resource = find_kind(&found, kind).ok_or_else(|| KubeError::Status {
            operation: subject.operation,
            object: object.clone(),
            code: 404,
            message: "the server has no such kind".to_owned(),
        })?;
        self.discovered.lock().unwrap_or_else(PoisonError::into_inner).insert(key, resource.clone());
        Ok(resource)
    }

    async fn path(&self, object: &ObjectRef) -> Result<String, KubeError> {
        Ok(self.resource(&object.api_version, &object.kind).await?.object(object))
    }

    /// Objects of a kind with these labels, in one namespace or, where none is named, in all.
    ///
    /// # Errors
    /// When the server refuses or can't be asked.
    pub async fn list_in(
        &self,
        namespace: Option<&str>,
        api_version: &str,
        kind: &str,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, KubeError> {
        let mut path = self.resource(api_version, kind).await?.collection(api_version, namespace);
        if let Some(selector) = selector {
            path = format!("{path}?labelSelector={}", encode(selector));
        }
        let object = format!("all {kind}");
        let subject = Subject { operation: "list", object: &object };
        let mut list = subject.value(subject.send(&self.client, Method::GET, &path, None).await?)?;
        let Some(Value::Array(mut items)) = list.get_mut("items").map(Value::take) else {
            return Err(subject.unexpected("a list without items"));
        };
        if !items.iter().all(Value::is_object) {
            return Err(subject.unexpected("a list of what are no objects"));
        }
        for item in &mut items {
            // Left out within lists of built-in kinds.
            item["apiVersion"] = json!(api_version);
            item["kind"] = json!(kind);
        }
        Ok(items)
    }

    pub(super) async fn get_at(&self, subject: Subject<'_>, path: &str) -> Result<Option<Value>, KubeError> {
        let answer = subject.send(&self.client, Method::GET, path, None).await?;
        if answer.0 == 404 {
            return Ok(None);
        }
        subject.value(answer).map(Some)
    }
}

/// A kind in an APIResourceList; entries with a slash are subresources.
fn find_kind(list: &Value, kind: &str) -> Option<Resource> {
    let resources = list["resources"].as_array()?;
    let is_kind = |r: &&Value| r["kind"] == kind && !r["name"].as_str().unwrap_or("/").contains('/');
    let found = resources.iter().find(is_kind)?;
    Some(Resource { plural: found["name"].as_str()?.to_owned(), namespaced: found["namespaced"].as_bool()? })
}

/// What an update must carry over from the object as it is: its version, so that nobody's change
/// is lost unseen, labels, annotations and the like that others put on it, and a number of replicas
/// that isn't ours to say.
fn replacement(wanted: &Value, live: &Value) -> Value {
    let mut object = wanted.clone();
    for map in ["labels", "annotations"] {
        for (key, value) in live["metadata"][map].as_object().into_iter().flatten() {
            if wanted["metadata"][map].get(key).is_none() {
                object["metadata"][map][key] = value.clone();
            }
        }
    }
    for field in ["resourceVersion", "uid", "finalizers", "ownerReferences"] {
        if let Some(value) = live["metadata"].get(field) {
            object["metadata"][field] = value.clone();
        }
    }
    let spec = object.get_mut("spec").and_then(Value::as_object_mut);
    if let (Some(spec), Some(replicas)) = (spec, live["spec"].get("replicas")) {
        spec.entry("replicas").or_insert_with(|| replicas.clone());
    }
    object
}

#[async_trait]
impl KubeApi for Api {
    async fn get_path(&self, path: &str) -> Result<(u16, String), KubeError> {
        let subject = Subject { operation: "get", object: path };
        let (code, body) = subject.send(&self.client, Method::GET, path, None).await?;
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, KubeError> {
        let path = self.path(object).await?;
        self.get_at(Subject { operation: "get", object: &object.to_string() }, &path).await
    }

    async fn list(
        &self,
        api_version: &str,
        kind: &str,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, KubeError> {
        self.list_in(None, api_version, kind, selector).await
    }

    /// On a fresh cluster a single request: creates first, and looks only when that collides.
    async fn apply(&self, object: &Object) -> Result<Applied, KubeError> {
        let reference = object.reference();
        let resource = self.resource(&reference.api_version, &reference.kind).await?;
        let name = reference.to_string();
        let create = Subject { operation: "create", object: &name };
        let home = resource.home(&reference.api_version, reference.namespace.as_deref());
        let creation = object.creation();
        let body = Some((JSON, creation.as_ref()));
        let refused =
            create.send(&self.client, Method::POST, &format!("{home}?{FIELD_MANAGER}"), body).await?;
        // A Service with a fixed address is found invalid (its address is taken, by itself)
        // before it is found to exist.
        if !matches!(refused.0, 409 | 422) {
            return create.value(refused).map(|_| Applied::Created);
        }
        let path = resource.object(reference);
        let update = Subject { operation: "update", object: &name };
        let mut collision = refused;
        for _ in 0..UPDATE_TRIES {
            let Some(live) = self.get_at(Subject { operation: "get", object: &name }, &path).await? else {
                return Err(create.status(collision.0, &collision.1));
            };
            if live["metadata"]["labels"][MANAGED_BY.0] != MANAGED_BY.1 {
                return Ok(Applied::Foreign);
            }
            let same_hash = live["metadata"]["annotations"][HASH_ANNOTATION] == object.hash();
            if same_hash && contained(object.value(), &live) {
                return Ok(Applied::Unchanged);
            }
            let body = replacement(object.value(), &live);
            let path = format!("{path}?{FIELD_MANAGER}");
            let answer = update.send(&self.client, Method::PUT, &path, Some((JSON, &body))).await?;
            if answer.0 != 409 {
                let updated = update.value(answer)?;
                // The server keeps the version of an object that an update leaves as it was: it has
                // written a value of ours in another way, `1000m` as `1` for example.
                let version =
                    |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                let same = version(&live).is_some_and(|before| version(&updated) == Some(before));
                return Ok(if same { Applied::Unchanged } else { Applied::Updated });
            }
            collision = answer;
        }
        Err(update.status(collision.0, &collision.1))
    }

    async fn create(&self, object: &Value) -> Result<Value, KubeError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").unwrap_or_default();
        let given = text("/metadata/name").or_else(|| text("/metadata/generateName"));
        let name = format!("{kind} {}", given.unwrap_or_default());
        let subject = Subject { operation: "create", object: &name };
        let Some(api_version) = text("/apiVersion") else {
            return Err(subject.unexpected("an object without apiVersion"));
        };
        let home = self.resource(api_version, kind).await?.home(api_version, text("/metadata/namespace"));
        let path = format!("{home}?{FIELD_MANAGER}");
        subject.value(subject.send(&self.client, Method::POST, &path, Some((JSON, object))).await?)
    }

    async fn merge_patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, KubeError> {
        let path = format!("{}?{FIELD_MANAGER}", self.path(object).await?);
        let name = object.to_string();
        let subject = Subject { operation: "patch", object: &name };
        subject.value(subject.send(&self.client, Method::PATCH, &path, Some((MERGE_PATCH, patch))).await?)
    }

    async fn delete(&self, object: &ObjectRef) -> Result<(), KubeError> {
        let path = self.path(object).await?;
        let name = object.to_string();
        let subject = Subject { operation: "delete", object: &name };
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        let answer = subject.send(&self.client, Method::DELETE, &path, Some((JSON, &options))).await?;
        if answer.0 == 404 {
            return Ok(());
        }
        subject.value(answer).map(|_| ())
    }

    async fn evict(&self, namespace: &str, pod: &str) -> Result<Eviction, KubeError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", encode(namespace), encode(pod));
        let name = format!("Pod {namespace}/{pod}");
        let subject = Subject { operation: "evict", object: &name };
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "namespace": namespace, "name": pod },
        });
        let answer = subject.send(&self.client, Method::POST, &path, Some((JSON, &eviction))).await?;
        match answer.0 {
            404 => Ok(Eviction::Granted),
            429 => Ok(Eviction::Blocked(subject.status(answer.0, &answer.1).to_string())),
            _ => subject.value(answer).map(|_| Eviction::Granted),
        }
    }
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
