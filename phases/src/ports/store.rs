use std::collections::BTreeMap;

/// Files of one cluster's state directory, by relative path. Directories are 0700, files 0600.
pub type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug, thiserror::Error)]
#[error("{operation} {path}")]
pub struct StoreError {
    pub operation: &'static str,
    pub path: String,
    #[source]
    pub source: std::io::Error,
}

/// The state directory of one cluster.
pub trait Store: Send + Sync {
    /// `None` when there is no such file.
    ///
    /// # Errors
    /// When it is there and can't be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Replaces a file atomically with mode 0600.
    ///
    /// # Errors
    /// When it can't be written; the old content is then still whole.
    fn write(&self, path: &str, content: &[u8]) -> Result<(), StoreError>;

    /// Succeeds when there is no such file.
    ///
    /// # Errors
    /// When it is there and can't be removed.
    fn remove(&self, path: &str) -> Result<(), StoreError>;
}
