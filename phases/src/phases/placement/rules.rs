//! What a Deployment gets that states nothing: the same rules as in manifests/placement, for what
//! hoist itself applies. They read and change plain values, because a typed object would drop
//! the fields that its type doesn't know yet.

use serde_json::{Value, json};

use crate::spec::PlacementPolicy;

/// What [`place`] has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// Whether the object was changed.
    pub changed: bool,
    /// The policy's number of replicas where the object states none: for its creation alone, since
    /// later the number is a scaler's or a person's to change.
    pub replicas: Option<u32>,
}

/// Puts the rules into an object if it is a Deployment: replicas preferably on different nodes,
/// and what `policy` says when it covers the namespace (`default` when none is named). One that is
/// malformed is left to the API server, which says what is wrong with it.
pub fn place(object: &mut Value, policy: Option<&PlacementPolicy>) -> Placed {
    if object["apiVersion"] != "apps/v1" || object["kind"] != "Deployment" {
        return Placed::default();
    }
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
    let policy = policy.filter(|policy| policy.covers(namespace));
    let selector = object["spec"]["selector"].clone();
    let states_replicas = is_stated(&object["spec"], "replicas");
    let pod = object.pointer_mut("/spec/template/spec").filter(|pod| is_well_formed(pod));
    let Some(pod) = pod else { return Placed::default() };
    let before = pod.clone();
    let states_nodes = ["nodeSelector", "nodeName"].iter().any(|field| is_stated(pod, field))
        || states_affinity(pod, "nodeAffinity");
    let states_neighbours = is_stated(pod, "topologySpreadConstraints")
        || ["podAffinity", "podAntiAffinity"].iter().any(|kind| states_affinity(pod, kind));
    if !states_neighbours {
        pod["affinity"]["podAntiAffinity"] = apart(&selector);
    }
    let Some(PlacementPolicy { namespaces: _, node_selector, tolerations, replicas }) = policy else {
        return Placed { changed: *pod != before, replicas: None };
    };
    if !node_selector.is_empty() && !states_nodes {
        pod["nodeSelector"] = json!(node_selector);
    }
    if !tolerations.is_empty() && !is_stated(pod, "tolerations") {
        pod["tolerations"] = json!(tolerations);
    }
    Placed { changed: *pod != before, replicas: replicas.filter(|_| !states_replicas) }
}

/// Whether a pod can be read as far as the rules go into it.
fn is_well_formed(pod: &Value) -> bool {
    pod.is_object() && pod.get("affinity").is_none_or(|affinity| affinity.is_object() || affinity.is_null())
}

/// A kind of affinity without any term states nothing.
fn states_affinity(pod: &Value, kind: &str) -> bool {
    match pod["affinity"].get(kind) {
        Some(Value::Object(terms)) => terms.keys().any(|field| is_stated(&pod["affinity"][kind], field)),
        _ => is_stated(&pod["affinity"], kind),
    }
}

/// What is empty says nothing: the API server drops it.
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
