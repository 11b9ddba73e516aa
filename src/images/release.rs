//! Kubernetes releases whose sources are pinned, and what upstream publishes for each.

use super::error::ImageError;
use super::table::{Component, GoModule, ImageSpec, Upstream};

/// The pinned sources of one Kubernetes minor, and the tags that its kubeadm names.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// The version that the module file pins.
    pub version: &'static str,
    pub go_mod: &'static str,
    pub go_sum: &'static str,
    pub etcd_tag: &'static str,
    pub coredns_tag: &'static str,
    pub pause_tag: &'static str,
}

/// Newest first. The tags are the constants of `cmd/kubeadm/app/constants` in that release.
pub const RELEASES: &[Release] = &[
    Release {
        version: "v1.37.2",
        go_mod: include_str!("../../scripts/images/go/1.37/go.mod"),
        go_sum: include_str!("../../scripts/images/go/1.37/go.sum"),
        etcd_tag: "3.7.0-0",
        coredns_tag: "v1.14.6",
        pause_tag: "3.10.2",
    },
    Release {
        version: "v1.36.3",
        go_mod: include_str!("../../scripts/images/go/1.36/go.mod"),
        go_sum: include_str!("../../scripts/images/go/1.36/go.sum"),
        etcd_tag: "3.6.8-0",
        coredns_tag: "v1.14.2",
        pause_tag: "3.10.2",
    },
    Release {
        version: "v1.35.4",
        go_mod: include_str!("../../scripts/images/go/1.35/go.mod"),
        go_sum: include_str!("../../scripts/images/go/1.35/go.sum"),
        etcd_tag: "3.6.6-0",
        coredns_tag: "v1.13.1",
        pause_tag: "3.10.1",
    },
    Release {
        version: "v1.34.4",
        go_mod: include_str!("../../scripts/images/go/1.34/go.mod"),
        go_sum: include_str!("../../scripts/images/go/1.34/go.sum"),
        etcd_tag: "3.6.5-0",
        coredns_tag: "v1.12.1",
        pause_tag: "3.10.1",
    },
];

/// Text of the module that builds crictl, for every release.
const CRICTL_MOD: &str = include_str!("../../scripts/images/go/crictl/go.mod");
const CRICTL_SUM: &str = include_str!("../../scripts/images/go/crictl/go.sum");

/// The same of konnectivity.
const KONNECTIVITY_MOD: &str = include_str!("../../scripts/images/go/konnectivity/go.mod");
const KONNECTIVITY_SUM: &str = include_str!("../../scripts/images/go/konnectivity/go.sum");
/// The same of the registry.
const REGISTRY_MOD: &str = include_str!("../../scripts/images/go/registry/go.mod");
const REGISTRY_SUM: &str = include_str!("../../scripts/images/go/registry/go.sum");
/// The same of kine.
const KINE_MOD: &str = include_str!("../../scripts/images/go/kine/go.mod");
const KINE_SUM: &str = include_str!("../../scripts/images/go/kine/go.sum");

/// The modules that build etcd's tools, by the minor of etcd.
const ETCD_TOOLS: [(&str, &str, &str); 2] = [
    (
        "3.6",
        include_str!("../../scripts/images/go/etcd-3.6/go.mod"),
        include_str!("../../scripts/images/go/etcd-3.6/go.sum"),
    ),
    (
        "3.7",
        include_str!("../../scripts/images/go/etcd-3.7/go.mod"),
        include_str!("../../scripts/images/go/etcd-3.7/go.sum"),
    ),
];

impl Release {
    /// go.mod and go.sum of a module.
    pub(crate) fn module_files(&self, module: GoModule) -> (&'static str, &'static str) {
        match module {
            GoModule::Release => (self.go_mod, self.go_sum),
            GoModule::Crictl => (CRICTL_MOD, CRICTL_SUM),
            GoModule::Konnectivity => (KONNECTIVITY_MOD, KONNECTIVITY_SUM),
            GoModule::Registry => (REGISTRY_MOD, REGISTRY_SUM),
            GoModule::Kine => (KINE_MOD, KINE_SUM),
            GoModule::EtcdTools => self.etcd_tools(),
        }
    }

    /// What works on the data of this release's etcd; a test holds the list to have it.
    fn etcd_tools(&self) -> (&'static str, &'static str) {
        let etcd = self.module_version("go.etcd.io/etcd/server/v3").unwrap_or_default();
        let fits = |minor: &str| etcd.trim_start_matches('v').starts_with(&format!("{minor}."));
        let found = ETCD_TOOLS.iter().find(|(minor, ..)| fits(minor));
        found.map_or((ETCD_TOOLS[0].1, ETCD_TOOLS[0].2), |(_, go_mod, go_sum)| (*go_mod, *go_sum))
    }

    /// The release to build a version from: the one that pins it, else that of the same minor, whose other
    /// components fit it, else the newest.
    pub fn of(version: &str) -> &'static Self {
        let minor = parse(version).ok();
        RELEASES.iter().find(|release| parse(release.version).ok() == minor).unwrap_or(&RELEASES[0])
    }

    /// Whether the sources of this very version are pinned.
    pub fn pins(&self, version: &str) -> bool {
        self.version == version
    }

    /// Version of a module as the module files require it.
    pub fn module_version(&self, module: &str) -> Option<&'static str> {
        let lines = [self.go_mod, CRICTL_MOD, KONNECTIVITY_MOD, REGISTRY_MOD, KINE_MOD]
            .into_iter()
            .flat_map(str::lines);
        lines.into_iter().find_map(|line| {
            let mut words = line.split_whitespace().skip_while(|word| *word == "require");
            (words.next() == Some(module)).then(|| words.next()).flatten()
        })
    }

    /// What the `component-version` label says.
    pub(crate) fn component_version(&self, component: Component, version: &str) -> String {
        match component {
            Component::Kubernetes => version.to_owned(),
            Component::Module(module) => self.module_version(module).unwrap_or("unknown").to_owned(),
            Component::Hoist => concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// The upstream image for the same job, if somebody publishes one.
    pub(crate) fn upstream_reference(&self, spec: &ImageSpec, version: &str) -> Option<String> {
        let (repository, tag) = match spec.upstream {
            Upstream::None => return None,
            Upstream::Kubernetes(repository) => (repository, version),
            Upstream::Etcd(repository) => (repository, self.etcd_tag),
            Upstream::CoreDns(repository) => (repository, self.coredns_tag),
            Upstream::Pause(repository) => (repository, self.pause_tag),
            Upstream::Module { repository, module } => (repository, self.module_version(module)?),
            Upstream::Image(reference) => return Some(reference.to_owned()),
        };
        Some(format!("{repository}:{tag}"))
    }
}

/// Major and minor of `vX.Y.Z`, pre-releases included; anything else could be no tag of Kubernetes.
pub(crate) fn parse(version: &str) -> Result<(u32, u32), ImageError> {
    let numbers = || {
        let (core, _) = version.strip_prefix('v').map(|rest| rest.split_once('-').unwrap_or((rest, "")))?;
        let mut parts = core.split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(_)), None) => Some((major, minor)),
            _ => None,
        }
    };
    let tag_safe = version.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    numbers().filter(|_| tag_safe).ok_or_else(|| ImageError::Version { version: version.to_owned() })
}

#[cfg(test)]
mod tests {
    use hoist_phases::spec::KubernetesVersion;

    use super::super::table::{IMAGES, Role};
    use super::*;

    #[test]
    fn versions_are_full_releases() {
        assert_eq!(parse("v1.36.3").ok(), Some((1, 36)));
        assert_eq!(parse("v1.37.0-rc.1").ok(), Some((1, 37)));
        for wrong in ["1.36.3", "v1.36", "v1.36.3.1", "v1.36.x", "v1.36.3-a/b", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_component_version_is_pinned() {
        for release in RELEASES {
            for spec in IMAGES {
                let version = release.component_version(spec.component, release.version);
                assert!(version.starts_with('v'), "{}: {version}", spec.name);
            }
            assert_eq!(release.module_version("k8s.io/kubernetes"), Some(release.version));
        }
    }

    #[test]
    fn the_releases_are_those_that_the_phases_know() {
        let pinned: Vec<_> = RELEASES.iter().rev().map(|release| release.version.to_owned()).collect();
        assert_eq!(
            pinned,
            KubernetesVersion::pinned().map(|version| version.to_string()).collect::<Vec<_>>()
        );
    }

    /// A staging module of another release compiles now and then, and is wrong all the same.
    #[test]
    fn every_staging_module_is_of_its_release() {
        for release in RELEASES {
            let staging = release.version.replacen("v1.", "v0.", 1);
            for name in ["api", "apimachinery", "apiserver", "client-go", "cri-api", "kubelet", "kube-proxy"]
            {
                let found = release.module_version(&format!("k8s.io/{name}"));
                assert_eq!(found, Some(staging.as_str()), "{name} of {}", release.version);
            }
        }
    }

    #[test]
    fn another_patch_is_built_with_the_components_of_its_minor() {
        for (version, release) in [
            ("v1.34.9", "v1.34.4"),
            ("v1.35.4", "v1.35.4"),
            ("v1.36.0-rc.1", "v1.36.3"),
            ("v1.38.0", "v1.37.2"),
        ] {
            assert_eq!(Release::of(version).version, release, "{version}");
        }
        assert!(Release::of("v1.34.4").pins("v1.34.4") && !Release::of("v1.34.9").pins("v1.34.9"));
    }

    #[test]
    fn the_tools_of_etcd_are_of_its_own_minor() {
        for release in RELEASES {
            let minor = |text: &str| text.rsplit_once('.').map(|(minor, _)| minor.to_owned());
            let server = release.module_version("go.etcd.io/etcd/server/v3").and_then(minor);
            let (tools, _) = release.module_files(GoModule::EtcdTools);
            let line = tools.lines().find(|line| line.trim().starts_with("go.etcd.io/etcd/etcdutl/v3 v"));
            let version = line.and_then(|line| line.split_whitespace().nth(1)).and_then(minor);
            assert_eq!(server, version, "{}", release.version);
        }
    }

    /// What kubeadm pins is a minor of etcd that this API server was tested with upstream.
    #[test]
    fn etcd_is_of_the_minor_that_kubeadm_names() {
        for release in RELEASES {
            let built = release.module_version("go.etcd.io/etcd/server/v3").unwrap_or_default();
            let minor = |text: &str| {
                text.trim_start_matches('v').split('.').take(2).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(minor(built), minor(release.etcd_tag), "{}", release.version);
        }
    }

    #[test]
    fn upstream_images_exist_for_what_upstream_builds() {
        let reference = |role: Role| Release::of("v1.36.3").upstream_reference(role.spec(), "v1.36.3");
        assert_eq!(reference(Role::Scheduler).as_deref(), Some("registry.k8s.io/kube-scheduler:v1.36.3"));
        assert_eq!(reference(Role::Etcd).as_deref(), Some("registry.k8s.io/etcd:3.6.8-0"));
        assert_eq!(reference(Role::Node), None);
    }
}
