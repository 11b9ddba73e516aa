//! Images of hoist's own addons: the provider's machines have none of them and pull them from the
//! cluster's registry, as they pull those of the tests.

use std::time::Duration;

use bollard::query_parameters::{PushImageOptionsBuilder, RemoveImageOptions, TagImageOptionsBuilder};
use futures_util::TryStreamExt as _;
use hoist_phases::phases::images;
use hoist_phases::phases::wait::{Poll, until};
use hoist_phases::spec::{ClusterSpec, Reach};

use super::super::ports::{self, PortName};
use super::super::{Cluster, spec};
use crate::error::BoxError;

/// Time for the registry to start and to take an image.
const PUSH: Duration = Duration::from_secs(120);

/// Puts the images into the cluster's registry, which may still be about to start.
///
/// # Errors
/// When its port isn't published, or it takes no image in time.
pub(super) async fn addons(cluster: &Cluster, spec: &ClusterSpec) -> Result<(), BoxError> {
    if spec.reach != Reach::Konnectivity {
        return Ok(());
    }
    let name = "konnectivity-agent";
    let port = ports::on_host(cluster, PortName::Registry).await?;
    let pulled = images::on_nodes(spec, name);
    // The engine pushes to where its host has the port, over plain HTTP on loopback alone.
    let pushed = pulled.replacen(spec::REGISTRY, &format!("localhost:{port}"), 1);
    let Some((repository, tag)) = pushed.rsplit_once(':') else { return Ok(()) };
    let docker = cluster.engine.docker();
    let options = TagImageOptionsBuilder::new().repo(repository).tag(tag).build();
    docker.tag_image(&images::reference(spec, name), Some(options)).await?;
    let done = until(PUSH, || async {
        let options = PushImageOptionsBuilder::new().tag(tag).build();
        let push = docker.push_image(repository, Some(options), None);
        Ok(match push.try_for_each(|_| async { Ok(()) }).await {
            Ok(()) => Poll::Ready(()),
            Err(error) => Poll::Pending(format!("push of {pushed}: {error}")),
        })
    })
    .await;
    // Why the push failed is of more use than why its name stays.
    let removed = docker.remove_image(&pushed, None::<RemoveImageOptions>, None).await;
    done?;
    removed?;
    Ok(())
}
