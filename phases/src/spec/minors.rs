//! What differs between the minor versions of Kubernetes that hoist knows, as far as hoist has to do with it.
//! The phases ask this table; docs/versions.md is made from it.

use super::KubernetesVersion;

/// The version of kubeadm's API that `kubeadm-config` and join configurations are written in. A node's kubeadm
/// may be up to three minors older than the control plane; kubeadm reads this one since 1.31.
pub const KUBEADM_API: &str = "kubeadm.k8s.io/v1beta4";

/// How an API server comes by MutatingAdmissionPolicies (KEP-3962).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MutatingPolicies {
    /// In v1beta1, and only when a feature gate and the API are turned on.
    Beta,
    /// In v1, always.
    Stable,
}

/// One minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minor {
    /// The version whose sources are pinned, and which `make test-versions` runs.
    pub pinned: KubernetesVersion,
    /// Versions of the API group kubeadm.k8s.io that its kubeadm reads.
    pub kubeadm_apis: &'static [&'static str],
    pub mutating_policies: MutatingPolicies,
    /// What its kubelet takes for `failCgroupV1` when nothing is said (KEP-5573).
    pub fail_cgroup_v1: bool,
    /// Group in the certificate for kubelets that kubeadm issues to the API server in the pinned version. hoist
    /// issues it without a group, and binds its user to `system:kubelet-api-admin`, in all of them.
    pub kubelet_client_group: Option<&'static str>,
    /// Whether its kubeadm hands the kubelet `--pod-infra-container-image`, a flag that is gone later. containerd
    /// has a setting of its own, which node images carry.
    pub pause_by_flag: bool,
}

const fn version(minor: u32, patch: u32) -> KubernetesVersion {
    KubernetesVersion { minor, patch }
}

/// Oldest first, without a gap.
pub const MINORS: [Minor; 4] = [
    Minor {
        pinned: version(34, 4),
        kubeadm_apis: &["v1beta3", "v1beta4"],
        mutating_policies: MutatingPolicies::Beta,
        fail_cgroup_v1: false,
        kubelet_client_group: Some("kubeadm:cluster-admins"),
        pause_by_flag: true,
    },
    Minor {
        pinned: version(35, 4),
        kubeadm_apis: &["v1beta3", "v1beta4"],
        mutating_policies: MutatingPolicies::Beta,
        fail_cgroup_v1: true,
        kubelet_client_group: Some("kubeadm:cluster-admins"),
        pause_by_flag: false,
    },
    Minor {
        pinned: version(36, 3),
        kubeadm_apis: &["v1beta3", "v1beta4"],
        mutating_policies: MutatingPolicies::Stable,
        fail_cgroup_v1: true,
        kubelet_client_group: None,
        pause_by_flag: false,
    },
    Minor {
        pinned: version(37, 2),
        kubeadm_apis: &["v1beta4", "v1"],
        mutating_policies: MutatingPolicies::Stable,
        fail_cgroup_v1: true,
        kubelet_client_group: None,
        pause_by_flag: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_minor_once_and_in_order() {
        let minors: Vec<_> = MINORS.iter().map(|minor| minor.pinned.minor).collect();
        let (first, last) = (minors[0], minors[minors.len() - 1]);
        assert_eq!(minors, (first..=last).collect::<Vec<_>>());
        assert!(MINORS.iter().any(|minor| minor.pinned == KubernetesVersion::DEFAULT));
    }

    #[test]
    fn every_kubeadm_reads_what_hoist_writes() {
        let (group, api) = KUBEADM_API.split_once('/').unwrap_or_default();
        assert_eq!(group, "kubeadm.k8s.io");
        for minor in MINORS {
            assert!(minor.kubeadm_apis.contains(&api), "{}", minor.pinned);
        }
    }

    /// What has come does not go again from one minor to the next.
    #[test]
    fn policies_and_refusals_stay_once_they_are_there() {
        for pair in MINORS.windows(2) {
            let stable = |minor: &Minor| minor.mutating_policies == MutatingPolicies::Stable;
            assert!(!stable(&pair[0]) || stable(&pair[1]));
            assert!(!pair[0].fail_cgroup_v1 || pair[1].fail_cgroup_v1);
        }
    }
}
