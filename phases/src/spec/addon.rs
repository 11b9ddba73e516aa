use serde::{Deserialize, Serialize};

/// A manifest of the user's that is part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Addon {
    /// The file or URL it was read from.
    pub origin: String,
    pub yaml: String,
    /// Whether the next one, and the end of the run, wait until what it makes is ready.
    pub wait: bool,
}
