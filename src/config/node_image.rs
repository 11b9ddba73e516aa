//! What nodes are made from when not from hoist's own image: an image that the engine has, or, for virtual
//! machines, a disk, of which an image of the engine's is made.

use std::path::{Path, PathBuf};

use super::document::Document;
use super::nodes::NodeFlags;
use crate::fetch;
use crate::images::{Disk, DiskSource, ImageError};

#[derive(Debug, thiserror::Error)]
pub enum NodeImageError {
    #[error(
        "{field} {url:?}: a URL must start with https:// and end with #sha256= and 64 hexadecimal digits"
    )]
    Url { field: String, url: String },
    #[error("{field} {text:?}: there is no such file; without a path it would name an image of the engine's")]
    NoFile { field: String, text: String },
    #[error(
        "{field} {text:?}: a disk is for nodes of kind vm; a container node needs an image that the engine has"
    )]
    NotForContainers { field: String, text: String },
    #[error("{field} {text:?}: must name an image, a disk or a URL")]
    Empty { field: String, text: String },
    #[error("{field}")]
    Read {
        field: String,
        #[source]
        source: Box<ImageError>,
    },
}

/// What somebody wrote, taken apart.
#[derive(Debug, PartialEq, Eq)]
enum Written<'a> {
    Engine(&'a str),
    File(PathBuf),
    Url { url: &'a str, sha256: String },
}

/// What starts like a path is one; anything else is when a file is there.
fn parse<'a>(field: &str, text: &'a str, beside: &Path) -> Result<Written<'a>, NodeImageError> {
    let owned = || text.to_owned();
    if text.trim().is_empty() {
        return Err(NodeImageError::Empty { field: field.to_owned(), text: owned() });
    }
    if text.contains("://") {
        let pinned = fetch::pinned(text).filter(|(url, _)| url.starts_with("https://"));
        let (url, sha256) =
            pinned.ok_or_else(|| NodeImageError::Url { field: field.to_owned(), url: owned() })?;
        return Ok(Written::Url { url, sha256 });
    }
    let path = beside.join(text);
    match path.is_file() {
        true => Ok(Written::File(path)),
        false if text.starts_with(['/', '.']) => {
            Err(NodeImageError::NoFile { field: field.to_owned(), text: owned() })
        }
        false => Ok(Written::Engine(text)),
    }
}

/// The engine's image for what is written, and the disk it has to be made of first, if any. Relative paths
/// start at `beside`.
///
/// # Errors
/// When it can be neither, isn't there, or is a disk and not for a virtual machine.
pub async fn resolve(
    field: &str,
    text: &str,
    beside: &Path,
    vm: bool,
) -> Result<(Option<String>, Option<Disk>), NodeImageError> {
    let written = parse(field, text, beside)?;
    if !vm && !matches!(written, Written::Engine(_)) {
        return Err(NodeImageError::NotForContainers { field: field.to_owned(), text: text.to_owned() });
    }
    let disk = match written {
        Written::Engine(reference) => return Ok((Some(reference.to_owned()), None)),
        Written::Url { url, sha256 } => Disk { source: DiskSource::Url(url.to_owned()), sha256 },
        Written::File(path) => {
            let disk = tokio::task::spawn_blocking(move || Disk::of_file(&path)).await;
            let disk = disk.unwrap_or_else(|error| Err(ImageError::file("read", text)(error.into())));
            disk.map_err(|source| NodeImageError::Read { field: field.to_owned(), source: Box::new(source) })?
        }
    };
    Ok((Some(disk.reference()), Some(disk)))
}

/// Puts references of the engine's in place of what flags and file say, and gives the disks.
pub(super) async fn of_all(
    flags: &mut NodeFlags,
    document: &mut Document,
) -> Result<Vec<Disk>, NodeImageError> {
    let beside = document.beside.clone();
    let is_vm = |kind: Option<&String>| kind.is_some_and(|kind| kind == "vm");
    let groups = document.file.nodes.as_mut();
    // The flag is for all nodes, so for those of the file too, whose kinds may be several.
    let all_vms = groups.as_ref().is_some_and(|groups| groups.iter().all(|group| is_vm(group.kind.as_ref())));
    let flag_vm = is_vm(flags.kind.as_ref()) || (flags.kind.is_none() && flags.count.is_none() && all_vms);

    let mut disks = Vec::new();
    if let Some(text) = &flags.image {
        let (image, disk) = resolve("--node-image", text, Path::new(""), flag_vm).await?;
        flags.image = image;
        disks.extend(disk);
    }
    for (index, group) in groups.into_iter().flatten().enumerate() {
        let Some(text) = &group.image else { continue };
        let vm = is_vm(flags.kind.as_ref().or(group.kind.as_ref()));
        let (image, disk) = resolve(&format!("nodes[{index}].image"), text, &beside, vm).await?;
        group.image = image;
        disks.extend(disk);
    }
    disks.dedup();
    Ok(disks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture in a directory of the test's own")]
    fn files_urls_and_references_are_told_apart() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("disk.qcow2");
        std::fs::write(&file, "")?;
        let parse = |text: &str| match parse("image", text, directory.path()) {
            Ok(written) => format!("{written:?}"),
            Err(error) => error.to_string(),
        };
        let sha256 = "ab".repeat(32);
        assert_eq!(parse("disk.qcow2"), format!("{:?}", Written::File(file.clone())));
        assert_eq!(
            parse("./disk.qcow2"),
            format!("{:?}", Written::File(directory.path().join("./disk.qcow2")))
        );
        assert_eq!(parse("a.example/disk:v1"), "Engine(\"a.example/disk:v1\")");
        assert!(parse(&format!("https://a/b#sha256={sha256}")).starts_with("Url"));
        for bad in ["https://a/b", &format!("http://a/b#sha256={sha256}"), "./none", "/none", ""] {
            assert!(parse(bad).starts_with("image "), "{bad:?}: {}", parse(bad));
        }
        Ok(())
    }
}
