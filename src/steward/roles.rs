//! Role labels and taints of nodes, as the configuration has them. kubelet may not give itself
//! labels of that prefix (NodeRestriction), so it is done here.
//!
//! An annotation on the Node says which it got from here: those alone are taken away again when
//! the configuration no longer has them. What a person takes away comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hoist_phases::object::ObjectRef;
use hoist_phases::spec::{ELSEWHERE_LABEL, Family, ROLE_LABEL_PREFIX, RoleNodes, RoleRule};
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

/// Labels and taints that the steward gave a node: `control-plane,infra,infra:NoSchedule`.
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

/// The patches that bring these nodes to their roles; none for those that are right. `elsewhere`:
/// whether those outside of the cluster's own network get that role.
pub(super) fn decide(nodes: &[&Node], rules: &[RoleRule], elsewhere: bool) -> Vec<Patch> {
    let mut wanted: BTreeMap<&str, Roles> = BTreeMap::new();
    for rule in rules {
        for node in holders(nodes, rule) {
            *wanted.entry(name(node)).or_default().entry(rule.key()).or_default() |= rule.taint;
        }
    }
    for node in nodes.iter().filter(|node| elsewhere && is_elsewhere(node)) {
        wanted.entry(name(node)).or_default().insert(ELSEWHERE_LABEL.to_owned(), false);
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
            // A role stays where it is, whoever joins or comes back. By the label, which a kubelet
            // may not give itself, as it may the annotation.
            holders.sort_by_key(|node| {
                let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
                (!labels(node).is_some_and(|has| has.contains_key(&key)), created, name(node).to_owned())
            });
            holders.truncate(usize::try_from(*count).unwrap_or(usize::MAX));
        }
    }
    holders
}

/// A node that has told no address yet is nowhere.
fn is_elsewhere(node: &Node) -> bool {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    let mut internal = internal.filter_map(|address| address.address.parse::<IpAddr>().ok()).peekable();
    internal.peek().is_some() && internal.all(|ip| !Family::of(ip).node_subnet().contains(&ip))
}

fn patch(node: &Node, wanted: &Roles) -> Option<Value> {
    let given = given(node);
    let has = |key: &str| labels(node).is_some_and(|has| has.contains_key(key));
    let added = wanted.keys().filter(|key| !has(key));
    let removed = given.labels.iter().filter(|key| !wanted.contains_key(*key) && has(key));
    let mut changed: BTreeMap<_, _> = added.map(|key| (key.clone(), json!(""))).collect();
    let mut ours = Given::default();
    // What a person gave before is theirs, and stays when the role goes.
    let is_ours = |key: &&String| given.labels.contains(*key) || changed.contains_key(*key);
    ours.labels.extend(wanted.keys().filter(is_ours).cloned());
    changed.extend(removed.map(|key| (key.clone(), Value::Null)));
    let taints = taints(node, &given, wanted, &mut ours);
    if changed.is_empty() && taints.is_none() && given == ours {
        return None;
    }
    // With the version, so that a change made meanwhile isn't lost: then it is decided anew.
    let annotation = if ours == Given::default() { Value::Null } else { json!(ours.written()) };
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

/// All taints of a node with those of its roles as they should be; `None` when they are. Those
/// that are the steward's are noted in `ours`.
fn taints(node: &Node, given: &Given, wanted: &Roles, ours: &mut Given) -> Option<Vec<Taint>> {
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let is_wanted = |key: &str| wanted.get(key).is_some_and(|taint| *taint);
    let mut taints = present.clone();
    taints.retain(|taint| {
        taint.effect != EFFECT || is_wanted(&taint.key) || !given.taints.contains(&taint.key)
    });
    for key in wanted.keys().filter(|key| is_wanted(key)) {
        let is_there = taints.iter().any(|taint| taint.key == *key && taint.effect == EFFECT);
        if !is_there {
            taints.push(Taint { key: key.clone(), effect: EFFECT.to_owned(), ..Taint::default() });
        }
        if !is_there || given.taints.contains(key) {
            ours.taints.insert(key.clone());
        }
    }
    (taints != present).then_some(taints)
}

/// Keys of the labels and taints that the steward gave a node.
#[derive(Debug, Default, PartialEq, Eq)]
struct Given {
    labels: BTreeSet<String>,
    taints: BTreeSet<String>,
}

impl Given {
    fn written(&self) -> String {
        let role = |key: &String| key.strip_prefix(ROLE_LABEL_PREFIX).unwrap_or(key).to_owned();
        let taints = self.taints.iter().map(|key| format!("{}:{EFFECT}", role(key)));
        self.labels.iter().map(role).chain(taints).collect::<Vec<_>>().join(",")
    }
}

/// What the annotation says.
fn given(node: &Node) -> Given {
    let annotations = node.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(ANNOTATION)).map_or("", String::as_str);
    let mut given = Given::default();
    for entry in text.split(',').filter(|entry| !entry.is_empty()) {
        match entry.split_once(':') {
            None => given.labels.insert(format!("{ROLE_LABEL_PREFIX}{entry}")),
            Some((role, _)) => given.taints.insert(format!("{ROLE_LABEL_PREFIX}{role}")),
        };
    }
    given
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
