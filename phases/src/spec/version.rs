use std::fmt;

use serde::{Deserialize, Serialize};

use super::minors::{MINORS, Minor, MutatingPolicies};

/// A Kubernetes version such as `v1.36.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion {
    pub minor: u32,
    pub patch: u32,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VersionError {
    #[error("kubernetes {0:?}: must be a full version, such as {pinned}", pinned = pinned())]
    Malformed(String),
    #[error(
        "kubernetes {0:?}: hoist knows the minor versions 1.{first} to 1.{last}; pinned are {pinned}",
        first = MINORS[0].pinned.minor, last = MINORS[MINORS.len() - 1].pinned.minor, pinned = pinned()
    )]
    Unsupported(String),
}

/// The pinned versions, for messages.
fn pinned() -> String {
    KubernetesVersion::pinned().map(|version| version.to_string()).collect::<Vec<_>>().join(", ")
}

impl KubernetesVersion {
    /// What `hoist up` starts when nothing else is said.
    pub const DEFAULT: Self = Self { minor: 36, patch: 3 };

    /// The versions whose sources are pinned, one a minor, oldest first.
    pub fn pinned() -> impl Iterator<Item = Self> {
        MINORS.iter().map(|minor| minor.pinned)
    }

    /// The row of its minor, if hoist knows it.
    pub fn known(self) -> Option<&'static Minor> {
        MINORS.iter().find(|minor| minor.pinned.minor == self.minor)
    }

    /// Whether the API server mutates by policy without further ado (KEP-3962: GA in 1.36).
    pub fn has_mutating_policies(self) -> bool {
        self.known().is_some_and(|minor| minor.mutating_policies == MutatingPolicies::Stable)
    }

    /// Reads `v1.36.3` or `1.36.3`.
    ///
    /// # Errors
    /// When the text is no version, or a minor that hoist doesn't know.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let malformed = || VersionError::Malformed(text.to_owned());
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut number = || {
            let part = parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
            part.and_then(|p| p.parse::<u32>().ok()).ok_or_else(malformed)
        };
        let (major, minor, patch) = (number()?, number()?, number()?);
        if parts.next().is_some() {
            return Err(malformed());
        }
        let version = Self { minor, patch };
        if major != 1 || version.known().is_none() {
            return Err(VersionError::Unsupported(text.to_owned()));
        }
        Ok(version)
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{}.{}", self.minor, self.patch)
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = VersionError;
    fn try_from(text: String) -> Result<Self, VersionError> {
        Self::parse(&text)
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_with_and_without_v() {
        let wanted = Ok(KubernetesVersion { minor: 36, patch: 3 });
        assert_eq!(KubernetesVersion::parse("v1.36.3"), wanted);
        assert_eq!(KubernetesVersion::parse("1.36.3"), wanted);
    }

    #[test]
    fn refuses_the_unknown() {
        for bad in ["", "v1", "v1.36", "v1.36.3-rc.1", "v1.36.3.4", "vv1.36.3", "v1.+36.3"] {
            assert_eq!(KubernetesVersion::parse(bad), Err(VersionError::Malformed(bad.to_owned())));
        }
        for bad in ["v1.33.0", "v1.38.0", "v2.36.3"] {
            assert_eq!(KubernetesVersion::parse(bad), Err(VersionError::Unsupported(bad.to_owned())));
        }
    }

    #[test]
    fn a_refusal_names_what_can_be_had() {
        for bad in ["v1.36", "v1.33.0", "v1.38.0"] {
            let told =
                KubernetesVersion::parse(bad).map_err(|error| error.to_string()).err().unwrap_or_default();
            for version in KubernetesVersion::pinned() {
                assert!(told.contains(bad) && told.contains(&version.to_string()), "{told}");
            }
        }
    }

    #[test]
    fn policies_are_there_from_1_36_on() {
        for minor in MINORS {
            assert_eq!(minor.pinned.has_mutating_policies(), minor.pinned.minor >= 36, "{}", minor.pinned);
        }
    }
}
