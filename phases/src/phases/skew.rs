//! Which versions of Kubernetes a node may have beside a control plane's
//! (<https://kubernetes.io/releases/version-skew-policy/>), asked before it joins: later the API
//! would refuse what its kubelet sends, or not, in ways that don't tell.

use crate::spec::KubernetesVersion;

/// How many minor versions a kubelet may be older than the API server.
pub(super) const OLDEST: u32 = 3;

/// Prints `kubeadm v1.36.3` and `kubelet Kubernetes v1.36.3`, without what isn't there; side by
/// side, since each takes an emulated processor a second.
pub(super) const VERSIONS: &str = "echo \"kubeadm $(kubeadm version -o short 2>/dev/null)\" & \
                                   echo \"kubelet $(kubelet --version 2>/dev/null)\" & wait";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum SkewError {
    #[error(
        "{node}: its image {image} has no {program} that runs; docs/vm-nodes.md and docs/nodes.md say what an \
         image must hold"
    )]
    Missing { node: String, image: String, program: &'static str },
    #[error(
        "{node}: kubelet {kubelet} of its image {image} can't join a control plane of {control_plane}: it must be of \
         v1.{} to v1.{}; give it another image, or the cluster another version by --kubernetes",
        control_plane.minor.saturating_sub(OLDEST), control_plane.minor
    )]
    Skew { node: String, image: String, kubelet: String, control_plane: KubernetesVersion },
}

/// Judges what [`VERSIONS`] printed on a node.
pub(super) fn check(
    node: &str,
    image: &str,
    printed: &str,
    control_plane: KubernetesVersion,
) -> Result<(), SkewError> {
    let version = |program: &'static str| {
        let mut lines =
            printed.lines().filter_map(|line| line.strip_prefix(program)?.split_whitespace().last());
        let found = lines.find_map(|text| minor(text).map(|minor| (text, minor)));
        let missing = || SkewError::Missing { node: node.to_owned(), image: image.to_owned(), program };
        found.ok_or_else(missing)
    };
    version("kubeadm")?;
    let (kubelet, _) = version("kubelet")?;
    if fits(kubelet, control_plane) {
        return Ok(());
    }
    let (node, image, kubelet) = (node.to_owned(), image.to_owned(), kubelet.to_owned());
    Err(SkewError::Skew { node, image, kubelet, control_plane })
}

/// Whether a kubelet of this version may be beside a control plane of that one.
pub(super) fn fits(kubelet: &str, control_plane: KubernetesVersion) -> bool {
    let fitting = control_plane.minor.saturating_sub(OLDEST)..=control_plane.minor;
    minor(kubelet).is_some_and(|minor| fitting.contains(&minor))
}

/// The minor of `v1.36.3` or `v1.36.0-rc.1`.
fn minor(text: &str) -> Option<u32> {
    let (minor, patch) = text.strip_prefix("v1.")?.split_once('.')?;
    patch.starts_with(|first: char| first.is_ascii_digit()).then_some(())?;
    minor.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL_PLANE: KubernetesVersion = KubernetesVersion { minor: 36, patch: 3 };

    fn kubelet(version: &str) -> Result<(), SkewError> {
        let printed = format!("kubelet Kubernetes {version}\nkubeadm v1.36.3\n");
        check("node01", "image", &printed, CONTROL_PLANE)
    }

    #[test]
    fn a_kubelet_is_never_newer_and_at_most_three_minors_older() {
        for good in ["v1.36.3", "v1.36.9", "v1.36.0-rc.1", "v1.33.0"] {
            assert_eq!(kubelet(good), Ok(()), "{good}");
        }
        for bad in ["v1.37.0", "v1.32.11", "v1.4.0"] {
            assert!(matches!(kubelet(bad), Err(SkewError::Skew { .. })), "{bad}");
        }
        let told = kubelet("v1.32.11").map_err(|error| error.to_string()).err().unwrap_or_default();
        for part in ["node01", "v1.32.11", "v1.36.3", "v1.33 to v1.36", "image"] {
            assert!(told.contains(part), "{part} in {told}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let missing = |printed| match check("node01", "image", printed, CONTROL_PLANE) {
            Err(SkewError::Missing { program, .. }) => program,
            _ => "",
        };
        assert_eq!(missing("kubeadm \nkubelet Kubernetes v1.36.3\n"), "kubeadm");
        assert_eq!(missing("kubeadm v1.36.3\nkubelet \n"), "kubelet");
        assert_eq!(missing(""), "kubeadm");
        assert_eq!(missing("kubeadm v1.36.3\nkubelet Kubernetes unknown\n"), "kubelet");
    }
}
