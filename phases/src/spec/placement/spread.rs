use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Which Deployments get their replicas onto different nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Spread {
    /// `false` leaves every pod where it is, those of the cluster's DNS included.
    pub enabled: bool,
    /// All Deployments of these namespaces, beside the cluster's DNS.
    pub namespaces: BTreeSet<String>,
    /// Deployments of any namespace that carry all of these labels; none when empty.
    pub labels: BTreeMap<String, String>,
}

impl Default for Spread {
    fn default() -> Self {
        Self { enabled: true, namespaces: BTreeSet::new(), labels: BTreeMap::new() }
    }
}
