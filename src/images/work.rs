//! The build cache: `$XDG_CACHE_HOME/hoist/images`. Compiled programs stay there, so that a second build is
//! quick; contexts and root file systems are removed as soon as the engine has them.

use std::path::{Path, PathBuf};

use super::error::ImageError;
use crate::env;

/// Cache directory and the scratch space of one run, which is removed on drop.
#[derive(Debug)]
pub(crate) struct WorkDir {
    cache: PathBuf,
    scratch: PathBuf,
    // Held for its lock only.
    _lock: std::fs::File,
}

impl WorkDir {
    /// Opens the cache and waits until no other process builds in it.
    pub(crate) async fn open(cache: Option<&Path>) -> Result<Self, ImageError> {
        let cache = match cache {
            Some(path) => path.to_path_buf(),
            None => default_cache().ok_or(ImageError::NoCache)?,
        };
        let task = tokio::task::spawn_blocking(move || Self::open_blocking(cache));
        match task.await {
            Ok(result) => result,
            // A blocking task fails only when the runtime goes down.
            Err(error) => Err(ImageError::File {
                operation: "lock build cache",
                path: PathBuf::new(),
                source: std::io::Error::other(error),
            }),
        }
    }

    fn open_blocking(cache: PathBuf) -> Result<Self, ImageError> {
        let scratch = cache.join("scratch");
        std::fs::create_dir_all(&cache).map_err(ImageError::file("create", &cache))?;
        let lock_path = cache.join("lock");
        let lock = std::fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(ImageError::file("open", &lock_path))?;
        lock.lock().map_err(ImageError::file("lock", &lock_path))?;
        // A run that was killed may have left its own behind.
        if scratch.exists() {
            std::fs::remove_dir_all(&scratch).map_err(ImageError::file("remove", &scratch))?;
        }
        std::fs::create_dir(&scratch).map_err(ImageError::file("create", &scratch))?;
        Ok(Self { cache, scratch, _lock: lock })
    }

    /// A path in the space that this run may use.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// A directory that later runs find again.
    pub(crate) fn kept(&self, name: &str) -> Result<PathBuf, ImageError> {
        let path = self.cache.join(name);
        std::fs::create_dir_all(&path).map_err(ImageError::file("create", &path))?;
        Ok(path)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // The next run removes what can't be removed now.
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

fn default_cache() -> Option<PathBuf> {
    let base = env::value(env::XDG_CACHE_HOME)
        .map(PathBuf::from)
        .or_else(|| env::value(env::HOME).map(|home| Path::new(&home).join(".cache")))?;
    Some(base.join("hoist").join("images"))
}
