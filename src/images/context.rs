//! Build contexts: the tar archives that the engine's builder reads.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use std::collections::BTreeSet;

/// Content of one file of a context.
#[derive(Debug)]
pub(crate) enum Content {
    Text(&'static str),
    File(PathBuf),
}

/// One file of a context.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: &'static str,
    pub(crate) content: Content,
    pub(crate) executable: bool,
}

/// A fixed, plausible time: equal inputs must give equal layers, and zero means "absent" to some programs.
const MTIME: u64 = 946_684_800;

/// Writes the entries as a tar archive that depends on nothing but them: owned by root, fixed times, and a
/// directory entry for each parent, since builders differ in the mode they give directories by themselves.
pub(crate) fn write<W: Write>(out: W, entries: &[Entry]) -> io::Result<W> {
    let mut builder = tar::Builder::new(out);
    let mut directories = BTreeSet::new();
    for entry in entries {
        let parents: Vec<&Path> = Path::new(entry.path).ancestors().skip(1).collect();
        for parent in parents.into_iter().rev().filter(|parent| !parent.as_os_str().is_empty()) {
            if directories.insert(parent.to_path_buf()) {
                let mut header = header(0o755, 0);
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, parent, io::empty())?;
            }
        }
        let mode = if entry.executable { 0o755 } else { 0o644 };
        match &entry.content {
            Content::Text(text) => {
                builder.append_data(&mut header(mode, text.len() as u64), entry.path, text.as_bytes())?;
            }
            Content::File(path) => {
                let file = File::open(path)?;
                let length = file.metadata()?.len();
                builder.append_data(&mut header(mode, length), entry.path, file)?;
            }
        }
    }
    builder.into_inner()
}

fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(MTIME);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_reproducible_and_name_every_directory_once() -> io::Result<()> {
        let entries = || {
            [
                Entry { path: "Dockerfile", content: Content::Text("FROM scratch\n"), executable: false },
                Entry {
                    path: "rootfs/usr/sbin/init",
                    content: Content::Text("#!/bin/sh\n"),
                    executable: true,
                },
                Entry { path: "rootfs/usr/lib/a", content: Content::Text("a"), executable: false },
            ]
        };
        let first = write(Vec::new(), &entries())?;
        assert_eq!(first, write(Vec::new(), &entries())?);

        let mut archive = tar::Archive::new(first.as_slice());
        let mut listing = Vec::new();
        for entry in archive.entries()? {
            let entry = entry?;
            listing.push(format!("{:o} {}", entry.header().mode()?, entry.path()?.display()));
        }
        let expected = [
            "644 Dockerfile",
            "755 rootfs",
            "755 rootfs/usr",
            "755 rootfs/usr/sbin",
            "755 rootfs/usr/sbin/init",
            "755 rootfs/usr/lib",
            "644 rootfs/usr/lib/a",
        ];
        let listing: Vec<_> = listing.iter().map(|line| line.trim_end_matches('/')).collect();
        assert_eq!(listing, expected);
        Ok(())
    }
}
