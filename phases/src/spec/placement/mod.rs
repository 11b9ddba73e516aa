//! Where pods go: which role a node has, what is spread over nodes, and what hoist adds to what
//! workloads state themselves.

mod policy;
mod roles;
mod spread;

use serde::{Deserialize, Serialize};

pub use policy::{PlacementPolicy, Toleration};
pub use roles::{ELSEWHERE, ELSEWHERE_LABEL, ROLE_LABEL_PREFIX, RoleNodes, RoleRule};
pub use spread::Spread;

/// Settings of the section `placement`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Placement {
    /// None at all: hoist gives no node a role, and takes away those it gave.
    pub roles: Vec<RoleRule>,
    pub spread: Spread,
    /// `None` when nobody has ever asked for one.
    pub policy: Option<PlacementPolicy>,
}

impl Default for Placement {
    fn default() -> Self {
        Self { roles: RoleRule::defaults(), spread: Spread::default(), policy: None }
    }
}
