//! What a placement policy may say, judged as the API server would judge it later.

use hoist_phases::spec::{PlacementPolicy, Toleration};

use crate::config::problem::{Problem, Problems};

const FIELD: &str = "placement.policy";

pub(in crate::config) fn check(policy: &PlacementPolicy, problems: &mut Problems) {
    let PlacementPolicy { namespaces, node_selector, tolerations, replicas } = policy;
    let mut refuse = |field: &str, value: &str, rule: &str| {
        problems.push(Problem::new(&format!("{FIELD}.{field}"), format_args!("{value:?}"), rule));
    };
    for namespace in namespaces.iter().filter(|name| !is_namespace(name)) {
        let rule = "must be the name of a namespace: lower-case letters, digits and '-', at most 63";
        refuse("namespaces", namespace, rule);
    }
    for (key, value) in node_selector {
        if !is_label_key(key) {
            refuse("nodeSelector", key, "must be the key of a label, such as example.org/name");
        }
        if !is_label_value(value) {
            refuse("nodeSelector", value, "must be the value of a label: at most 63 of A-Z a-z 0-9 - _ .");
        }
    }
    for toleration in tolerations {
        let shown = serde_json::to_string(toleration).unwrap_or_default();
        if let Some(rule) = wrong_with(toleration) {
            problems.push(Problem::new(&format!("{FIELD}.tolerations"), shown, rule));
        }
    }
    if *replicas == Some(0) {
        problems.push(Problem::new(&format!("{FIELD}.replicas"), 0, "must be 1 or more"));
    }
}

/// RFC 1123, section 2.1, as Kubernetes reads it.
pub(super) fn is_namespace(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// A name of at most 63 characters, after a DNS name and a slash or alone.
pub(in crate::config) fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_prefix = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(is_namespace);
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_prefix)
}

pub(in crate::config) fn is_label_value(value: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && edge(bytes.first())
        && edge(bytes.last())
}

/// The first rule of core/v1 that a toleration breaks.
fn wrong_with(toleration: &Toleration) -> Option<&'static str> {
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    let (key, value) = (key.as_deref().unwrap_or_default(), value.as_deref().unwrap_or_default());
    let exists = operator.as_deref() == Some("Exists");
    let effects = [None, Some("NoSchedule"), Some("PreferNoSchedule"), Some("NoExecute")];
    match () {
        () if ![None, Some("Exists"), Some("Equal")].contains(&operator.as_deref()) => {
            Some("operator must be Exists or Equal")
        }
        () if !effects.contains(&effect.as_deref()) => {
            Some("effect must be NoSchedule, PreferNoSchedule or NoExecute")
        }
        () if key.is_empty() && !exists => Some("without a key the operator must be Exists"),
        () if !key.is_empty() && !is_label_key(key) => Some("key must be that of a taint"),
        () if exists && !value.is_empty() => Some("operator Exists goes without a value"),
        () if !is_label_value(value) => Some("value must be that of a taint"),
        () if toleration_seconds.is_some() && effect.as_deref() != Some("NoExecute") => {
            Some("tolerationSeconds goes with effect NoExecute")
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_judged_as_kubernetes_does() {
        for good in ["a", "kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "A_b.C"] {
            assert!(is_label_key(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "-a", "a-", "Ex.org/a", "a b", &"a".repeat(64)] {
            assert!(!is_label_key(bad), "{bad}");
        }
        assert!(is_label_value("") && !is_label_value(".a"));
    }

    #[test]
    fn tolerations_are_judged_as_kubernetes_does() -> Result<(), serde_json::Error> {
        for (text, rule) in [
            (r#"{"operator": "Exists"}"#, ""),
            (r#"{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}"#, ""),
            (r#"{"key": "a", "operator": "exists"}"#, "Equal"),
            (r#"{"key": "a", "effect": "Never"}"#, "NoSchedule"),
            (r#"{"effect": "NoSchedule"}"#, "without a key"),
            (r#"{"key": "a", "operator": "Exists", "value": "b"}"#, "without a value"),
            (r#"{"key": "a", "tolerationSeconds": 5}"#, "NoExecute"),
            (r#"{"key": "a b"}"#, "taint"),
        ] {
            let found = wrong_with(&serde_json::from_str(text)?).unwrap_or_default();
            assert_eq!(found.is_empty(), rule.is_empty(), "{text}: {found}");
            assert!(found.contains(rule), "{text}: {found}");
        }
        Ok(())
    }
}
