//! Files into and out of containers, through the engine's archive interface.

use std::io::{self, Read as _};

use bollard::body_try_stream;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt};
use hoist_phases::ports::{ContainerSpec, FileEntry, MountKind, RuntimeError, label};

use super::Engine;
use super::archive::{Directories, Owner, PackError, is_below, pack, pack_directories};
use super::trouble::{Refused, refused, status};
use super::volumes::volume_labels;

const UPLOAD: &str = "upload files to";
const DOWNLOAD: &str = "download from";

/// Most bytes that an archive of one file has beside the file: headers, its name, and the last block.
const AROUND: u64 = 1 << 20;

/// Mode of a volume's root that is handed to a user.
const MOUNT_MODE: u32 = 0o700;

/// Label value of a container that lives only while another one is made.
pub(super) const HELPER_ROLE: &str = "helper";

/// Where files can land in a container.
#[derive(Debug, Clone)]
pub(super) struct Place {
    name: String,
    read_only_root: bool,
    /// Mount points, and whether each is a tmpfs of the container alone.
    mounts: Vec<(String, bool)>,
}

impl Place {
    pub(super) fn of(spec: &ContainerSpec) -> Self {
        let tmpfs = |kind: &MountKind| matches!(kind, MountKind::Tmpfs { .. });
        Self {
            name: spec.name.clone(),
            read_only_root: spec.read_only_root,
            mounts: spec.mounts.iter().map(|m| (m.target.clone(), tmpfs(&m.kind))).collect(),
        }
    }

    /// The innermost mount above a path; `/` when it is the root file system.
    pub(super) fn base<'a>(&'a self, path: &str) -> Result<&'a str, Refused> {
        let above = self.mounts.iter().filter(|(target, _)| is_below(target, path));
        match above.max_by_key(|(target, _)| target.len()) {
            Some((mount, true)) => Err(Refused::Tmpfs { path: path.to_owned(), mount: mount.clone() }),
            Some((mount, false)) => Ok(mount),
            None if self.read_only_root => Err(Refused::NoMount(path.to_owned())),
            None => Ok("/"),
        }
    }
}

/// An archive and the directory it is unpacked in.
pub(super) struct Upload {
    pub(super) directory: String,
    pub(super) archive: BoxStream<'static, io::Result<Bytes>>,
}

impl Engine {
    /// The files as archives, one for each mount that they lie in.
    pub(super) fn uploads(
        &self,
        place: &Place,
        files: &[FileEntry],
        owner: Owner,
    ) -> Result<Vec<Upload>, RuntimeError> {
        let mut bases: Vec<(&str, Vec<&FileEntry>)> = Vec::new();
        for file in files {
            let base = place.base(&file.path).map_err(|why| refused(UPLOAD, &place.name, why))?;
            match bases.iter_mut().find(|(known, _)| *known == base) {
                Some((_, files)) => files.push(file),
                None => bases.push((base, vec![file])),
            }
        }
        let packed = bases.into_iter().map(|(base, files)| {
            let directories = if base == "/" { Directories::Left } else { Directories::Owned };
            let archive = pack(base, &files, owner, directories).map_err(|e| unpackable(&place.name, e))?;
            Ok(Upload { directory: base.to_owned(), archive: whole(archive) })
        });
        packed.collect()
    }

    pub(super) async fn send(&self, id: &str, name: &str, uploads: Vec<Upload>) -> Result<(), RuntimeError> {
        for Upload { directory, archive } in uploads {
            let options = UploadToContainerOptionsBuilder::new().path(&directory).build();
            let sent = self.docker.upload_to_container(id, Some(options), body_try_stream(archive)).await;
            sent.map_err(|e| self.failed(UPLOAD, name, e))?;
        }
        Ok(())
    }

    /// Makes `owner` the owner of the mount points `targets` of container `id`.
    pub(super) async fn own_through_helper(
        &self,
        spec: &ContainerSpec,
        id: &str,
        owner: Owner,
        targets: &[&str],
    ) -> Result<(), RuntimeError> {
        let archive = pack_directories(targets, owner, MOUNT_MODE).map_err(|e| unpackable(&spec.name, e))?;
        // So that `down` finds it should this process die before it is removed.
        let mut labels = volume_labels(spec);
        labels.insert(label::ROLE.to_owned(), HELPER_ROLE.to_owned());
        let body = ContainerCreateBody {
            image: Some(spec.image.clone()),
            cmd: Some(vec!["never-started".to_owned()]),
            labels: Some(labels),
            host_config: Some(HostConfig {
                network_mode: Some("none".to_owned()),
                volumes_from: Some(vec![id.to_owned()]),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let helper = self.docker.create_container(None, body).await;
        let helper = helper.map_err(|e| self.failed("hand over the volumes of", &spec.name, e))?.id;
        let sent = self
            .send(&helper, &spec.name, vec![Upload { directory: "/".to_owned(), archive: whole(archive) }])
            .await;
        let removed = self.remove_container(&helper).await;
        sent.and(removed)
    }

    /// Puts files, owned by `user` (`UID:GID`, root when absent), into a container that exists,
    /// running or not.
    ///
    /// # Errors
    /// When there is no such container, or a file has no place that the engine can write to: a
    /// read-only root file system, or a tmpfs, which the engine doesn't see.
    pub async fn upload(
        &self,
        name: &str,
        user: Option<&str>,
        files: &[FileEntry],
    ) -> Result<(), RuntimeError> {
        let owner = Owner::of(user).map_err(|why| refused(UPLOAD, name, why))?;
        let found =
            self.docker.inspect_container(name, None).await.map_err(|e| self.failed(UPLOAD, name, e))?;
        let host = found.host_config.unwrap_or_default();
        let volumes = found.mounts.unwrap_or_default().into_iter().filter_map(|mount| mount.destination);
        let tmpfs = host.tmpfs.unwrap_or_default().into_keys();
        let place = Place {
            name: name.to_owned(),
            read_only_root: host.readonly_rootfs.unwrap_or_default(),
            mounts: volumes.map(|target| (target, false)).chain(tmpfs.map(|target| (target, true))).collect(),
        };
        let uploads = self.uploads(&place, files, owner)?;
        self.send(name, name, uploads).await
    }

    /// A file or directory of a container as a tar archive, of at most so many bytes, whose first entry is that
    /// file or directory.
    ///
    /// # Errors
    /// When the container or the path doesn't exist, or there is more of it.
    pub async fn download(&self, name: &str, path: &str, most: u64) -> Result<Vec<u8>, RuntimeError> {
        let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
        let mut chunks = std::pin::pin!(self.docker.download_from_container(name, Some(options)));
        let object = || format!("{name}:{path}");
        let mut all = Vec::new();
        while let Some(chunk) = chunks.try_next().await.map_err(|e| self.failed(DOWNLOAD, &object(), e))? {
            all.extend_from_slice(&chunk);
            if all.len() as u64 > most {
                return Err(refused(DOWNLOAD, &object(), Refused::TooLarge(most)));
            }
        }
        Ok(all)
    }

    /// A missing file of a container that is there is no error; both are 404 to the engine.
    async fn absent(&self, name: &str, error: RuntimeError) -> Result<Option<Vec<u8>>, RuntimeError> {
        let missing = matches!(&error, RuntimeError::Failed { source, .. }
            if source.downcast_ref().is_some_and(|cause| status(cause) == Some(404)));
        if missing && self.inspect_container(name).await?.is_some() { Ok(None) } else { Err(error) }
    }

    /// The content of one regular file of a container, of at most so many bytes; `None` when there is no such
    /// file.
    ///
    /// # Errors
    /// When the container doesn't exist, or the path is no regular file, or a larger one.
    pub async fn read_file(
        &self,
        name: &str,
        path: &str,
        most: u64,
    ) -> Result<Option<Vec<u8>>, RuntimeError> {
        let archive = match self.download(name, path, most.saturating_add(AROUND)).await {
            Ok(archive) => archive,
            Err(error) => return self.absent(name, error).await,
        };
        let object = format!("{name}:{path}");
        let unreadable = |source: std::io::Error| RuntimeError::Failed {
            operation: "read",
            object: object.clone(),
            source: source.into(),
        };
        let mut archive = tar::Archive::new(archive.as_slice());
        let mut entries = archive.entries().map_err(unreadable)?;
        let Some(entry) = entries.next() else { return Err(refused("read", &object, Refused::NoAnswer)) };
        let mut entry = entry.map_err(unreadable)?;
        if !entry.header().entry_type().is_file() {
            return Err(refused("read", &object, Refused::NoFile));
        }
        // By the header alone: what is sparse may be larger than the archive, and what was cut short is smaller.
        let size = entry.size();
        if size > most {
            return Err(refused("read", &object, Refused::TooLarge(most)));
        }
        let mut content = Vec::new();
        entry.by_ref().take(size).read_to_end(&mut content).map_err(unreadable)?;
        if content.len() as u64 != size {
            return Err(refused("read", &object, Refused::NoAnswer));
        }
        Ok(Some(content))
    }
}

/// An archive that is in memory already.
fn whole(archive: Vec<u8>) -> BoxStream<'static, io::Result<Bytes>> {
    stream::iter([Ok(archive.into())]).boxed()
}

pub(super) fn unpackable(name: &str, error: PackError) -> RuntimeError {
    RuntimeError::Failed { operation: UPLOAD, object: name.to_owned(), source: error.into() }
}
