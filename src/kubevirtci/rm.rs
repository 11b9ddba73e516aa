//! `rm`: removes everything of a prefix, whoever made it, dnsmasq last: the others live in its
//! network namespace.

use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder};
use futures_util::future::join_all;
use hoist_phases::ports::{Runtime as _, RuntimeError};

use super::Cluster;
use crate::error::BoxError;
use crate::report;

/// Containers of the prefix are there, so a new cluster can't be made.
#[derive(Debug, thiserror::Error)]
#[error("containers of a cluster {prefix} are there already: {}", names.join(", "))]
pub struct Taken {
    pub prefix: String,
    pub names: Vec<String>,
}

pub(super) async fn run(cluster: &Cluster) -> Result<(), BoxError> {
    let removed = remove(cluster).await?;
    report::tell(format_args!("removed {removed} things of {}", cluster.prefix));
    Ok(())
}

/// Removes all there is; gives how much that was.
///
/// # Errors
/// The first thing that can't be removed, after all others were tried.
pub(super) async fn remove(cluster: &Cluster) -> Result<usize, BoxError> {
    drop(cluster.engine.creations().write().await);
    let names = containers(cluster).await?;
    let dnsmasq = cluster.container("dnsmasq");
    let (last, first): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| *name == dnsmasq);
    let mut results = Vec::new();
    for group in [first, last] {
        results.extend(join_all(group.iter().map(|name| cluster.engine.remove(name))).await);
    }
    let volumes = volumes(cluster).await?;
    results.extend(join_all(volumes.iter().map(|name| cluster.engine.remove_volume(name))).await);
    let count = results.len();
    results.into_iter().collect::<Result<Vec<()>, RuntimeError>>()?;
    Ok(count)
}

/// Names of the containers of the prefix, running or not, sorted.
pub(super) async fn containers(cluster: &Cluster) -> Result<Vec<String>, BoxError> {
    let options = ListContainersOptionsBuilder::new().all(true).build();
    let listed = cluster.engine.docker().list_containers(Some(options)).await?;
    let names = listed.into_iter().flat_map(|container| container.names.unwrap_or_default());
    Ok(of_prefix(&cluster.prefix, names))
}

async fn volumes(cluster: &Cluster) -> Result<Vec<String>, BoxError> {
    let options = ListVolumesOptionsBuilder::new().build();
    let listed = cluster.engine.docker().list_volumes(Some(options)).await?;
    let names = listed.volumes.unwrap_or_default().into_iter().map(|volume| volume.name);
    Ok(of_prefix(&cluster.prefix, names))
}

/// `k8s-1.3` must not take what is of `k8s-1.36`: the prefix ends at a hyphen.
fn of_prefix(prefix: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let start = format!("{prefix}-");
    let mut names: Vec<_> = names
        .map(|name| name.trim_start_matches('/').to_owned())
        .filter(|name| name.starts_with(&start))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_prefix_are_taken() {
        let names = ["/k8s-1.36-node01", "/k8s-1.36-dnsmasq", "/k8s-1.3-node01", "other", "/k8s-1.36"];
        let found = of_prefix("k8s-1.36", names.map(str::to_owned).into_iter());
        assert_eq!(found, ["k8s-1.36-dnsmasq", "k8s-1.36-node01"]);
    }
}
