//! Whether an object is still what it was made to be, though its server has filled in the rest.

use serde_json::Value;

/// Whether `live` has every field of the object `wanted`. What the server added doesn't count, nor
/// does `stringData`, which it never gives back.
pub(super) fn contained(wanted: &Value, live: &Value) -> bool {
    let Some(fields) = wanted.as_object() else { return value(wanted, Some(live)) };
    fields
        .iter()
        .filter(|(name, _)| *name != "stringData")
        .all(|(name, wanted)| value(wanted, live.get(name)))
}

fn value(wanted: &Value, live: Option<&Value>) -> bool {
    let Some(live) = live.filter(|live| !live.is_null()) else { return is_empty(wanted) };
    match (wanted, live) {
        (Value::Null, _) => true,
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().all(|(name, wanted)| value(wanted, live.get(name)))
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len()
                && wanted.iter().zip(live).all(|(wanted, live)| value(wanted, Some(live)))
        }
        _ => wanted == live || text(wanted).is_some_and(|wanted| text(live) == Some(wanted)),
    }
}

/// The server leaves out what is empty, and so says the same.
fn is_empty(wanted: &Value) -> bool {
    match wanted {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// A quantity may be a number when it is sent and is a string when it comes back: `cpu: 1`.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "p", "namespace": "kube-system", "labels": {"app.kubernetes.io/managed-by": "hoist"}},
            "spec": {
                "selector": {"matchLabels": {"k8s-app": "p"}},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {
                    "metadata": {"creationTimestamp": null, "labels": {"k8s-app": "p"}},
                    "spec": {
                        "hostNetwork": true, "hostPID": false, "nodeSelector": {},
                        "tolerations": [{"operator": "Exists"}],
                        "containers": [{
                            "name": "p", "image": "i:1", "args": ["--v=2", "--x"],
                            "resources": {"requests": {"cpu": 1, "memory": "50Mi"}},
                            "securityContext": {"privileged": true},
                        }],
                        "volumes": [{"name": "c", "configMap": {"name": "p"}}, {"name": "t", "emptyDir": {}}],
                    },
                },
            },
        })
    }

    /// As an API server gives it back.
    fn live() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {
                "name": "p", "namespace": "kube-system", "uid": "u", "resourceVersion": "301", "generation": 1,
                "creationTimestamp": "2026-03-01T12:00:00Z",
                "annotations": {"deprecated.daemonset.template.generation": "1"},
                "labels": {"app.kubernetes.io/managed-by": "hoist"},
                "managedFields": [{"manager": "hoist", "operation": "Update"}],
            },
            "spec": {
                "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"k8s-app": "p"}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
                "template": {
                    "metadata": {"creationTimestamp": null, "labels": {"k8s-app": "p"}},
                    "spec": {
                        "dnsPolicy": "ClusterFirst", "hostNetwork": true, "restartPolicy": "Always",
                        "schedulerName": "default-scheduler", "securityContext": {},
                        "terminationGracePeriodSeconds": 30,
                        "tolerations": [{"operator": "Exists"}],
                        "containers": [{
                            "name": "p", "image": "i:1", "imagePullPolicy": "IfNotPresent", "args": ["--v=2", "--x"],
                            "resources": {"requests": {"cpu": "1", "memory": "50Mi"}},
                            "securityContext": {"privileged": true},
                            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                        }],
                        "volumes": [
                            {"name": "c", "configMap": {"name": "p", "defaultMode": 420}},
                            {"name": "t", "emptyDir": {}},
                        ],
                    },
                },
            },
            "status": {"currentNumberScheduled": 1},
        })
    }

    #[test]
    fn what_the_server_fills_in_is_no_drift() {
        assert!(contained(&wanted(), &live()));
    }

    #[test]
    fn what_was_edited_is_drift() {
        let edits = [
            ("/spec/template/spec/containers/0/image", json!("i:2")),
            ("/spec/template/spec/containers/0/args", json!(["--v=2"])),
            ("/spec/template/spec/containers/0/args", json!(["--x", "--v=2"])),
            ("/spec/template/spec/containers/0/args", json!(["--v=2", "--x", "--y"])),
            ("/spec/template/spec/containers/0/resources", json!({})),
            ("/spec/template/spec/hostNetwork", Value::Null),
            ("/spec/selector/matchLabels", json!({"k8s-app": "q"})),
            ("/metadata/labels", json!({})),
        ];
        for (path, value) in edits {
            let mut live = live();
            if let Some(field) = live.pointer_mut(path) {
                *field = value.clone();
            }
            assert!(!contained(&wanted(), &live), "{path} {value}");
        }
        let mut on = live();
        on["spec"]["template"]["spec"]["hostPID"] = json!(true);
        assert!(!contained(&wanted(), &on), "turned on");
    }

    #[test]
    fn a_role_that_lost_a_verb_is_drift() {
        let role = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]});
        assert!(contained(&role, &role));
        let lost = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        assert!(!contained(&role, &lost));
        assert!(!contained(&role, &json!({})));
        let subject = json!({"subjects": [{"kind": "ServiceAccount", "name": "a", "apiGroup": ""}]});
        assert!(contained(&subject, &json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}]})));
    }

    #[test]
    fn a_secret_is_not_compared_by_what_is_never_given_back() {
        let secret = json!({"type": "t", "stringData": {"a": "b"}});
        assert!(contained(&secret, &json!({"type": "t", "data": {"a": "Yg=="}})));
        let nested = json!({"data": {"stringData": "x"}});
        assert!(!contained(&nested, &json!({"data": {}})), "only the object's own field");
    }
}
