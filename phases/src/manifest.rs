//! Manifests: YAML a person could `kubectl apply`, read into documents, changed as typed objects.
//!
//! Nothing here knows a particular addon, and nothing is changed by replacing text.

use std::fmt;

use k8s_openapi::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::object::{Object, ObjectError};

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{origin}: not valid YAML")]
    Yaml {
        origin: String,
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    #[error("{origin}: {place}: {field} {problem}")]
    Field { origin: String, place: Place, field: &'static str, problem: &'static str },
    #[error("{0}: holds no object")]
    Empty(String),
    #[error("{origin}: no {kind} named {name}")]
    Absent { origin: String, kind: &'static str, name: String },
    #[error("{origin}: {kind} {name} doesn't fit its type")]
    Type {
        origin: String,
        kind: &'static str,
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{origin}: {kind} {name}: {field} is not as expected")]
    Shape { origin: String, kind: &'static str, name: String, field: &'static str },
    #[error("{origin}: {place}")]
    Object {
        origin: String,
        place: Place,
        #[source]
        source: ObjectError,
    },
    #[error("{0} can't be written as YAML")]
    Write(&'static str, #[source] Box<serde_saphyr::ser_error::Error>),
}

/// Where a document stands; the items of a List share one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Counted from 1, empty documents left out.
    pub document: usize,
    /// Line of its first key, counted from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {} (line {})", self.document, self.line)
    }
}

/// The documents of one manifest, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    origin: String,
    documents: Vec<(Place, Value)>,
}

impl Manifest {
    /// Reads all documents. Empty ones are skipped and Lists taken apart, as kubectl does.
    ///
    /// # Errors
    /// When the text isn't YAML, holds nothing, or a document lacks what every Kubernetes object has.
    pub fn parse(origin: &str, yaml: &str) -> Result<Self, ManifestError> {
        let parsed: Vec<Spanned<Value>> = serde_saphyr::from_multiple(yaml)
            .map_err(|source| ManifestError::Yaml { origin: origin.to_owned(), source: Box::new(source) })?;
        let mut documents = Vec::new();
        for (index, document) in parsed.into_iter().enumerate() {
            let place = Place { document: index + 1, line: document.referenced.line() };
            flatten(place, document.value, &mut documents);
        }
        for (place, document) in &documents {
            let origin = || origin.to_owned();
            let field =
                |(field, problem)| ManifestError::Field { origin: origin(), place: *place, field, problem };
            check(document).map_err(field)?;
        }
        if documents.is_empty() {
            return Err(ManifestError::Empty(origin.to_owned()));
        }
        Ok(Self { origin: origin.to_owned(), documents })
    }

    /// Changes the object of this type and name.
    ///
    /// # Errors
    /// When there is none, it doesn't fit the type, or `change` doesn't find the field it names.
    pub fn edit<K>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut K) -> Result<(), EditError>,
    ) -> Result<(), ManifestError>
    where
        K: Resource + Serialize + DeserializeOwned,
    {
        let origin = &self.origin;
        let is_it = |document: &Value| {
            document["apiVersion"] == K::API_VERSION
                && document["kind"] == K::KIND
                && document["metadata"]["name"] == name
        };
        let (_, slot) = self.documents.iter_mut().find(|(_, document)| is_it(document)).ok_or_else(|| {
            ManifestError::Absent { origin: origin.clone(), kind: K::KIND, name: name.to_owned() }
        })?;
        let wrong_type = |source| ManifestError::Type {
            origin: origin.clone(),
            kind: K::KIND,
            name: name.to_owned(),
            source,
        };
        let mut typed: K = serde_json::from_value(slot.clone()).map_err(wrong_type)?;
        change(&mut typed).map_err(|EditError(field)| ManifestError::Shape {
            origin: origin.clone(),
            kind: K::KIND,
            name: name.to_owned(),
            field,
        })?;
        *slot = serde_json::to_value(&typed).map_err(wrong_type)?;
        Ok(())
    }

    /// All documents as they were written.
    pub fn into_documents(self) -> impl Iterator<Item = Value> {
        self.documents.into_iter().map(|(_, document)| document)
    }

    /// All objects, marked as hoist's.
    ///
    /// # Errors
    /// When a document is no object; [`Self::parse`] has refused those already.
    pub fn objects(&self) -> Result<Vec<Object>, ManifestError> {
        let object = |(place, document): &(Place, Value)| {
            Object::new(document).map_err(|source| ManifestError::Object {
                origin: self.origin.clone(),
                place: *place,
                source,
            })
        };
        self.documents.iter().map(object).collect()
    }
}

/// Documents in the order they are best applied, each wave after the one before has been taken:
/// what others live in; the rest; what could keep the rest from being taken while nothing
/// answers for it yet.
pub fn waves(documents: impl IntoIterator<Item = Value>) -> [Vec<Value>; 3] {
    let mut waves = [const { Vec::new() }; 3];
    for document in documents {
        let wave = match document["kind"].as_str() {
            Some("Namespace" | "CustomResourceDefinition") => 0,
            Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" | "APIService") => 2,
            _ => 1,
        };
        waves[wave].push(document);
    }
    waves
}

/// A change that didn't find the field of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditError(pub &'static str);

/// Reads one document of any kind.
///
/// # Errors
/// When the text isn't YAML.
pub fn from_yaml<T: DeserializeOwned>(origin: &str, text: &str) -> Result<T, ManifestError> {
    serde_saphyr::from_str(text)
        .map_err(|source| ManifestError::Yaml { origin: origin.to_owned(), source: Box::new(source) })
}

/// Puts the user's fields over hoist's (RFC 7386: mappings are merged, null takes a field away, all
/// else replaces what was there).
pub fn merge(document: &mut Value, over: &serde_json::Map<String, Value>) {
    json_patch::merge(document, &Value::Object(over.clone()));
}

/// Writes a configuration that is kept as text within an object; long lines stay whole.
///
/// # Errors
/// When the value has no form in YAML; `what` names it in the error.
pub fn to_yaml(what: &'static str, value: &impl Serialize) -> Result<String, ManifestError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|source| ManifestError::Write(what, Box::new(source)))
}

fn flatten(place: Place, document: Value, into: &mut Vec<(Place, Value)>) {
    let list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document {
        Value::Null => {}
        Value::Object(mut fields) if list && fields.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(items)) = fields.remove("items") {
                items.into_iter().for_each(|item| flatten(place, item, into));
            }
        }
        document => into.push((place, document)),
    }
}

/// The field that keeps a document from being a Kubernetes object, and why.
fn check(document: &Value) -> Result<(), (&'static str, &'static str)> {
    if !document.is_object() {
        return Err(("document", "is not a mapping"));
    }
    for (pointer, field) in
        [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
    {
        match document.pointer(pointer) {
            Some(Value::String(text)) if !text.is_empty() => {}
            None | Some(Value::Null) => return Err((field, "is missing")),
            Some(_) => return Err((field, "is not a non-empty string")),
        }
    }
    for (pointer, field) in
        [("/metadata/labels", "metadata.labels"), ("/metadata/annotations", "metadata.annotations")]
    {
        match document.pointer(pointer) {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) if entries.values().all(Value::is_string) => {}
            Some(_) => return Err((field, "is not a mapping of strings")),
        }
    }
    match document.pointer("/metadata/namespace") {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => Err(("metadata.namespace", "is not a string")),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Service};
    use proptest::prelude::*;

    use super::*;

    type Check = Result<(), Box<dyn std::error::Error>>;

    const TWO: &str = "# nothing yet\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n---\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: b, namespace: c}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: d}\n";

    fn error(yaml: &str) -> String {
        Manifest::parse("test.yaml", yaml).map_or_else(|e| e.to_string(), |_| "no error".to_owned())
    }

    #[test]
    fn skips_what_is_empty_and_opens_lists() -> Check {
        let objects = Manifest::parse("test.yaml", TWO)?.objects()?;
        let names: Vec<_> = objects.iter().map(|o| o.reference().to_string()).collect();
        assert_eq!(names, ["ConfigMap a", "Service c/b", "Service d"]);
        assert_eq!(error("# nothing at all\n"), "test.yaml: holds no object");
        Ok(())
    }

    #[test]
    fn errors_name_document_line_and_field() {
        let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        let second = |yaml: &str| error(&format!("{good}---\n{yaml}"));
        let place = "test.yaml: document 2 (line 5): ";
        assert_eq!(second("kind: Pod\nmetadata: {name: a}\n"), format!("{place}apiVersion is missing"));
        assert_eq!(second("apiVersion: v1\nmetadata: {name: a}\n"), format!("{place}kind is missing"));
        assert_eq!(second("apiVersion: v1\nkind: Pod\n"), format!("{place}metadata.name is missing"));
        assert_eq!(
            second("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n"),
            format!("{place}metadata.name is not a non-empty string")
        );
        assert_eq!(
            second("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [b]}\n"),
            format!("{place}metadata.labels is not a mapping of strings")
        );
        assert_eq!(second("- a\n"), format!("{place}document is not a mapping"));
        assert_eq!(error("a: [b\n"), "test.yaml: not valid YAML");
        assert_eq!(
            error("<html>502 Bad Gateway</html>"),
            "test.yaml: document 1 (line 1): document is not a mapping"
        );
    }

    #[test]
    fn edits_by_type_and_name() -> Check {
        let mut manifest = Manifest::parse("test.yaml", TWO)?;
        manifest.edit("a", |map: &mut ConfigMap| {
            map.data.get_or_insert_default().insert("k".to_owned(), "w".to_owned());
            Ok(())
        })?;
        assert_eq!(manifest.objects()?[0].value()["data"]["k"], "w");
        let absent = manifest.edit("a", |_: &mut Service| Ok(()));
        assert_eq!(absent.map_err(|e| e.to_string()), Err("test.yaml: no Service named a".to_owned()));
        let shape = manifest.edit("a", |_: &mut ConfigMap| Err(EditError("data[x]")));
        let wanted = "test.yaml: ConfigMap a: data[x] is not as expected";
        assert_eq!(shape.map_err(|e| e.to_string()), Err(wanted.to_owned()));
        Ok(())
    }

    #[test]
    fn what_others_need_comes_first_and_what_stops_them_last() {
        let kinds =
            ["ValidatingWebhookConfiguration", "Deployment", "Foo", "Namespace", "CustomResourceDefinition"];
        let documents = kinds.map(|kind| serde_json::json!({ "kind": kind }));
        let waves = waves(documents).map(|wave| {
            wave.iter()
                .map(|document| document["kind"].as_str().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        });
        let wanted = [
            &["Namespace", "CustomResourceDefinition"][..],
            &["Deployment", "Foo"],
            &["ValidatingWebhookConfiguration"],
        ];
        assert_eq!(waves.each_ref().map(Vec::as_slice), wanted);
    }

    #[test]
    fn long_lines_stay_whole() -> Check {
        let long = "LS0t".repeat(100);
        let yaml = to_yaml("test", &serde_json::json!({ "key": &long }))?;
        assert_eq!(yaml, format!("key: {long}\n"));
        Ok(())
    }

    proptest! {
        /// Whatever a user hands in is read or refused; what is read can be made into objects.
        #[test]
        fn no_text_breaks_it(text in "([a-zA-Z:\\-\\[\\]{}&*!|>'\"# \n]|apiVersion: v1\n|kind: Pod\n|metadata:\n  name: a\n|  labels: |---\n){0,40}") {
            if let Ok(manifest) = Manifest::parse("any", &text) {
                prop_assert!(manifest.objects().is_ok());
            }
        }
    }
}
