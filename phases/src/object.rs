//! Kubernetes objects as values, with the mark by which hoist knows its own.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Label of every object hoist applies; what doesn't carry it is the user's and left alone.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "hoist");

/// Annotation with the hash of the object as it was applied.
pub const HASH_ANNOTATION: &str = "hoist.dev/content-hash";

/// Names one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectRef {
    /// The name of an object.
    ///
    /// # Errors
    /// When `apiVersion`, `kind` or `metadata.name` are missing.
    pub fn of(object: &Value) -> Result<Self, ObjectError> {
        let text = |pointer, field| {
            let found = object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            found.ok_or(ObjectError::Missing(field))
        };
        Ok(Self {
            api_version: text("/apiVersion", "apiVersion")?,
            kind: text("/kind", "kind")?,
            namespace: text("/metadata/namespace", "namespace").ok(),
            name: text("/metadata/name", "metadata.name")?,
        })
    }
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("object can't be written as JSON")]
    Serialize(#[source] serde_json::Error),
    #[error("object without {0}")]
    Missing(&'static str),
}

/// An object ready to be applied: labelled, annotated with its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    reference: ObjectRef,
    hash: String,
    value: Value,
    /// Number of replicas to create it with, when `value` leaves that to whoever scales it.
    replicas: Option<u32>,
}

impl Object {
    /// Takes a typed object (or a [`Value`]) and marks it as hoist's.
    ///
    /// # Errors
    /// When `apiVersion`, `kind` or `metadata.name` are missing.
    pub fn new(object: &impl Serialize) -> Result<Self, ObjectError> {
        let mut value = serde_json::to_value(object).map_err(ObjectError::Serialize)?;
        let reference = ObjectRef::of(&value)?;
        if let Some(fields) = value.as_object_mut() {
            // Typed objects carry an empty status; it isn't part of what is asked for.
            fields.remove("status");
        }
        value["metadata"]["labels"][MANAGED_BY.0] = json!(MANAGED_BY.1);
        let hash: String = Sha256::digest(value.to_string()).iter().map(|b| format!("{b:02x}")).collect();
        value["metadata"]["annotations"][HASH_ANNOTATION] = json!(hash);
        Ok(Self { reference, hash, value, replicas: None })
    }

    /// The same object with `value`, in which something was added to what it asks for. It keeps its
    /// hash: once nothing is added any more, an object that has it is still what was asked for.
    #[must_use]
    pub fn with_additions(&self, value: Value, replicas: Option<u32>) -> Self {
        Self { value, replicas, ..self.clone() }
    }

    pub fn reference(&self) -> &ObjectRef {
        &self.reference
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What it is created as.
    pub fn creation(&self) -> Cow<'_, Value> {
        let Some(replicas) = self.replicas else { return Cow::Borrowed(&self.value) };
        let mut value = self.value.clone();
        value["spec"]["replicas"] = json!(replicas);
        Cow::Owned(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_hashes() {
        let plain = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": {"k": "v"}});
        let object = Object::new(&plain).map_err(|e| e.to_string());
        let again = Object::new(&plain).map_err(|e| e.to_string());
        assert_eq!(object, again);
        assert!(object.is_ok_and(|o| {
            o.reference().to_string() == "ConfigMap b/a"
                && o.value()["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1
                && o.value()["metadata"]["annotations"][HASH_ANNOTATION] == o.hash()
        }));
    }

    #[test]
    fn a_nameless_object_is_refused() {
        let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a"}});
        assert!(matches!(Object::new(&nameless), Err(ObjectError::Missing("metadata.name"))));
    }
}
