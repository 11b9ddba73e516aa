//! Where pods go: what hoist adds to what workloads state themselves.

mod policy;

use serde::{Deserialize, Serialize};

pub use policy::{PlacementPolicy, Toleration};

/// Settings of the section `placement`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Placement {
    /// `None` when nobody has ever asked for one.
    pub policy: Option<PlacementPolicy>,
}
