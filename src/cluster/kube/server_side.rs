use hoist_phases::object::ObjectRef;
use hoist_phases::ports::{Applied, KubeError};
use http::Method;
use serde_json::Value;

use super::api::Api;
use super::request::{APPLY_PATCH, Subject};

/// A manager of its own, because a manager loses the fields that it states no more. The file wins
/// over other managers, as it does with `kubectl apply`; a field that no type knows is refused.
const QUERY: &str = "fieldManager=hoist-apply&force=true&fieldValidation=Strict";

impl Api {
    /// Makes what the object states true and touches nothing else (server-side apply). The object
    /// is whoever's it is: it gets no mark.
    ///
    /// # Errors
    /// When the server refuses or can't be asked.
    pub async fn server_side_apply(
        &self,
        reference: &ObjectRef,
        object: &Value,
    ) -> Result<Applied, KubeError> {
        let path = self.resource(&reference.api_version, &reference.kind).await?.object(reference);
        let name = reference.to_string();
        let before = self.get_at(Subject { operation: "get", object: &name }, &path).await?;
        let subject = Subject { operation: "apply", object: &name };
        let path = format!("{path}?{QUERY}");
        let answer = subject.send(&self.client, Method::PATCH, &path, Some((APPLY_PATCH, object))).await?;
        let created = answer.0 == 201;
        let after = subject.value(answer)?;
        let same = before.is_some_and(|before| content(before) == content(after));
        Ok(match (created, same) {
            (true, _) => Applied::Created,
            (false, true) => Applied::Unchanged,
            (false, false) => Applied::Updated,
        })
    }
}

/// What applying can change. Not the version: controllers write statuses meanwhile, and the record
/// of who manages which field may be written anew without a field having changed.
fn content(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    object
}
