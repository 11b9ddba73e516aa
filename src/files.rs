//! The one module that writes files: atomic, with an explicit mode.
//!
//! A reader sees the old content or the new one, never a part: the content goes into a temporary
//! file of the same directory, which is then renamed. Nothing is flushed to the disk for the
//! state of throw-away clusters, since what a power cut loses can be made again; files of the
//! user's ([`write_through`]) are flushed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Mode of every file that may hold a key or a token.
pub const PRIVATE: u32 = 0o600;

/// Mode of every directory that hoist makes.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// How often a lock that another process holds is tried again.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Symbolic links followed before a chain is taken for a loop; Linux itself gives up after 40.
const MAX_LINKS: usize = 40;

/// How often a directory is made anew that others remove at the same time.
const DIRECTORY_TRIES: u32 = 10;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{operation} {}", path.display())]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("follow {}: too many symbolic links", .0.display())]
    LinkLoop(PathBuf),
    #[error("write {}: not a path of a file", .0.display())]
    NoFileName(PathBuf),
    #[error("lock {}: still held after {} s", lock.display(), waited.as_secs())]
    Locked { lock: PathBuf, waited: Duration },
}

impl FileError {
    /// What the user can do about it, if there is anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Locked { lock, .. } => {
                Some(format!("if no kubectl or hoist is running, remove {}", lock.display()))
            }
            Self::Io { source, path, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!("check the owner and mode of {}", path.display()))
            }
            _ => None,
        }
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError + use<> {
    let path = path.to_owned();
    move |source| FileError::Io { operation, path, source }
}

/// Replaces a file. Missing directories above it are made with mode 0700.
///
/// # Errors
/// When it can't be written; the old content is then still whole.
pub fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    replace(path, content, mode, false)
}

/// Replaces a file of the user's, or what it links to: the link itself stays.
///
/// # Errors
/// As [`write`]; also when the links go in a circle.
pub fn write_through(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    replace(&target(path)?, content, mode, true)
}

/// Whether [`write`] could write this file now, found out by a file beside it that goes at once.
///
/// # Errors
/// When it couldn't, as [`write`]; also when the path is a directory.
pub fn writable(path: &Path) -> Result<(), FileError> {
    if path.is_dir() {
        return Err(failed("write", path)(io::ErrorKind::IsADirectory.into()));
    }
    let temporary = temporary(path)?;
    let made = in_directory(path, || fill(&temporary, &[], PRIVATE, false));
    let _ = fs::remove_file(&temporary);
    made?.map_err(failed("write", path))
}

fn replace(path: &Path, content: &[u8], mode: u32, flush: bool) -> Result<(), FileError> {
    let temporary = temporary(path)?;
    let filled = in_directory(path, || fill(&temporary, content, mode, flush))
        .and_then(|done| done.map_err(failed("write", path)));
    let renamed = filled.and_then(|()| fs::rename(&temporary, path).map_err(failed("replace", path)));
    if renamed.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    renamed
}

/// A name beside `path` that no other write uses.
fn temporary(path: &Path) -> Result<PathBuf, FileError> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or_else(|| FileError::NoFileName(path.to_owned()))?;
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_file_name(format!(".{}.{}.{unique}.tmp", name.to_string_lossy(), std::process::id())))
}

/// Does something that needs the directory of `path`. Another process that takes its last cluster
/// down removes empty directories, maybe in just that moment: then all is done once more.
fn in_directory<T>(path: &Path, work: impl Fn() -> io::Result<T>) -> Result<io::Result<T>, FileError> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let mut tries = 0;
    loop {
        tries += 1;
        let again = tries < DIRECTORY_TRIES;
        match path.parent().map_or(Ok(()), create_directory) {
            Err(FileError::Io { source, .. }) if again && gone(&source) => continue,
            made => made?,
        }
        match work() {
            Err(error) if again && gone(&error) => {}
            done => return Ok(done),
        }
    }
}

fn fill(path: &Path, content: &[u8], mode: u32, flush: bool) -> io::Result<()> {
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        // Left by a process of this number that was killed: nobody else uses the name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?
        }
        other => other?,
    };
    // The umask may have taken bits away.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    if flush { file.sync_all() } else { Ok(()) }
}

/// The file a path stands for once symbolic links are followed; it need not exist.
fn target(path: &Path) -> Result<PathBuf, FileError> {
    let mut current = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&current) {
            Ok(link) => current = current.parent().unwrap_or(Path::new("")).join(link),
            // EINVAL is how the kernel says that it is no link.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(current);
            }
            Err(error) => return Err(failed("follow", path)(error)),
        }
    }
    Err(FileError::LinkLoop(path.to_owned()))
}

/// Makes a directory and those above it that are missing, with mode 0700.
///
/// # Errors
/// When one can't be made.
pub fn create_directory(path: &Path) -> Result<(), FileError> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIRECTORY)
        .create(path)
        .map_err(failed("create directory", path))
}

/// Makes a directory, or takes one that is there, for its owner alone: mode 0700.
///
/// # Errors
/// When it can't be made, or isn't this user's.
pub fn private_directory(path: &Path) -> Result<(), FileError> {
    create_directory(path)?;
    fs::set_permissions(path, Permissions::from_mode(PRIVATE_DIRECTORY))
        .map_err(failed("set the mode of", path))
}

/// Reads a whole file; `None` when there is none.
///
/// # Errors
/// When it is there and can't be read.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// As [`read`], of a file that somebody else names: a device or a pipe may have no end.
///
/// # Errors
/// As [`read`]; also when it is no regular file, or has more than `most` bytes.
pub fn read_regular(path: &Path, most: u64) -> Result<Option<Vec<u8>>, FileError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(failed("read", path)(io::ErrorKind::IsADirectory.into())),
        Ok(found) if !found.is_file() => Err(failed("read", path)(io::Error::other("it is no regular file"))),
        Ok(found) if found.len() > most => {
            Err(failed("read", path)(io::Error::other(format!("it is larger than {} MiB", most >> 20))))
        }
        _ => read(path),
    }
}

/// Overwrites a file with zeros and removes it; succeeds when there is none. A symbolic link is
/// removed, its target left alone.
///
/// Copy-on-write file systems and SSDs may keep the old blocks all the same: this guards against
/// undeletion, not against a laboratory.
///
/// # Errors
/// When it is there and can't be removed.
pub fn shred(path: &Path) -> Result<(), FileError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed("inspect", path))?,
    };
    if metadata.is_file() {
        // A file that can't be opened for writing can still be removed.
        if let Ok(mut file) = OpenOptions::new().write(true).open(path) {
            let zeros = io::copy(&mut io::Read::take(io::repeat(0), metadata.len()), &mut file);
            zeros.and_then(|_| file.sync_data()).map_err(failed("overwrite", path))?;
        }
    }
    fs::remove_file(path).map_err(failed("remove", path))
}

/// Shreds every file below a directory and removes it; succeeds when there is none. Goes on after
/// a failure, so that as little as possible stays.
///
/// # Errors
/// The first failure.
pub fn shred_directory(path: &Path) -> Result<(), FileError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed("list", path))?,
    };
    let mut result = Ok(());
    for entry in entries {
        let removed = entry.map_err(failed("list", path)).and_then(|entry| {
            match entry.file_type().map_err(failed("inspect", &entry.path()))?.is_dir() {
                true => shred_directory(&entry.path()),
                false => shred(&entry.path()),
            }
        });
        result = result.and(removed);
    }
    result.and_then(|()| fs::remove_dir(path).map_err(failed("remove directory", path)))
}

/// The lock that kubectl takes before it writes a kubeconfig: a file beside it, made only if it
/// doesn't exist (client-go `clientcmd.lockFile`). Dropping it lets go.
#[derive(Debug)]
pub struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    /// Waits at most `wait` for the lock of the file that `path` stands for. Blocks the thread.
    ///
    /// # Errors
    /// When another process still holds it after that time, or the lock file can't be made.
    pub fn acquire(path: &Path, wait: Duration) -> Result<Self, FileError> {
        let mut name = target(path)?.into_os_string();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let deadline = Instant::now() + wait;
        loop {
            let create = || OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&lock);
            match in_directory(&lock, create)? {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed("lock", &lock)(error));
                }
                Err(_) if Instant::now() >= deadline => return Err(FileError::Locked { lock, waited: wait }),
                Err(_) => std::thread::sleep(LOCK_POLL),
            }
        }
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A lock file held by this process through the kernel, which lets go when the process ends,
/// however it ends. The file holds the process id and is removed on drop.
#[derive(Debug)]
pub struct ProcessLock {
    path: PathBuf,
    /// Open for as long as the lock is held.
    _file: File,
}

/// Why [`ProcessLock::acquire`] gave no lock.
#[derive(Debug, thiserror::Error)]
pub enum ProcessLockError {
    #[error("{} is held by {}", path.display(), holder.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Held { path: PathBuf, holder: Option<u32> },
    #[error(transparent)]
    File(#[from] FileError),
}

impl ProcessLock {
    /// Takes the lock or says at once who holds it.
    ///
    /// # Errors
    /// When another process holds it, or the file can't be opened.
    pub fn acquire(path: &Path) -> Result<Self, ProcessLockError> {
        use std::os::unix::fs::MetadataExt;
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
            let mut file = in_directory(path, || options.open(path))?.map_err(failed("open", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    let holder = io::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
                    return Err(ProcessLockError::Held { path: path.to_owned(), holder });
                }
                Err(fs::TryLockError::Error(error)) => return Err(failed("lock", path)(error).into()),
            }
            // The holder before may have removed the file between the two calls above: then this
            // lock guards nothing that another process could see.
            let ours = file.metadata().map_err(failed("inspect", path))?;
            if !fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
                continue;
            }
            file.set_len(0)
                .and_then(|()| writeln!(file, "{}", std::process::id()))
                .map_err(failed("write", path))?;
            return Ok(Self { path: path.to_owned(), _file: file });
        }
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
