//! Role labels and taints of nodes, as the configuration has them. kubelet may not give itself
//! labels of that prefix (NodeRestriction), so it is done here.
//!
//! An annotation on the Node says which it got from here: those alone are taken away again when
//! the configuration no longer has them. What a person takes away comes back.

use std::collections::{BTreeMap, BTreeSet};

use hoist_phases::object::ObjectRef;
use hoist_phases::spec::{RoleNodes, RoleRule};
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

/// Roles that the steward gave a node: `control-plane,infra:NoSchedule`.
const ANNOTATION: &str = "hoist.dev/roles";

/// Effect of a role's taint.
const EFFECT: &str = "NoSchedule";

/// Node and the merge patch (RFC 7396) that it needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Patch {
    pub(super) node: ObjectRef,
    pub(super) patch: Value,
}

/// Key of a label, and whether there is a taint of the same name.
type Roles = BTreeMap<String, bool>;

/// The patches that bring these nodes to their roles; none for those that are right.
pub(super) fn decide(nodes: &[&Node], rules: &[RoleRule]) -> Vec<Patch> {
    let mut wanted: BTreeMap<&str, Roles> = BTreeMap::new();
    for rule in rules {
        for node in holders(nodes, rule) {
            *wanted.entry(name(node)).or_default().entry(rule.key()).or_default() |= rule.taint;
        }
    }
    let patch = |node: &&Node| {
        let wanted = wanted.remove(name(node)).unwrap_or_default();
        let patch = patch(node, &wanted)?;
        let node = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: None,
            name: name(node).to_owned(),
        };
        Some(Patch { node, patch })
    };
    nodes.iter().filter_map(patch).collect()
}

/// The nodes that a rule means.
fn holders<'a>(nodes: &[&'a Node], rule: &RoleRule) -> Vec<&'a Node> {
    let mut holders = nodes.to_vec();
    match &rule.nodes {
        RoleNodes::All => {}
        RoleNodes::Named(names) => holders.retain(|node| names.contains(name(node))),
        RoleNodes::Selected(labels) => holders.retain(|node| {
            labels.iter().all(|(key, value)| self::labels(node).and_then(|has| has.get(key)) == Some(value))
        }),
        RoleNodes::Count(count) => {
            let key = rule.key();
            // A role stays where it is, whoever joins or comes back.
            holders.sort_by_key(|node| {
                let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
                (!given(node).contains_key(&key), created, name(node).to_owned())
            });
            holders.truncate(usize::try_from(*count).unwrap_or(usize::MAX));
        }
    }
    holders
}

fn patch(node: &Node, wanted: &Roles) -> Option<Value> {
    let given = given(node);
    let has = labels(node);
    let mut changed = BTreeMap::new();
    for key in wanted.keys() {
        if !has.is_some_and(|has| has.contains_key(key)) {
            changed.insert(key.clone(), json!(""));
        }
    }
    for key in given.keys().filter(|key| !wanted.contains_key(*key)) {
        if has.is_some_and(|has| has.contains_key(key)) {
            changed.insert(key.clone(), Value::Null);
        }
    }
    let taints = taints(node, &given, wanted);
    if changed.is_empty() && taints.is_none() && given == *wanted {
        return None;
    }
    // With the version, so that a change made meanwhile isn't lost: then it is decided anew.
    let annotation = if wanted.is_empty() { Value::Null } else { json!(written(wanted)) };
    let mut patch = json!({"metadata": {
        "resourceVersion": node.metadata.resource_version,
        "annotations": {ANNOTATION: annotation},
        "labels": changed,
    }});
    if let Some(taints) = taints {
        patch["spec"]["taints"] = json!(taints);
    }
    Some(patch)
}

/// All taints of a node with ours as they should be; `None` when they are.
fn taints(node: &Node, given: &Roles, wanted: &Roles) -> Option<Vec<Taint>> {
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let tainted = |roles: &Roles| -> BTreeSet<String> {
        roles.iter().filter(|(_, taint)| **taint).map(|(key, _)| key.clone()).collect()
    };
    let (given, wanted) = (tainted(given), tainted(wanted));
    let is = |taint: &Taint, keys: &BTreeSet<String>| taint.effect == EFFECT && keys.contains(&taint.key);
    let mut taints = present.clone();
    taints.retain(|taint| is(taint, &wanted) || !is(taint, &given));
    for key in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == EFFECT) {
            taints.push(Taint { key, effect: EFFECT.to_owned(), ..Taint::default() });
        }
    }
    (taints != present).then_some(taints)
}

/// What the annotation says.
fn given(node: &Node) -> Roles {
    let annotations = node.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(ANNOTATION)).map_or("", String::as_str);
    let roles = text.split(',').filter(|role| !role.is_empty()).map(|role| {
        let (role, effect) = role.split_once(':').unwrap_or((role, ""));
        (format!("{}{role}", hoist_phases::spec::ROLE_LABEL_PREFIX), effect == EFFECT)
    });
    roles.collect()
}

fn written(roles: &Roles) -> String {
    let role = |(key, taint): (&String, &bool)| {
        let role = key.strip_prefix(hoist_phases::spec::ROLE_LABEL_PREFIX).unwrap_or(key);
        if *taint { format!("{role}:{EFFECT}") } else { role.to_owned() }
    };
    roles.iter().map(role).collect::<Vec<_>>().join(",")
}

fn labels(node: &Node) -> Option<&BTreeMap<String, String>> {
    node.metadata.labels.as_ref()
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
#[path = "roles_tests.rs"]
mod tests;
