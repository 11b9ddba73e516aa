//! What a Deployment gets that states nothing: the same rules as in manifests/placement, for what
//! hoist itself applies. They read and change plain values, because a typed object would drop
//! the fields that its type doesn't know yet.

use serde_json::{Value, json};

use crate::spec::PlacementPolicy;

/// Puts the rules into an object if it is a Deployment: replicas preferably on different nodes,
/// and what `policy` says when it covers the namespace (`default` when none is named). Says
/// whether anything was changed.
pub fn place(object: &mut Value, policy: Option<&PlacementPolicy>) -> bool {
    if object["apiVersion"] != "apps/v1" || object["kind"] != "Deployment" {
        return false;
    }
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
    let policy = policy.filter(|policy| policy.covers(namespace));
    let selector = object["spec"]["selector"].clone();
    let states_replicas = is_stated(&object["spec"], "replicas");
    let Some(pod) = object.pointer_mut("/spec/template/spec").filter(|pod| pod.is_object()) else {
        // The API server will say what is wrong with it.
        return false;
    };
    let before = pod.clone();
    let states_nodes = ["nodeSelector", "nodeName"].iter().any(|field| is_stated(pod, field))
        || is_stated(&pod["affinity"], "nodeAffinity");
    let states_neighbours = is_stated(pod, "topologySpreadConstraints")
        || ["podAffinity", "podAntiAffinity"].iter().any(|field| is_stated(&pod["affinity"], field));
    if !states_neighbours {
        pod["affinity"]["podAntiAffinity"] = apart(&selector);
    }
    let mut changed = false;
    if let Some(PlacementPolicy { namespaces: _, node_selector, tolerations, replicas }) = policy {
        if !node_selector.is_empty() && !states_nodes {
            pod["nodeSelector"] = json!(node_selector);
        }
        if !tolerations.is_empty() && !is_stated(pod, "tolerations") {
            pod["tolerations"] = json!(tolerations);
        }
        changed |= *pod != before;
        if let Some(replicas) = replicas.filter(|_| !states_replicas) {
            object["spec"]["replicas"] = json!(replicas);
            changed = true;
        }
        return changed;
    }
    *pod != before
}

/// The API server drops what is empty before anybody sees it.
fn is_stated(parent: &Value, field: &str) -> bool {
    match parent.get(field) {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

fn apart(selector: &Value) -> Value {
    json!({
        "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": selector,
                "matchLabelKeys": ["pod-template-hash"],
            },
        }],
    })
}
