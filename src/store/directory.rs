use std::io;
use std::path::{Component, Path, PathBuf};

use hoist_phases::ports::{Store, StoreError};
use hoist_phases::spec::{ClusterName, ClusterSpec};

use super::StateError;
use crate::files::{self, FileError, PRIVATE, ProcessLock, ProcessLockError};

/// Directory of the clusters below the root.
pub(super) const CLUSTERS: &str = "clusters";

/// Directory of the lock files: apart from the clusters' own, so that `down` can remove those
/// while it holds the lock.
const LOCKS: &str = "locks";

/// The resolved configuration.
const SPEC: &str = "cluster.json";

/// What the cluster may be instead, in part, since a run did not end well.
const UNSETTLED: &str = "unsettled.json";

/// The state directory of one cluster.
#[derive(Debug, Clone)]
pub struct StateDir {
    cluster: ClusterName,
    root: PathBuf,
    path: PathBuf,
}

/// Keeps other processes from working on the same cluster until it is dropped.
#[derive(Debug)]
pub struct ClusterLock {
    lock: Option<ProcessLock>,
    root: PathBuf,
}

impl Drop for ClusterLock {
    fn drop(&mut self) {
        drop(self.lock.take());
        // Nothing of hoist's stays once the last cluster is gone: each call fails as long as
        // there is anything inside.
        for directory in [self.root.join(LOCKS), self.root.join(CLUSTERS), self.root.clone()] {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

impl StateDir {
    pub(super) fn new(root: &Path, cluster: &ClusterName) -> Self {
        let path = root.join(CLUSTERS).join(cluster.as_str());
        Self { cluster: cluster.clone(), root: root.to_owned(), path }
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Claims the cluster for this process.
    ///
    /// # Errors
    /// When another process has it: the error names its process id.
    pub fn lock(&self) -> Result<ClusterLock, StateError> {
        match ProcessLock::acquire(&self.root.join(LOCKS).join(format!("{}.lock", self.cluster))) {
            Ok(lock) => Ok(ClusterLock { lock: Some(lock), root: self.root.clone() }),
            Err(ProcessLockError::Held { holder, .. }) => {
                let holder = holder.map_or("process id unknown".to_owned(), |pid| format!("process {pid}"));
                Err(StateError::Busy { cluster: self.cluster.clone(), holder })
            }
            Err(ProcessLockError::File(source)) => Err(self.failed(source)),
        }
    }

    /// The configuration that the cluster was last brought up with.
    ///
    /// # Errors
    /// [`StateError::Absent`] without a directory; when the file is missing, can't be read, is cut
    /// short or belongs to another cluster, an error with a hint.
    pub fn read_spec(&self) -> Result<ClusterSpec, StateError> {
        let (cluster, path) = (self.cluster.clone(), self.path.join(SPEC));
        let Some(content) = files::read(&path).map_err(|source| self.failed(source))? else {
            return Err(match self.exists() {
                true => StateError::Incomplete { cluster, path },
                false => StateError::Absent { cluster, path: self.path.clone() },
            });
        };
        match serde_json::from_slice::<ClusterSpec>(&content) {
            Ok(spec) if spec.name == cluster => Ok(spec),
            Ok(spec) => Err(StateError::Misplaced { cluster, path, found: spec.name }),
            Err(source) => Err(StateError::Malformed { cluster, path, source }),
        }
    }

    /// Keeps the configuration. It holds the bootstrap token, hence mode 0600.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_spec(&self, spec: &ClusterSpec) -> Result<(), StateError> {
        let json = serde_json::to_vec_pretty(spec);
        let json = json.map_err(|source| StateError::Serialize { cluster: self.cluster.clone(), source })?;
        files::write(&self.path.join(SPEC), &json, PRIVATE).map_err(|source| self.failed(source))
    }

    /// What runs that did not end well have tried to make of the cluster, or were to change in it.
    ///
    /// # Errors
    /// When the file can't be read or understood.
    pub fn unsettled(&self) -> Result<Vec<ClusterSpec>, StateError> {
        let path = self.path.join(UNSETTLED);
        let Some(content) = files::read(&path).map_err(|source| self.failed(source))? else {
            return Ok(Vec::new());
        };
        let cluster = self.cluster.clone();
        serde_json::from_slice(&content).map_err(|source| StateError::Malformed { cluster, path, source })
    }

    /// Keeps that a run from `present` to `wanted` has begun; until [`StateDir::settled`] the cluster may
    /// be in part what either says.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn begin(&self, present: &ClusterSpec, wanted: &ClusterSpec) -> Result<(), StateError> {
        if present == wanted {
            return Ok(());
        }
        // One that can't be understood must not keep the run from mending the cluster.
        let mut all = self.unsettled().unwrap_or_default();
        for spec in [present, wanted] {
            if !all.contains(spec) {
                all.push(spec.clone());
            }
        }
        let json = serde_json::to_vec_pretty(&all);
        let json = json.map_err(|source| StateError::Serialize { cluster: self.cluster.clone(), source })?;
        files::write(&self.path.join(UNSETTLED), &json, PRIVATE).map_err(|source| self.failed(source))
    }

    /// Forgets what runs have tried: the cluster is what is recorded.
    ///
    /// # Errors
    /// When the file can't be removed.
    pub fn settled(&self) -> Result<(), StateError> {
        files::shred(&self.path.join(UNSETTLED)).map_err(|source| self.failed(source))
    }

    /// Shreds the cluster's files and removes its directory; succeeds when there is none.
    ///
    /// # Errors
    /// When something can't be removed; the rest is gone then.
    pub fn destroy(&self) -> Result<(), StateError> {
        files::shred_directory(&self.path).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: FileError) -> StateError {
        StateError::File { cluster: self.cluster.clone(), source }
    }

    fn resolve(&self, operation: &'static str, path: &str) -> Result<PathBuf, StoreError> {
        let inside =
            !path.is_empty() && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
        if inside {
            return Ok(self.path.join(path));
        }
        let source = io::Error::new(io::ErrorKind::InvalidInput, "path leads out of the state directory");
        Err(StoreError { operation, path: path.to_owned(), source })
    }
}

fn store_error(operation: &'static str, path: &Path, error: FileError) -> StoreError {
    let source = match error {
        FileError::Io { source, .. } => source,
        other => io::Error::other(other),
    };
    StoreError { operation, path: path.display().to_string(), source }
}

impl Store for StateDir {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.resolve("read", path)?;
        files::read(&path).map_err(|error| store_error("read", &path, error))
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.resolve("write", path)?;
        files::write(&path, content, PRIVATE).map_err(|error| store_error("write", &path, error))
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let path = self.resolve("remove", path)?;
        files::shred(&path).map_err(|error| store_error("remove", &path, error))
    }
}
