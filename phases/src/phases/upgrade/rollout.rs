//! When the addons of a new version have taken the place of those before, on every node.

use std::time::Duration;

use futures_util::future::try_join_all;

use crate::engine::PhaseError;
use crate::object::ObjectRef;
use crate::phases::addons;
use crate::ports::KubeApi;
use crate::spec::{ClusterSpec, Cni, Reach};

/// Waits until no pod of hoist's addons is of an earlier version. Where no pod runs by itself, there is
/// nothing to wait for.
///
/// # Errors
/// When one isn't there in time, with what it lacks.
pub async fn rolled_out(api: &dyn KubeApi, spec: &ClusterSpec, deadline: Duration) -> Result<(), PhaseError> {
    let waits = workloads(spec);
    try_join_all(waits.iter().map(|workload| addons::ready(api, workload, deadline))).await?;
    Ok(())
}

/// What hoist's own addons run as, where pods run by themselves.
pub fn workloads(spec: &ClusterSpec) -> Vec<ObjectRef> {
    let cni = (spec.cni == Cni::KubeRouter).then_some(("DaemonSet", "kube-router"));
    let agent = (spec.reach == Reach::Konnectivity).then_some(("DaemonSet", "konnectivity-agent"));
    let all = [("DaemonSet", "kube-proxy"), ("Deployment", "coredns")].into_iter().chain(cni).chain(agent);
    all.filter(|(kind, _)| addons::gets_ready(spec, kind))
        .map(|(kind, name)| ObjectRef {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            namespace: Some("kube-system".to_owned()),
            name: name.to_owned(),
        })
        .collect()
}
