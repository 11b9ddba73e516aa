//! Which nodes have which role.

use std::collections::{BTreeMap, BTreeSet};

use hoist_phases::spec::{RoleNodes, RoleRule};

use crate::config::file::RoleFile;
use crate::config::problem::{Problem, Problems};

const FIELD: &str = "placement.roles";

/// The roles that a file names.
pub(in crate::config) fn roles(files: Vec<RoleFile>, problems: &mut Problems) -> Vec<RoleRule> {
    let rules: Vec<_> = files.into_iter().filter_map(|file| problems.keep(role(file))).collect();
    let mut seen = BTreeSet::new();
    for rule in rules.iter().filter(|rule| !seen.insert(rule.role.clone())) {
        problems.push(Problem::new(FIELD, format_args!("{:?}", rule.role), "stands there more than once"));
    }
    rules
}

fn role(file: RoleFile) -> Result<RoleRule, Problem> {
    let RoleFile { role, nodes, count, selector, taint } = file;
    let refused = |rule: &str| Problem::new(FIELD, format_args!("{role:?}"), rule);
    let nodes = match (nodes, count, selector) {
        (None, None, None) => RoleNodes::All,
        (Some(names), None, None) => RoleNodes::Named(names.into_iter().collect()),
        (None, Some(count), None) => RoleNodes::Count(count),
        (None, None, Some(labels)) => RoleNodes::Selected(labels),
        _ => return Err(refused("takes one of nodes, count and selector; none of them means every node")),
    };
    let is_label = |(key, value): (&String, &String)| {
        super::policy::is_label_key(key) && super::policy::is_label_value(value)
    };
    match &nodes {
        RoleNodes::Named(names) if !names.iter().all(|name| is_node(name)) => {
            return Err(refused("nodes must be names of nodes: lower-case letters, digits, '-' and '.'"));
        }
        RoleNodes::Selected(labels) if !labels.iter().all(is_label) => {
            return Err(refused("selector must be labels, such as disk: ssd"));
        }
        RoleNodes::Selected(labels) if labels.is_empty() => {
            return Err(refused("selector names no label; leave it out for every node"));
        }
        RoleNodes::Count(0) => return Err(refused("count must be 1 or more; leave the role out for none")),
        _ => {}
    }
    let rule = RoleRule { role: role.clone(), nodes, taint: taint.unwrap_or_default() };
    rule.problem().map_or(Ok(rule), |problem| Err(refused(problem)))
}

/// A DNS subdomain (RFC 1123), as names of Nodes are.
fn is_node(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(super::policy::is_namespace)
}

/// The namespaces that spreading goes by.
pub(in crate::config) fn check_namespaces<'a>(
    namespaces: impl IntoIterator<Item = &'a String>,
    problems: &mut Problems,
) {
    for namespace in namespaces.into_iter().filter(|name| !super::policy::is_namespace(name)) {
        let rule = "must be the name of a namespace: lower-case letters, digits and '-', at most 63";
        problems.push(Problem::new("placement.spread.namespaces", format_args!("{namespace:?}"), rule));
    }
}

/// The labels that spreading goes by.
pub(in crate::config) fn check_labels(labels: &BTreeMap<String, String>, problems: &mut Problems) {
    for (key, value) in labels {
        if !super::policy::is_label_key(key) || !super::policy::is_label_value(value) {
            let rule = "must be a label, such as app.kubernetes.io/part-of: kubevirt";
            problems.push(Problem::new("placement.spread.labels", format_args!("{key:?}: {value:?}"), rule));
        }
    }
}
