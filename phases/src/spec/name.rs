use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest cluster name in bytes: container names such as `hoist-NAME-kube-controller-manager`
/// stay below 63, the limit of a DNS label (RFC 1123), because engines use them as host names.
const MAX_NAME_LEN: usize = 32;

/// The name of a cluster: an RFC 1123 label of at most 32 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    #[error("cluster name {0:?}: must not be empty")]
    Empty(String),
    #[error("cluster name {name:?}: {len} characters, at most {MAX_NAME_LEN} fit into container names")]
    TooLong { name: String, len: usize },
    #[error(
        "cluster name {name:?}: {bad:?} is not allowed; use lower-case letters, digits and '-', with a letter or digit at both ends"
    )]
    BadCharacter { name: String, bad: char },
}

impl ClusterName {
    /// Checks a name.
    ///
    /// # Errors
    /// The first rule that the name breaks.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        if name.is_empty() {
            return Err(NameError::Empty(name));
        }
        if name.len() > MAX_NAME_LEN {
            let len = name.chars().count();
            return Err(NameError::TooLong { name, len });
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let edge = |c: Option<char>| c.filter(|c| !c.is_ascii_alphanumeric());
        let bad = name
            .chars()
            .find(|c| !allowed(*c))
            .or_else(|| edge(name.chars().next()))
            .or_else(|| edge(name.chars().next_back()));
        match bad {
            Some(bad) => Err(NameError::BadCharacter { name, bad }),
            None => Ok(Self(name)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ClusterName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_dns_labels() {
        for name in ["a", "hoist", "k8s-1-36", "0", &"x".repeat(MAX_NAME_LEN)] {
            assert_eq!(ClusterName::new(name).map(String::from), Ok(name.to_owned()));
        }
    }

    #[test]
    fn kind_names_that_break_later_are_refused() {
        for name in ["", "-a", "a-", "A", "a_b", "a.b", "ä", "a b", &"x".repeat(MAX_NAME_LEN + 1)] {
            assert!(ClusterName::new(name).is_err(), "{name:?} was accepted");
        }
    }
}
