//! Labels and taints that nodes join with.

use std::collections::BTreeMap;

use hoist_phases::spec::Taint;

use super::placement::policy::{is_label_key, is_label_value};
use super::problem::{Problem, Problems};

/// Domains whose labels a kubelet may not give itself, and what in them it may (kubelet
/// `--node-labels`). What it finds out by itself, such as kubernetes.io/os, is not to be given.
const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];
const ALLOWED_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
const ALLOWED: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn check(
    field: &str,
    labels: &BTreeMap<String, String>,
    taints: &[Taint],
    problems: &mut Problems,
) {
    for (key, value) in labels {
        let field = format!("{field}.labels");
        let mut refuse =
            |rule: &str| problems.push(Problem::new(&field, format_args!("{key:?}: {value:?}"), rule));
        if !is_label_key(key) || !is_label_value(value) {
            refuse("must be a label, such as example.org/disk: ssd");
        } else if is_reserved(key) {
            refuse(
                "a kubelet may not give itself this label; placement.roles gives node-role.kubernetes.io/ROLE",
            );
        }
    }
    for (index, Taint { key, value, effect }) in taints.iter().enumerate() {
        let field = format!("{field}.taints");
        let mut refuse = |rule: &str| problems.push(Problem::new(&field, format_args!("{key:?}"), rule));
        if !is_label_key(key) || !is_label_value(value) {
            refuse("key and value must be as those of a label");
        }
        // As the API server refuses a Node with such, which then never joins.
        if taints.iter().take(index).any(|other| other.key == *key && other.effect == *effect) {
            refuse("stands twice with the same effect; leave one out");
        }
        if !EFFECTS.contains(&effect.as_str()) {
            refuse("effect must be NoSchedule, PreferNoSchedule or NoExecute");
        }
    }
}

fn is_reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    let within = |outer: &&str| domain == *outer || domain.ends_with(&format!(".{outer}"));
    RESERVED.iter().any(&within) && !ALLOWED_DOMAINS.iter().any(within) && !ALLOWED.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_a_kubelet_may_give_itself() {
        for good in [
            "disk",
            "example.org/disk",
            "node.kubernetes.io/pool",
            "topology.kubernetes.io/zone",
            "a.kubelet.kubernetes.io/b",
        ] {
            assert!(!is_reserved(good), "{good}");
        }
        for bad in [
            "node-role.kubernetes.io/worker",
            "kubernetes.io/x",
            "node-restriction.kubernetes.io/a",
            "k8s.io/b",
        ] {
            assert!(is_reserved(bad), "{bad}");
        }
    }
}
