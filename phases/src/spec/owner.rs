use serde::{Deserialize, Serialize};

/// Whose network namespace the components share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// That of a container hoist makes for it.
    #[default]
    Own,
    /// That of a container which is there already.
    Attach(Attach),
}

/// A container of somebody else's, with the bridge and its DHCP: only looked at, never changed,
/// labelled or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attach {
    pub container: String,
    /// What the components' names begin with instead of `hoist-CLUSTER`: tools that clean up by
    /// name then find them.
    #[serde(default)]
    pub prefix: Option<String>,
    /// `HOST[:PORT]` of the registry that the machines pull the images of hoist's addons from;
    /// absent when they bring them along.
    #[serde(default)]
    pub registry: Option<String>,
}

impl Owner {
    pub fn attach(&self) -> Option<&Attach> {
        match self {
            Self::Own => None,
            Self::Attach(attach) => Some(attach),
        }
    }
}
