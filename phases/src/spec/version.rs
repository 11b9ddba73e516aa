use std::fmt;

use serde::{Deserialize, Serialize};

/// Minor versions hoist knows the flags and objects of.
pub const SUPPORTED: std::ops::RangeInclusive<u32> = 34..=37;

/// A Kubernetes version such as `v1.36.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion {
    pub minor: u32,
    pub patch: u32,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VersionError {
    #[error("kubernetes {0:?}: must look like v1.36.3")]
    Malformed(String),
    #[error("kubernetes {0:?}: hoist knows 1.{min} to 1.{max}", min = SUPPORTED.start(), max = SUPPORTED.end())]
    Unsupported(String),
}

impl KubernetesVersion {
    /// What `hoist up` starts when nothing else is said.
    pub const DEFAULT: Self = Self { minor: 36, patch: 3 };

    /// Whether the API server mutates by policy without further ado (KEP-3962: GA in 1.36).
    pub fn has_mutating_policies(self) -> bool {
        self.minor >= 36
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
        if major != 1 || !SUPPORTED.contains(&minor) {
            return Err(VersionError::Unsupported(text.to_owned()));
        }
        Ok(Self { minor, patch })
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
}
