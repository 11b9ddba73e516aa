use std::borrow::Cow;

use hoist_phases::object::ObjectRef;
use hoist_phases::ports::{Applied, KubeError};
use http::Method;
use serde_json::{Value, json};

use super::api::Api;
use super::request::{APPLY_PATCH, Subject};

/// One of its own, because a manager loses the fields that it states no more.
const MANAGER: &str = "hoist-apply";

/// The file wins over other managers, as it does with `kubectl apply`; a field that no type knows is
/// refused.
const OPTIONS: &str = "force=true&fieldValidation=Strict";

impl Api {
    /// Makes what the object states true and touches nothing else (server-side apply). The object
    /// is whoever's it is: it gets no mark. One that is created gets this number of replicas; one
    /// that is there keeps its own.
    ///
    /// # Errors
    /// When the server refuses or can't be asked.
    pub async fn server_side_apply(
        &self,
        reference: &ObjectRef,
        object: &Value,
        replicas: Option<u32>,
    ) -> Result<Applied, KubeError> {
        let path = self.resource(&reference.api_version, &reference.kind).await?.object(reference);
        let name = reference.to_string();
        let before = self.get_at(Subject { operation: "get", object: &name }, &path).await?;
        let subject = Subject { operation: "apply", object: &name };
        let path = format!("{path}?fieldManager={MANAGER}&{OPTIONS}");
        let object = with_replicas(object, before.as_ref(), replicas);
        let body = Some((APPLY_PATCH, object.as_ref()));
        let answer = subject.send(&self.client, Method::PATCH, &path, body).await?;
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

/// An object that states no replicas of its own, with those it has to be sent with. A number that an
/// earlier apply has given has to be repeated, or it would be taken away: as it is now, and only
/// if nobody changes anything meanwhile. Whoever scales takes the number over.
fn with_replicas<'a>(object: &'a Value, before: Option<&Value>, replicas: Option<u32>) -> Cow<'a, Value> {
    let (Some(replicas), Some(_)) = (replicas, object["spec"].as_object()) else {
        return Cow::Borrowed(object);
    };
    let mut sent = object.clone();
    match before {
        None => sent["spec"]["replicas"] = json!(replicas),
        Some(before) if gave_replicas(before) => {
            sent["spec"]["replicas"] = before["spec"]["replicas"].clone();
            sent["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        }
        Some(_) => return Cow::Borrowed(object),
    }
    Cow::Owned(sent)
}

/// Whether the number of replicas is what an earlier apply has made it.
fn gave_replicas(live: &Value) -> bool {
    let managers = live["metadata"]["managedFields"].as_array();
    managers.into_iter().flatten().any(|entry| {
        entry["manager"] == MANAGER
            && entry["operation"] == "Apply"
            && entry["fieldsV1"]["f:spec"].get("f:replicas").is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_given_once() {
        let object = json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"selector": {}}});
        let sent = |before: Option<&Value>, replicas| with_replicas(&object, before, replicas).into_owned();
        assert_eq!(sent(None, None), object);
        assert_eq!(sent(None, Some(2))["spec"], json!({"selector": {}, "replicas": 2}));
        let live = |manager: &str, operation: &str| {
            json!({
                "metadata": {"name": "a", "resourceVersion": "7", "managedFields": [
                    {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
                "spec": {"replicas": 5},
            })
        };
        // An autoscaler's, a person's, or the server's own 1.
        for (manager, operation) in
            [("kube-controller-manager", "Update"), (MANAGER, "Update"), ("x", "Apply")]
        {
            assert_eq!(sent(Some(&live(manager, operation)), Some(2)), object);
        }
        let again = sent(Some(&live(MANAGER, "Apply")), Some(2));
        assert_eq!(
            (&again["spec"]["replicas"], &again["metadata"]["resourceVersion"]),
            (&json!(5), &json!("7"))
        );
    }
}
