//! Images of virtual machines on disks of the user's. A disk becomes a layer on hoist's own image, once: the image
//! is called after the disk's contents and kept.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::query_parameters::ListImagesOptionsBuilder;
use sha2::{Digest, Sha256};

use super::context::{self, Content, Entry};
use super::engine::{self, BuildRequest};
use super::error::ImageError;
use super::progress::{Listener, Reporter};
use super::recipe::file;
use super::table::{REPOSITORY, Role};
use super::work::WorkDir;
use super::{ImageStatus, LABEL_COMPONENT, LABEL_RECIPE, Origin};
use crate::digest;

/// Last part of the repository.
const NAME: &str = "vm-image";

/// Label with the digest of the disk that an image was made of.
const LABEL_DISK: &str = "dev.hoist.disk";

/// Digits of the digest in an image's name: no two disks of one machine share them.
const DIGITS: usize = 12;

/// A disk of the user's, known by its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub source: DiskSource,
    /// In lower-case hexadecimal digits.
    pub sha256: String,
}

/// Where a disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    File(PathBuf),
    /// Over https; the digest was given with it.
    Url(String),
}

impl Disk {
    /// A file, by its contents.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn of_file(path: &Path) -> Result<Self, ImageError> {
        let mut file = File::open(path).map_err(ImageError::file("open disk image", path))?;
        let sha256 = digest::of(&mut file).map_err(ImageError::file("read disk image", path))?;
        Ok(Self { source: DiskSource::File(path.to_owned()), sha256 })
    }

    /// The image that machines on this disk are made from.
    pub fn reference(&self) -> String {
        let digits = self.sha256.get(..DIGITS).unwrap_or(&self.sha256);
        format!("{REPOSITORY}/{NAME}:{digits}")
    }

    /// For people, in lists.
    fn name(&self) -> &str {
        let path = match &self.source {
            DiskSource::File(path) => path.to_str().unwrap_or_default(),
            DiskSource::Url(url) => url,
        };
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// Hash of what is laid below and around the disk, so that a new hoist makes the image anew.
fn recipe() -> String {
    let mut hasher = Sha256::new();
    for file in Role::Vm.spec().files.iter().filter(|file| file.path.starts_with("bin/")).chain([&DOCKERFILE])
    {
        hasher.update(file.content);
    }
    digest::hex(&hasher.finalize())
}

const DOCKERFILE: super::RecipeFile = file!("vm-image" / "Dockerfile");

/// Makes the images of disks that the engine doesn't have, on the image of a Kubernetes version.
///
/// # Errors
/// When a disk can't be had, or no machine could start from it.
pub async fn ensure(
    docker: &Docker,
    version: &str,
    disks: &[Disk],
    progress: Listener<'_>,
) -> Result<(), ImageError> {
    let reporter = Reporter::new(progress);
    for disk in disks {
        let present = engine::inspect(docker, &disk.reference()).await?;
        let labels = present.and_then(|image| image.config?.labels).unwrap_or_default();
        if labels.get(LABEL_RECIPE) != Some(&recipe()) {
            build(docker, version, disk, reporter).await?;
        }
    }
    Ok(())
}

async fn build(
    docker: &Docker,
    version: &str,
    disk: &Disk,
    reporter: Reporter<'_>,
) -> Result<(), ImageError> {
    let below = Role::Vm.reference(version);
    if engine::inspect(docker, &below).await?.is_none() {
        return Err(ImageError::Missing { count: 1, list: below });
    }
    let work = WorkDir::open(None).await?;
    let file = match &disk.source {
        DiskSource::File(path) => path.clone(),
        DiskSource::Url(url) => {
            let path = work.scratch("disk");
            reporter.step(NAME, format!("fetch {url}"));
            download(url, &path, disk).await?;
            path
        }
    };
    let format = Format::of(&file)?;
    let context = work.scratch("vm-image-context.tar");
    reporter.step(NAME, format!("pack {}", disk.name()));
    pack(context.clone(), file, format).await?;
    let labels = [
        (LABEL_DISK, disk.sha256.clone()),
        (LABEL_RECIPE, recipe()),
        (LABEL_COMPONENT, disk.name().to_owned()),
    ];
    let request = BuildRequest {
        reference: &disk.reference(),
        subject: NAME,
        arguments: HashMap::from([(Role::Vm.argument(), below)]),
        labels: labels.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    engine::build(docker, &context, request, reporter).await?;
    reporter.done(NAME, format!("built {} of {}", disk.reference(), disk.name()));
    Ok(())
}

async fn download(url: &str, to: &Path, disk: &Disk) -> Result<(), ImageError> {
    let failed = |source| ImageError::Download { url: url.to_owned(), source };
    crate::fetch::to_file(url, to).await.map_err(|error| failed(error.into()))?;
    let path = to.to_owned();
    let found = tokio::task::spawn_blocking(move || Disk::of_file(&path)).await;
    let found = found.map_err(|error| failed(error.into()))??.sha256;
    if found == disk.sha256 {
        return Ok(());
    }
    Err(ImageError::Digest { url: url.to_owned(), found, wanted: disk.sha256.clone() })
}

/// Gigabytes, so not on a thread that serves the engine's connections.
#[expect(clippy::disallowed_methods, reason = "streamed, too large for memory, and removed within the run")]
async fn pack(context: PathBuf, disk: PathBuf, format: Format) -> Result<(), ImageError> {
    let at = context.clone();
    let packed = tokio::task::spawn_blocking(move || {
        let entries = [
            Entry {
                path: DOCKERFILE.path,
                content: Content::Text(DOCKERFILE.content),
                executable: DOCKERFILE.executable,
            },
            Entry { path: format.path(), content: Content::File(disk), executable: false },
        ];
        let file = File::create(&at)?;
        context::write(io::BufWriter::new(file), &entries)?
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    });
    let result = packed.await.map_err(io::Error::other).and_then(|result| result);
    result.map(|_| ()).map_err(ImageError::file("write build context", context))
}

/// How a disk is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Qcow2,
    Raw,
}

impl Format {
    /// Place in the build context.
    fn path(self) -> &'static str {
        match self {
            Self::Qcow2 => "image.qcow2",
            Self::Raw => "image.raw",
        }
    }

    /// Reads a disk's head.
    ///
    /// # Errors
    /// When no machine could start from it, or it would read other files.
    fn of(path: &Path) -> Result<Self, ImageError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(0))?;
            let mut head = Vec::new();
            file.take(HEAD).read_to_end(&mut head)?;
            Ok(head)
        };
        let head = read().map_err(ImageError::file("read disk image", path))?;
        Self::of_head(&head).map_err(|problem| ImageError::Disk { path: path.to_owned(), problem })
    }

    fn of_head(head: &[u8]) -> Result<Self, &'static str> {
        if head.starts_with(b"QFI\xfb") {
            // Of its header (qemu's docs/interop/qcow2): bytes 8 to 15 say where the backing file's name is, bit 2
            // of bytes 72 to 79 that its data is in another file.
            let alone = head.get(8..16).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
            let whole =
                head.get(4..8) == Some(&[0, 0, 0, 2]) || head.get(79).is_some_and(|byte| byte & 4 == 0);
            return match alone && whole {
                true => Ok(Self::Qcow2),
                false => Err(
                    "is a qcow2 image that needs another file; `qemu-img convert -O qcow2` makes it whole",
                ),
            };
        }
        match head.get(510..512) {
            Some([0x55, 0xaa]) => Ok(Self::Raw),
            _ => Err(
                "is neither qcow2 nor a raw disk with a boot sector; unpack it, or `qemu-img convert -O qcow2`",
            ),
        }
    }
}

/// Bytes of a disk that tell what it is.
const HEAD: u64 = 512;

/// The images that were made of disks.
///
/// # Errors
/// When the engine doesn't tell.
pub async fn list(docker: &Docker) -> Result<Vec<ImageStatus>, ImageError> {
    let filters = HashMap::from([("label", vec![LABEL_DISK.to_owned()])]);
    let options = ListImagesOptionsBuilder::new().filters(&filters).build();
    let found = docker.list_images(Some(options)).await;
    let found =
        found.map_err(|source| ImageError::Engine { what: "images made of disks".to_owned(), source })?;
    let mut statuses = Vec::new();
    for image in found {
        for reference in
            image.repo_tags.iter().filter(|tag| tag.starts_with(&format!("{REPOSITORY}/{NAME}:")))
        {
            statuses.push(ImageStatus {
                role: Role::Vm,
                name: NAME,
                reference: reference.clone(),
                present: true,
                origin: Some(Origin::Hoist),
                size: u64::try_from(image.size).ok(),
                recipe_current: image.labels.get(LABEL_RECIPE) == Some(&recipe()),
                component_version: image.labels.get(LABEL_COMPONENT).cloned(),
            });
        }
    }
    statuses.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qcow2(version: u8, backing: u8, features: u8) -> Vec<u8> {
        let mut head = vec![0; 512];
        head[..4].copy_from_slice(b"QFI\xfb");
        (head[7], head[15], head[79]) = (version, backing, features);
        head
    }

    #[test]
    fn disks_are_told_by_their_heads() {
        let mut raw = vec![0; 512];
        assert!(Format::of_head(&raw).is_err(), "nothing to start from");
        raw[510..].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(Format::of_head(&raw), Ok(Format::Raw));
        assert_eq!(Format::of_head(&qcow2(3, 0, 0)), Ok(Format::Qcow2));
        assert_eq!(Format::of_head(&qcow2(2, 0, 4)), Ok(Format::Qcow2), "version 2 has no features");
        assert!(Format::of_head(b"\xfd7zXZ").is_err());
    }

    #[test]
    fn a_disk_that_would_read_other_files_is_refused() {
        assert!(Format::of_head(&qcow2(3, 1, 0)).is_err());
        assert!(Format::of_head(&qcow2(3, 0, 4)).is_err());
    }

    #[test]
    fn an_image_is_called_after_its_disk() {
        let disk =
            Disk { source: DiskSource::Url("https://a.example/b.qcow2".into()), sha256: "ab".repeat(32) };
        assert_eq!(disk.reference(), "localhost/hoist/vm-image:abababababab");
        assert_eq!(disk.name(), "b.qcow2");
    }
}
