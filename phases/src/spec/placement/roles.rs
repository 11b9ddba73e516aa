use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What the label (and taint) of a role is called; kubectl's column ROLES shows what comes after it.
pub const ROLE_LABEL_PREFIX: &str = "node-role.kubernetes.io/";

/// Role of nodes without an address in the cluster's own network; not the configuration's to give.
pub const ELSEWHERE: &str = "elsewhere";

/// Its label.
pub const ELSEWHERE_LABEL: &str = "node-role.kubernetes.io/elsewhere";

/// One role and the nodes that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleRule {
    /// What comes after [`ROLE_LABEL_PREFIX`].
    pub role: String,
    pub nodes: RoleNodes,
    /// Whether the nodes also get a taint of that name with effect NoSchedule.
    pub taint: bool,
}

/// Which nodes have a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RoleNodes {
    All,
    Named(BTreeSet<String>),
    /// So many: those that have it already first, then the oldest.
    Count(u32),
    /// Those with all of these labels.
    Selected(BTreeMap<String, String>),
}

impl RoleRule {
    /// What KubeVirt's infrastructure asks for: its operator wants a control-plane node that
    /// takes pods, the rest any worker.
    pub fn defaults() -> Vec<Self> {
        let rule = |role: &str, nodes| Self { role: role.to_owned(), nodes, taint: false };
        vec![
            rule("control-plane", RoleNodes::Named(BTreeSet::from(["node01".to_owned()]))),
            rule("worker", RoleNodes::All),
        ]
    }

    /// Name of the label and of the taint.
    pub fn key(&self) -> String {
        format!("{ROLE_LABEL_PREFIX}{}", self.role)
    }

    /// Why the role can't be the name of a label (Kubernetes, "Labels and Selectors": the part
    /// after the slash).
    pub fn problem(&self) -> Option<&'static str> {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let role = &self.role;
        let good = role.len() <= 63
            && role.chars().all(inner)
            && outer(role.chars().next())
            && outer(role.chars().last());
        if role == ELSEWHERE {
            return Some(
                "is what hoist calls nodes outside of the cluster's own network; choose another name",
            );
        }
        (!good).then_some("must be a label's name: letters, digits, '-', '_' and '.', at most 63")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_names_of_labels() {
        let rule = |role: &str| RoleRule { role: role.to_owned(), nodes: RoleNodes::All, taint: false };
        for good in ["control-plane", "a", "infra_1.x"] {
            assert_eq!(rule(good).problem(), None, "{good}");
        }
        let long = "a".repeat(64);
        for bad in [ELSEWHERE, "", "-a", "a-", "a/b", "ä", long.as_str()] {
            assert!(rule(bad).problem().is_some(), "{bad} was accepted");
        }
        assert_eq!(rule(ELSEWHERE).key(), ELSEWHERE_LABEL);
    }
}
