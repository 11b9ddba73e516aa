//! The state directory: keys and the resolved configuration of each cluster.
//!
//! `$XDG_STATE_HOME/hoist/clusters/NAME/…`, directories 0700, files 0600. What exists and runs is
//! told by the engine's labels, not by this directory: it may be gone, and `down` works all the same.

mod directory;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hoist_phases::spec::ClusterName;

use crate::env::{HOME, XDG_STATE_HOME};
use crate::files::FileError;

pub use directory::{ClusterLock, StateDir};

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("no place for the state directory: neither {XDG_STATE_HOME} nor {HOME} is an absolute path")]
    NoHome,
    #[error("cluster {cluster}: another hoist is at work on it ({holder})")]
    Busy { cluster: ClusterName, holder: String },
    #[error("cluster {cluster}: {} is not there, though its directory is", path.display())]
    Incomplete { cluster: ClusterName, path: PathBuf },
    #[error("cluster {cluster}: no state directory {}", path.display())]
    Absent { cluster: ClusterName, path: PathBuf },
    #[error("cluster {cluster}: {} can't be understood", path.display())]
    Malformed {
        cluster: ClusterName,
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("cluster {cluster}: {} describes cluster {found}", path.display())]
    Misplaced { cluster: ClusterName, path: PathBuf, found: ClusterName },
    #[error("cluster {cluster}: configuration can't be written as JSON")]
    Serialize {
        cluster: ClusterName,
        #[source]
        source: serde_json::Error,
    },
    #[error("cluster {cluster}: state directory")]
    File {
        cluster: ClusterName,
        #[source]
        source: FileError,
    },
    #[error("state directory")]
    Root(#[source] FileError),
}

impl StateError {
    /// What the user can do about it, if there is anything.
    pub fn hint(&self) -> Option<String> {
        let again = |name: &ClusterName| {
            Some(format!("`hoist down --name {name}` removes what is left, then `hoist up` again"))
        };
        match self {
            Self::NoHome => Some(format!("set {XDG_STATE_HOME} to an absolute path")),
            Self::Busy { .. } => Some("wait for it to end, or end it".to_owned()),
            Self::Incomplete { cluster, .. }
            | Self::Malformed { cluster, .. }
            | Self::Misplaced { cluster, .. }
            | Self::Absent { cluster, .. } => again(cluster),
            Self::File { source, .. } | Self::Root(source) => source.hint(),
            Self::Serialize { .. } => None,
        }
    }
}

/// The directory that holds the state of all clusters.
#[derive(Debug, Clone)]
pub struct StateRoot(PathBuf);

impl StateRoot {
    /// Uses this directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Finds the directory by the environment.
    ///
    /// # Errors
    /// When neither variable is an absolute path.
    pub fn from_environment() -> Result<Self, StateError> {
        Self::resolve(|name| std::env::var_os(name))
    }

    fn resolve(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, StateError> {
        // The specification has relative paths ignored.
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute(XDG_STATE_HOME).or_else(|| absolute(HOME).map(|home| home.join(".local/state")));
        base.map(|base| Self(base.join("hoist"))).ok_or(StateError::NoHome)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The state directory of one cluster; nothing is made yet.
    pub fn cluster(&self, name: &ClusterName) -> StateDir {
        StateDir::new(&self.0, name)
    }

    /// Names of the clusters that have a directory, sorted. Entries that no cluster can be named
    /// after aren't hoist's and are left out.
    ///
    /// # Errors
    /// When the directory is there and can't be read.
    pub fn clusters(&self) -> Result<Vec<ClusterName>, StateError> {
        let path = self.0.join(directory::CLUSTERS);
        let failed =
            |source| StateError::Root(FileError::Io { operation: "list", path: path.clone(), source });
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().into_string().ok().and_then(|name| ClusterName::new(name).ok());
            names.extend(name.filter(|_| entry.path().is_dir()));
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Option<PathBuf> {
        let find =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        StateRoot::resolve(find).ok().map(|root| root.0)
    }

    #[test]
    fn follows_the_xdg_specification() {
        assert_eq!(root(&[(XDG_STATE_HOME, "/s"), (HOME, "/h")]), Some("/s/hoist".into()));
        assert_eq!(root(&[(HOME, "/h")]), Some("/h/.local/state/hoist".into()));
        assert_eq!(root(&[(XDG_STATE_HOME, "relative"), (HOME, "/h")]), Some("/h/.local/state/hoist".into()));
        assert_eq!(root(&[(XDG_STATE_HOME, ""), (HOME, "")]), None);
    }
}
