//! The images of the containers beside the control plane's.

use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt as _;
use hoist_phases::ports::Runtime as _;
use hoist_phases::spec::KubernetesVersion;

use super::super::Cluster;
use super::super::args::RunArgs;
use crate::error::BoxError;
use crate::images::Role;
use crate::report;

/// What gocli starts.
const REGISTRY: &str = "quay.io/libpod/registry:2.8.2";
pub(super) const NFS: &str = "quay.io/kubevirtci/gists-nfs-server:2.6.4";

#[derive(Debug, thiserror::Error)]
enum ImageError {
    #[error("image {0} is neither in the engine's store nor to be had")]
    Unavailable(String, #[source] bollard::errors::Error),
}

/// Name of the cluster image as gocli puts it together: the suffix is the tag with its colon.
pub(super) fn cluster_image(args: &RunArgs) -> String {
    let slim = if args.switches.slim { "-slim" } else { "" };
    let parts = [args.container_registry.as_str(), args.container_org.as_str(), args.cluster.as_str()];
    let path = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    format!("{path}{}{slim}", args.container_suffix)
}

/// Sees to it that an image is in the engine's store.
pub(super) async fn have(cluster: &Cluster, image: &str) -> Result<(), BoxError> {
    if cluster.engine.missing_images(&[image.to_owned()]).await?.is_empty() {
        return Ok(());
    }
    report::tell(format_args!("pulling {image}"));
    let name = image.rsplit('/').next().unwrap_or(image);
    // Without a tag the engine would pull them all.
    let reference = if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") };
    let options = CreateImageOptionsBuilder::new().from_image(&reference).build();
    let pulled = cluster.engine.docker().create_image(Some(options), None, None);
    let pulled = pulled.try_for_each(|_| async { Ok(()) }).await;
    Ok(pulled.map_err(|error| ImageError::Unavailable(image.to_owned(), error))?)
}

/// The registry's image: that of gocli, or hoist's own where it is there and gocli's isn't.
pub(super) async fn registry(cluster: &Cluster) -> Result<String, BoxError> {
    let own = own_registry();
    let both = [REGISTRY.to_owned(), own.clone()];
    let missing = cluster.engine.missing_images(&both).await?;
    if missing == [REGISTRY.to_owned()] {
        return Ok(own);
    }
    have(cluster, REGISTRY).await?;
    Ok(REGISTRY.to_owned())
}

fn own_registry() -> String {
    Role::Registry.reference(&KubernetesVersion::DEFAULT.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::super::refuse::testing::args;
    use super::*;

    #[test]
    fn the_cluster_image_is_named_as_gocli_names_it() {
        let name = |flags: &[&str]| cluster_image(&args(flags));
        assert_eq!(name(&["--container-suffix=:2608"]), "quay.io/kubevirtci/k8s-1.36:2608");
        assert_eq!(name(&["--container-suffix=:2608", "--slim"]), "quay.io/kubevirtci/k8s-1.36:2608-slim");
        assert_eq!(name(&["--container-registry=", "--container-org=a/b"]), "a/b/k8s-1.36");
    }
}
