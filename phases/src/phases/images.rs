//! Which images a cluster needs, and what they are called.

use crate::spec::{Backend, ClusterSpec, Cni, KubernetesVersion, NodeKind, NodeSpec, Reach};

/// Every image is called after its program and the Kubernetes version it was built for: the cluster's,
/// or the one that an upgrade has left it at. The `localhost` registry can't be pulled from, so a node
/// never fetches another image of that name.
pub fn reference(spec: &ClusterSpec, name: &str) -> String {
    of_version(name, spec.held.get(name).copied().unwrap_or(spec.kubernetes))
}

fn of_version(name: &str, version: KubernetesVersion) -> String {
    format!("localhost/hoist/{name}:{version}")
}

/// The version of an image of hoist's.
pub fn version(reference: &str) -> Option<KubernetesVersion> {
    let (_, tag) = reference.strip_prefix("localhost/hoist/")?.split_once(':')?;
    KubernetesVersion::parse(tag).ok()
}

/// What pods of hoist's addons call their image. Machines that are not hoist's have none of the
/// `localhost` registry.
pub fn on_nodes(spec: &ClusterSpec, name: &str) -> String {
    match spec.owner.attach().and_then(|attach| attach.registry.as_deref()) {
        Some(registry) => format!("{registry}/hoist/{name}:{}", spec.kubernetes),
        None => reference(spec, name),
    }
}

/// The image that a node's machine is made from.
pub fn of_node(spec: &ClusterSpec, node: &NodeSpec) -> String {
    let name = match node.kind {
        NodeKind::Container => "node",
        NodeKind::Vm(_) => "vm",
    };
    node.image.clone().unwrap_or_else(|| of_version(name, node.version.unwrap_or(spec.kubernetes)))
}

/// All images that `up` needs in the engine's store; those of addons where nodes may have to be given them.
pub fn needed(spec: &ClusterSpec) -> Vec<String> {
    let control_plane = ["pause", "network", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    // etcd's has the program too that asks an etcd elsewhere how it fares.
    let store = if spec.etcd.backend == Backend::Kine { "kine" } else { "etcd" };
    let konnectivity = (spec.reach == Reach::Konnectivity).then_some("konnectivity-server");
    let registry = spec.owner.attach().and_then(|attach| attach.registry.as_ref());
    let pushed = konnectivity.and(registry).map(|_| "konnectivity-agent");
    let own = spec.registry.map(|_| "registry");
    let named = control_plane.into_iter().chain([store]).chain(konnectivity).chain(pushed).chain(own);
    let mut all: Vec<_> = named.map(|name| reference(spec, name)).collect();
    let given = spec.nodes.iter().any(lacks_addons);
    let addons = addons(spec).into_iter().filter(|_| given);
    for image in addons.chain(spec.nodes.iter().map(|node| of_node(spec, node))) {
        if !all.contains(&image) {
            all.push(image);
        }
    }
    all
}

/// Whether a node's image may be without the images of the addons: it is the user's, or of another version.
pub fn lacks_addons(node: &NodeSpec) -> bool {
    node.image.is_some() || node.version.is_some()
}

/// The images that pods of hoist's addons run. hoist's own node images hold them.
pub fn addons(spec: &ClusterSpec) -> Vec<String> {
    let cni = (spec.cni == Cni::KubeRouter).then_some("kube-router");
    let konnectivity = (spec.reach == Reach::Konnectivity).then_some("konnectivity-agent");
    ["pause", "kube-proxy", "coredns"]
        .into_iter()
        .chain(cni)
        .chain(konnectivity)
        .map(|name| reference(spec, name))
        .collect()
}
