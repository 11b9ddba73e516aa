//! Named volumes and who they belong to.

use std::collections::HashMap;

use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptions};
use futures_util::future::try_join_all;
use hoist_phases::ports::{ContainerSpec, MountKind, RuntimeError, label};

use super::Engine;
use super::archive::Owner;
use super::trouble::{Refused, refused, status};

const MAKE: &str = "create volume";

/// The labels of a container that its volumes carry too.
pub(super) fn volume_labels(spec: &ContainerSpec) -> HashMap<String, String> {
    let copied = [label::CLUSTER, label::NODE].into_iter();
    copied.filter_map(|key| Some((key.to_owned(), spec.labels.get(key)?.clone()))).collect()
}

impl Engine {
    /// Makes the named volumes of a container that aren't there yet; gives the names of the new ones.
    pub(super) async fn make_volumes(
        &self,
        spec: &ContainerSpec,
        owner: Owner,
    ) -> Result<Vec<String>, RuntimeError> {
        let podman = self.facts().await?.podman;
        let labels = volume_labels(spec);
        let wanted = spec.mounts.iter().filter_map(|mount| match &mount.kind {
            MountKind::Volume(name) => Some((name, HashMap::new())),
            MountKind::TmpfsVolume { name, bytes } => Some((name, tmpfs_options(*bytes, owner, podman))),
            MountKind::Anonymous | MountKind::Tmpfs { .. } => None,
        });
        let made = wanted.map(|(name, options)| self.make_volume(name, options, &labels));
        Ok(try_join_all(made).await?.into_iter().flatten().collect())
    }

    async fn make_volume(
        &self,
        name: &str,
        options: HashMap<String, String>,
        labels: &HashMap<String, String>,
    ) -> Result<Option<String>, RuntimeError> {
        if let Some(volume) = self.inspect_volume(name).await? {
            if volume.labels.get(label::CLUSTER) != labels.get(label::CLUSTER) {
                return Err(refused(MAKE, name, Refused::ForeignVolume(name.to_owned())));
            }
            // A tmpfs that nobody mounts holds nothing, so another size costs nothing. One that is
            // mounted keeps its size until its users are gone.
            if volume.options == options || options.is_empty() || !self.unused_volume_removed(name).await? {
                return Ok(None);
            }
        }
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver: Some("local".to_owned()),
            driver_opts: Some(options),
            labels: Some(labels.clone()),
            cluster_volume_spec: None,
        };
        self.docker.create_volume(request).await.map_err(|e| self.failed(MAKE, name, e))?;
        Ok(Some(name.to_owned()))
    }

    async fn inspect_volume(&self, name: &str) -> Result<Option<Volume>, RuntimeError> {
        match self.docker.inspect_volume(name).await {
            Ok(volume) => Ok(Some(volume)),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.failed("inspect volume", name, error)),
        }
    }

    async fn unused_volume_removed(&self, name: &str) -> Result<bool, RuntimeError> {
        match self.docker.remove_volume(name, None::<RemoveVolumeOptions>).await {
            Ok(()) => Ok(true),
            Err(error) if status(&error) == Some(404) => Ok(true),
            Err(error) if status(&error) == Some(409) => Ok(false),
            Err(error) => Err(self.failed("remove volume", name, error)),
        }
    }

    pub(super) async fn volumes_of(&self, cluster: &str) -> Result<Vec<String>, RuntimeError> {
        let filters = HashMap::from([("label", vec![format!("{}={cluster}", label::CLUSTER)])]);
        let filters: HashMap<String, Vec<String>> =
            filters.into_iter().map(|(key, values)| (key.to_owned(), values)).collect();
        let options = ListVolumesOptionsBuilder::new().filters(&filters).build();
        let listed = self.docker.list_volumes(Some(options)).await;
        let listed = listed.map_err(|e| self.failed("list volumes of cluster", cluster, e))?;
        let mut names: Vec<_> = listed.volumes.unwrap_or_default().into_iter().map(|v| v.name).collect();
        names.sort();
        Ok(names)
    }

    pub(super) async fn volume_removed(&self, name: &str) -> Result<(), RuntimeError> {
        match self.docker.remove_volume(name, None::<RemoveVolumeOptions>).await {
            Ok(()) => Ok(()),
            Err(error) if status(&error) == Some(404) => Ok(()),
            Err(error) => Err(self.failed("remove volume", name, error)),
        }
    }
}

/// Options of the engine's `local` driver, which hands them to mount(2).
///
/// Podman takes `size` for a quota of the file system below, so it gets the size in pages; where
/// they are larger than 4 KiB the tmpfs may hold more.
fn tmpfs_options(bytes: u64, owner: Owner, podman: bool) -> HashMap<String, String> {
    let size = if podman { format!("nr_blocks={}", bytes.div_ceil(4096)) } else { format!("size={bytes}") };
    let own = format!("{size},mode=0700,uid={},gid={}", owner.uid, owner.gid);
    [("type", "tmpfs"), ("device", "tmpfs"), ("o", own.as_str())]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}
