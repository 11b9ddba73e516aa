//! What an upgrade may do, after kubeadm's own rules and the version skew policy
//! (<https://kubernetes.io/releases/version-skew-policy/>), and what the cluster is after it.

use crate::phases::skew;
use crate::spec::{ClusterSpec, KubernetesVersion};

/// Images that no upgrade replaces: the owner's, in whose namespace all else is and whose end would be
/// that of an etcd in memory, and those that aren't Kubernetes'.
const HELD: [&str; 4] = ["pause", "network", "registry", "kine"];

/// Image of the data store, which is replaced only when it is another version of etcd.
const STORE: &str = "etcd";

/// Why a version can't be upgraded to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    #[error(
        "kubernetes: {from} can't become {to}, which is of an older minor version: etcd may hold what only the newer \
         one can read; make another cluster of {to} by `hoist up --name OTHER --kubernetes {to}`"
    )]
    Older { from: KubernetesVersion, to: KubernetesVersion },
    #[error(
        "kubernetes: {from} can't become {to} at once, as Kubernetes is upgraded one minor version at a time; \
         upgrade to v1.{}.x first, hoist's own is {}", from.minor + 1, next(*from)
    )]
    Skips { from: KubernetesVersion, to: KubernetesVersion },
    #[error(
        "{node}: its kubelet {kubelet} could not stay beside a control plane of {to}, which takes v1.{} to v1.{}; \
         replace it first by one of {from} (`hoist node remove {node}` and `hoist node add`, with this cluster's `--name`)",
        to.minor.saturating_sub(skew::OLDEST), to.minor
    )]
    Kubelet { node: String, kubelet: String, from: KubernetesVersion, to: KubernetesVersion },
}

/// The pinned version of the minor after `from`; there is one between two that hoist knows.
fn next(from: KubernetesVersion) -> String {
    let found = KubernetesVersion::pinned().find(|pinned| pinned.minor == from.minor + 1);
    found.map_or_else(|| format!("v1.{}", from.minor + 1), |version| version.to_string())
}

/// Judges an upgrade of a cluster whose nodes have these kubelets, by name of the node. Another patch of
/// the same minor version may be older too: patches change nothing of what etcd holds.
///
/// # Errors
/// Everything that forbids it.
pub fn check(
    from: KubernetesVersion,
    to: KubernetesVersion,
    kubelets: &[(String, String)],
) -> Result<(), Vec<Refusal>> {
    let mut refusals = Vec::new();
    if to.minor < from.minor {
        refusals.push(Refusal::Older { from, to });
    } else if to.minor > from.minor + 1 {
        refusals.push(Refusal::Skips { from, to });
    }
    let stray = kubelets.iter().filter(|(_, kubelet)| !skew::fits(kubelet, to));
    refusals.extend(stray.map(|(node, kubelet)| Refusal::Kubelet {
        node: node.clone(),
        kubelet: kubelet.clone(),
        from,
        to,
    }));
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

/// The cluster once its control plane is of version `to`. The owner of the namespace, what isn't
/// Kubernetes' and the machines of nodes stay what they are made from.
pub fn upgraded(present: &ClusterSpec, to: KubernetesVersion, same_etcd: bool) -> ClusterSpec {
    let mut wanted = present.clone();
    wanted.kubernetes = to;
    let held = |name: &str| (name.to_owned(), present.held.get(name).copied().unwrap_or(present.kubernetes));
    wanted.held.extend(HELD.map(held));
    if same_etcd {
        wanted.held.extend([held(STORE)]);
    } else {
        wanted.held.remove(STORE);
    }
    for node in wanted.nodes.iter_mut().filter(|node| node.image.is_none()) {
        node.version = Some(node.version.unwrap_or(present.kubernetes)).filter(|version| *version != to);
    }
    wanted
}

/// The cluster as it was before, but for the store, where another is in place already: it may have
/// written what the one before can't read.
pub fn put_back(present: &ClusterSpec, wanted: &ClusterSpec, store_replaced: bool) -> ClusterSpec {
    let mut back = present.clone();
    if store_replaced && !wanted.held.contains_key(STORE) {
        back.held.insert(STORE.to_owned(), wanted.kubernetes);
    }
    back
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::{images, machines, network};
    use crate::spec::test_spec;

    fn version(text: &str) -> KubernetesVersion {
        KubernetesVersion::parse(text).unwrap_or(KubernetesVersion { minor: 0, patch: 0 })
    }

    /// What forbids it, in a word each.
    fn refused(from: &str, to: &str, kubelets: &[&str]) -> Vec<&'static str> {
        let kubelets: Vec<_> =
            kubelets.iter().map(|kubelet| ("node01".to_owned(), (*kubelet).to_owned())).collect();
        let refusals = check(version(from), version(to), &kubelets).err().unwrap_or_default();
        let word = |refusal: &Refusal| match refusal {
            Refusal::Older { .. } => "older",
            Refusal::Skips { .. } => "skips",
            Refusal::Kubelet { .. } => "kubelet",
        };
        refusals.iter().map(word).collect()
    }

    #[test]
    fn one_minor_at_a_time_and_never_back() {
        for (from, to, kubelets, wanted) in [
            ("v1.34.4", "v1.35.4", &["v1.34.4"][..], &[][..]),
            ("v1.36.3", "v1.37.2", &["v1.34.4", "v1.36.3"], &[]),
            ("v1.36.2", "v1.36.3", &["v1.36.2"], &[]),
            ("v1.36.3", "v1.36.2", &["v1.36.3", "v1.33.0"], &[]),
            ("v1.36.3", "v1.36.3", &[], &[]),
            ("v1.34.4", "v1.36.3", &[], &["skips"]),
            ("v1.36.3", "v1.35.4", &[], &["older"]),
            ("v1.36.3", "v1.35.4", &["v1.36.3", "v1.35.4"], &["older", "kubelet"]),
            ("v1.36.3", "v1.37.2", &["v1.33.9", "v1.34.0"], &["kubelet"]),
            ("v1.34.4", "v1.37.2", &["v1.31.0"], &["skips", "kubelet"]),
            ("v1.36.3", "v1.37.2", &["none"], &["kubelet"]),
        ] {
            assert_eq!(refused(from, to, kubelets), wanted, "{from} to {to} with {kubelets:?}");
        }
    }

    #[test]
    fn a_refusal_names_both_versions_and_the_way_out() {
        let told = |from: &str, to: &str, kubelets: &[(String, String)]| {
            let refusals = check(version(from), version(to), kubelets).err().unwrap_or_default();
            refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let skips = told("v1.34.4", "v1.36.3", &[]);
        for part in ["v1.34.4", "v1.36.3", "v1.35.x first", "v1.35.4"] {
            assert!(skips.contains(part), "{part} in {skips}");
        }
        let older = told("v1.36.3", "v1.35.4", &[]);
        assert!(older.contains("v1.36.3 can't become v1.35.4") && older.contains("--name OTHER"), "{older}");
        let kubelet = told("v1.36.3", "v1.37.2", &[("worker".to_owned(), "v1.33.9".to_owned())]);
        for part in ["worker", "v1.33.9", "v1.37.2", "v1.34 to v1.37", "node remove worker"] {
            assert!(kubelet.contains(part), "{part} in {kubelet}");
        }
    }

    #[test]
    fn the_owner_and_the_machines_stay_what_they_are() {
        let mut present = test_spec();
        present.kubernetes = version("v1.34.4");
        let first = upgraded(&present, version("v1.35.4"), true);
        let second = upgraded(&first, version("v1.36.3"), true);
        for spec in [&first, &second] {
            assert_eq!(network::owner(spec), network::owner(&present));
            let machine = |spec: &ClusterSpec| machines::machine(spec, &spec.nodes[0], 1500);
            assert_eq!(machine(spec).content_hash(), machine(&present).content_hash());
            assert_eq!(images::reference(spec, "etcd"), "localhost/hoist/etcd:v1.34.4");
        }
        assert_eq!(images::reference(&second, "kube-apiserver"), "localhost/hoist/kube-apiserver:v1.36.3");
        let third = upgraded(&second, version("v1.37.2"), false);
        assert_eq!(images::reference(&third, "etcd"), "localhost/hoist/etcd:v1.37.2");
        assert_eq!(third.nodes[0].version, Some(version("v1.34.4")));
        // And back to the very version that a node is of, its image is the cluster's own again.
        let mut newer = present.clone();
        newer.kubernetes = version("v1.36.3");
        let older = upgraded(&newer, version("v1.36.2"), true);
        assert_eq!(older.nodes[0].version, Some(version("v1.36.3")));
        assert_eq!(upgraded(&older, version("v1.36.3"), true).nodes[0].version, None);
    }

    #[test]
    fn nodes_of_an_image_of_the_users_keep_it_and_new_ones_are_of_the_new_version() {
        let mut present = test_spec();
        present.nodes[0].image = Some("example.org/node:1".to_owned());
        let mut wanted = upgraded(&present, version("v1.37.2"), false);
        assert_eq!((&wanted.nodes[0].image, wanted.nodes[0].version), (&present.nodes[0].image, None));
        wanted.nodes.extend(crate::spec::NodeSpec::new(2, crate::spec::NodeKind::Container));
        assert_eq!(images::of_node(&wanted, &wanted.nodes[1]), "localhost/hoist/node:v1.37.2");
    }

    #[test]
    fn put_back_keeps_a_store_that_was_replaced() {
        let present = test_spec();
        let (same, other) =
            (upgraded(&present, version("v1.37.2"), true), upgraded(&present, version("v1.37.2"), false));
        assert_eq!(put_back(&present, &same, true), present);
        assert_eq!(put_back(&present, &other, false), present);
        let back = put_back(&present, &other, true);
        assert_eq!(images::reference(&back, "etcd"), "localhost/hoist/etcd:v1.37.2");
        assert_eq!(images::reference(&back, "kube-apiserver"), "localhost/hoist/kube-apiserver:v1.36.3");
    }
}
