//! The tar archives in which files reach a container.
//!
//! The engine takes numeric owners and modes from the archive's headers as they are, so a process
//! without any capability can read its own 0600 keys.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use hoist_phases::ports::FileEntry;

use super::trouble::Refused;

/// Mode of the directories made on the way to a file.
const DIRECTORY_MODE: u32 = 0o700;

/// Bytes of a block of tar (POSIX.1-1988, ustar).
const BLOCK: u64 = 512;

/// Numeric user and group that files belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Owner {
    pub(super) uid: u64,
    pub(super) gid: u64,
}

impl Owner {
    /// From `UID:GID`; root when there is none.
    pub(super) fn of(user: Option<&str>) -> Result<Self, Refused> {
        let Some(user) = user else { return Ok(Self::default()) };
        let parsed = user.split_once(':').and_then(|(uid, gid)| {
            let (uid, gid) = (uid.parse::<u32>().ok()?, gid.parse::<u32>().ok()?);
            Some(Self { uid: u64::from(uid), gid: u64::from(gid) })
        });
        parsed.ok_or_else(|| Refused::User(user.to_owned()))
    }

    pub(super) fn is_root(self) -> bool {
        self == Self::default()
    }
}

/// Whether missing directories are described in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directories {
    /// Every directory below the base is the owner's, 0700: right below a volume of hoist's own.
    Owned,
    /// None: the engine makes those that are missing and leaves the image's own as they are.
    Left,
}

/// A tar archive of `files` with names relative to `base`.
pub(super) fn pack(
    base: &str,
    files: &[&FileEntry],
    owner: Owner,
    directories: Directories,
) -> Result<Vec<u8>, PackError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|age| age.as_secs()).unwrap_or_default();
    let mut made = BTreeSet::new();
    let mut builder = tar::Builder::new(Vec::new());
    for file in files {
        let name = relative(base, &file.path).ok_or_else(|| Refused::Path(file.path.clone()))?;
        if directories == Directories::Owned {
            for (end, _) in name.match_indices('/') {
                let parent = name.get(..end).unwrap_or_default();
                if made.insert(parent.to_owned()) {
                    let mut header = header(owner, now, tar::EntryType::Directory, DIRECTORY_MODE, 0);
                    let parent = format!("{parent}/");
                    builder.append_data(&mut header, parent, std::io::empty()).map_err(PackError::Write)?;
                }
            }
        }
        let size = u64::try_from(file.content.len()).unwrap_or(u64::MAX);
        let mut header = header(owner, now, tar::EntryType::Regular, file.mode, size);
        builder.append_data(&mut header, name, file.content.as_slice()).map_err(PackError::Write)?;
    }
    builder.into_inner().map_err(PackError::Write)
}

/// What goes before and after the `size` bytes of a file to make an archive of it alone.
pub(super) fn around_one(
    base: &str,
    path: &str,
    owner: Owner,
    mode: u32,
    size: u64,
) -> Result<(Vec<u8>, Vec<u8>), PackError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|age| age.as_secs()).unwrap_or_default();
    let name = relative(base, path).ok_or_else(|| Refused::Path(path.to_owned()))?;
    let mut header = header(owner, now, tar::EntryType::Regular, mode, size);
    header.set_path(name).map_err(PackError::Write)?;
    header.set_cksum();
    // Content is padded to whole blocks; two empty ones end an archive.
    let padding = size.next_multiple_of(BLOCK) - size;
    let end = vec![0; usize::try_from(padding + 2 * BLOCK).unwrap_or_default()];
    Ok((header.as_bytes().to_vec(), end))
}

/// An archive of nothing but directories, each with its owner, named from the root.
pub(super) fn pack_directories(paths: &[&str], owner: Owner, mode: u32) -> Result<Vec<u8>, PackError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|age| age.as_secs()).unwrap_or_default();
    let mut builder = tar::Builder::new(Vec::new());
    for path in paths {
        let name = relative("/", path).ok_or_else(|| Refused::Path((*path).to_owned()))?;
        let mut header = header(owner, now, tar::EntryType::Directory, mode, 0);
        builder.append_data(&mut header, format!("{name}/"), std::io::empty()).map_err(PackError::Write)?;
    }
    builder.into_inner().map_err(PackError::Write)
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PackError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("archive can't be written")]
    Write(#[source] std::io::Error),
}

fn header(owner: Owner, now: u64, kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner.uid);
    header.set_gid(owner.gid);
    header.set_mtime(now);
    header.set_size(size);
    header
}

/// `path` as seen from `base`; nothing when it isn't a clean path below it.
fn relative<'a>(base: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(base.trim_end_matches('/'))?.strip_prefix('/')?;
    let clean = !rest.is_empty() && rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
    clean.then_some(rest)
}

/// Whether `path` lies below the directory `base`.
pub(super) fn is_below(base: &str, path: &str) -> bool {
    relative(base, path).is_some()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn file(path: &str, mode: u32) -> FileEntry {
        FileEntry { path: path.to_owned(), mode, content: path.as_bytes().to_vec() }
    }

    type Seen = Vec<(String, u32, u64, u64, usize)>;

    fn unpack(archive: &[u8]) -> std::io::Result<Seen> {
        let mut seen = Vec::new();
        for entry in tar::Archive::new(archive).entries()? {
            let mut entry = entry?;
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            let header = entry.header();
            let name = entry.path()?.to_string_lossy().into_owned();
            seen.push((name, header.mode()?, header.uid()?, header.gid()?, content.len()));
        }
        Ok(seen)
    }

    #[test]
    fn directories_come_once_and_first() -> Result<(), Box<dyn std::error::Error>> {
        let files = [file("/etc/hoist/pki/etcd/ca.crt", 0o644), file("/etc/hoist/pki/sa.key", 0o600)];
        let owner = Owner::of(Some("1000:2000"))?;
        let archive = pack("/etc/hoist", &files.iter().collect::<Vec<_>>(), owner, Directories::Owned)?;
        assert_eq!(
            unpack(&archive)?,
            [
                ("pki/".to_owned(), 0o700, 1000, 2000, 0),
                ("pki/etcd/".to_owned(), 0o700, 1000, 2000, 0),
                ("pki/etcd/ca.crt".to_owned(), 0o644, 1000, 2000, 26),
                ("pki/sa.key".to_owned(), 0o600, 1000, 2000, 21),
            ]
        );
        Ok(())
    }

    #[test]
    fn the_images_own_directories_are_left_alone() -> Result<(), Box<dyn std::error::Error>> {
        let files = [file("/etc/kubernetes/join.yaml", 0o600)];
        let archive = pack("/", &files.iter().collect::<Vec<_>>(), Owner::default(), Directories::Left)?;
        assert_eq!(unpack(&archive)?, [("etc/kubernetes/join.yaml".to_owned(), 0o600, 0, 0, 25)]);
        Ok(())
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["/a/../b", "/a/./b", "/a//b", "/a/", "relative", "/"] {
            let entry = file(path, 0o600);
            let packed = pack("/", &[&entry], Owner::default(), Directories::Left);
            assert!(matches!(packed, Err(PackError::Refused(Refused::Path(_)))), "{path} was accepted");
        }
        assert!(!is_below("/etc/hoist", "/etc/hoist-other/file"));
        assert!(is_below("/etc/hoist/", "/etc/hoist/file"));
    }

    #[test]
    fn one_file_is_an_archive_between_its_header_and_its_end() -> Result<(), Box<dyn std::error::Error>> {
        for size in [0_usize, 1, 511, 512, 513] {
            let length = u64::try_from(size)?;
            let (before, after) = around_one("/v", "/v/program", Owner { uid: 1, gid: 2 }, 0o555, length)?;
            let archive = [before, vec![7; size], after].concat();
            assert_eq!(archive.len() % 512, 0);
            assert_eq!(unpack(&archive)?, [("program".to_owned(), 0o555, 1, 2, size)]);
        }
        Ok(())
    }

    #[test]
    fn users_are_numbers() {
        assert_eq!(Owner::of(Some("65532:65532")).ok(), Some(Owner { uid: 65532, gid: 65532 }));
        assert!(Owner::of(None).is_ok_and(Owner::is_root));
        for user in ["root", "1000", "1000:", "a:b", "-1:0"] {
            assert!(matches!(Owner::of(Some(user)), Err(Refused::User(_))), "{user} was accepted");
        }
    }

    #[test]
    fn long_names_survive() -> Result<(), Box<dyn std::error::Error>> {
        let long = format!("/v/{}/{}", "d".repeat(90), "f".repeat(90));
        let entry = file(&long, 0o600);
        let seen = unpack(&pack("/v", &[&entry], Owner::default(), Directories::Left)?)?;
        assert_eq!(seen.first().map(|s| format!("/v/{}", s.0)), Some(long));
        Ok(())
    }
}
