//! The images of a cluster as one table: listing, building, saving and the documentation iterate it.

use super::recipe::{RecipeFile, file};

/// What an image is for. The name of the image is the same word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The single-member store of the control plane.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// Runs on nodes, as a DaemonSet.
    KubeProxy,
    /// Runs on nodes, as a Deployment.
    CoreDns,
    /// Sandbox of pods, and owner of the cluster's network namespace.
    Pause,
    /// The default CNI: routes, network policies and the plugins to install on nodes.
    KubeRouter,
    /// dnsmasq and the network tools of the shared namespace.
    Network,
    /// Root file system of a worker node.
    Node,
}

/// What an image is built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// Nothing: static binaries only.
    Scratch,
    /// The Debian root file system that `base` provides.
    Base,
    /// Another image of the table.
    Image(Role),
}

/// Where the code of a program comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A `tool` of a pinned Go module: its package path, the name `go build` gives it, its place in the
    /// build context.
    Tool { module: GoModule, package: &'static str, built_as: &'static str, path: &'static str },
    /// A Go file of the recipe that needs the standard library only.
    Source { file: RecipeFile, path: &'static str },
}

/// A pinned Go module. One for nearly everything, so that shared packages are compiled once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GoModule {
    /// The one of the Kubernetes release.
    Release,
    /// crictl's: see the header of its module file.
    Crictl,
}

impl Program {
    /// Place of the binary in the build context.
    pub const fn path(&self) -> &'static str {
        match self {
            Self::Tool { path, .. } | Self::Source { path, .. } => path,
        }
    }
}

/// Whose version an image carries in its `component-version` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The Kubernetes release itself.
    Kubernetes,
    /// A Go module of the pinned module file.
    Module(&'static str),
    /// Written by hoist.
    Hoist,
}

/// The image that upstream publishes for the same job with the same entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    /// Nobody publishes this.
    None,
    /// Repository whose tags are Kubernetes versions.
    Kubernetes(&'static str),
    /// Repositories whose tags kubeadm pins for each release.
    Etcd(&'static str),
    /// See [`Upstream::Etcd`].
    CoreDns(&'static str),
    /// See [`Upstream::Etcd`].
    Pause(&'static str),
}

/// One image.
#[derive(Debug, Clone, Copy)]
pub struct ImageSpec {
    pub role: Role,
    /// Last part of the repository: `localhost/hoist/<name>`.
    pub name: &'static str,
    /// One line for lists and documentation.
    pub summary: &'static str,
    pub parent: Parent,
    /// The build context without its binaries; the first one is the Dockerfile.
    pub files: &'static [RecipeFile],
    pub programs: &'static [Program],
    /// Images that the recipe expects as `images.tar` in its context.
    pub preloads: &'static [Role],
    pub component: Component,
    pub upstream: Upstream,
}

const fn tool(package: &'static str, built_as: &'static str, path: &'static str) -> Program {
    Program::Tool { module: GoModule::Release, package, built_as, path }
}

const fn kubernetes(package: &'static str, name: &'static str) -> [Program; 1] {
    [tool(package, name, name)]
}

// The CNI plugins go to the node and into the image of the CNI that uses them.
const BRIDGE: Program =
    tool("github.com/containernetworking/plugins/plugins/main/bridge", "bridge", "cni/bridge");
const HOST_LOCAL: Program =
    tool("github.com/containernetworking/plugins/plugins/ipam/host-local", "host-local", "cni/host-local");
const LOOPBACK: Program =
    tool("github.com/containernetworking/plugins/plugins/main/loopback", "loopback", "cni/loopback");
const PORTMAP: Program =
    tool("github.com/containernetworking/plugins/plugins/meta/portmap", "portmap", "cni/portmap");
const PTP: Program = tool("github.com/containernetworking/plugins/plugins/main/ptp", "ptp", "cni/ptp");

/// Every image, in the order in which lists show them.
pub const IMAGES: &[ImageSpec] = &[
    ImageSpec {
        role: Role::Etcd,
        name: "etcd",
        summary: "store of the control plane",
        parent: Parent::Scratch,
        files: &[file!("etcd/Dockerfile" => "Dockerfile")],
        programs: &[tool("go.etcd.io/etcd/server/v3", "server", "etcd")],
        preloads: &[],
        component: Component::Module("go.etcd.io/etcd/server/v3"),
        upstream: Upstream::Etcd("registry.k8s.io/etcd"),
    },
    ImageSpec {
        role: Role::ApiServer,
        name: "kube-apiserver",
        summary: "Kubernetes API",
        parent: Parent::Scratch,
        files: &[file!("kube-apiserver/Dockerfile" => "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-apiserver"),
    },
    ImageSpec {
        role: Role::ControllerManager,
        name: "kube-controller-manager",
        summary: "controllers of the control plane",
        parent: Parent::Scratch,
        files: &[file!("kube-controller-manager/Dockerfile" => "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-controller-manager"),
    },
    ImageSpec {
        role: Role::Scheduler,
        name: "kube-scheduler",
        summary: "scheduler of the control plane",
        parent: Parent::Scratch,
        files: &[file!("kube-scheduler/Dockerfile" => "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-scheduler"),
    },
    ImageSpec {
        role: Role::KubeProxy,
        name: "kube-proxy",
        summary: "services on nodes",
        parent: Parent::Image(Role::Network),
        files: &[file!("kube-proxy/Dockerfile" => "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-proxy", "kube-proxy"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-proxy"),
    },
    ImageSpec {
        role: Role::CoreDns,
        name: "coredns",
        summary: "DNS of the cluster",
        parent: Parent::Scratch,
        files: &[file!("coredns/Dockerfile" => "Dockerfile")],
        programs: &[tool("github.com/coredns/coredns", "coredns", "coredns")],
        preloads: &[],
        component: Component::Module("github.com/coredns/coredns"),
        upstream: Upstream::CoreDns("registry.k8s.io/coredns/coredns"),
    },
    ImageSpec {
        role: Role::Pause,
        name: "pause",
        summary: "sandbox of pods and owner of the shared network namespace",
        parent: Parent::Scratch,
        files: &[file!("pause/Dockerfile" => "Dockerfile")],
        programs: &[Program::Source { file: file!("pause/main.go" => "main.go"), path: "pause" }],
        preloads: &[],
        component: Component::Hoist,
        upstream: Upstream::Pause("registry.k8s.io/pause"),
    },
    ImageSpec {
        role: Role::KubeRouter,
        name: "kube-router",
        summary: "default CNI, and the CNI plugins for nodes",
        parent: Parent::Image(Role::Network),
        files: &[file!("kube-router/Dockerfile" => "Dockerfile")],
        programs: &[
            tool("github.com/cloudnativelabs/kube-router/v2/cmd/kube-router", "kube-router", "kube-router"),
            BRIDGE,
            HOST_LOCAL,
            LOOPBACK,
            PORTMAP,
            PTP,
        ],
        preloads: &[],
        component: Component::Module("github.com/cloudnativelabs/kube-router/v2"),
        upstream: Upstream::None,
    },
    ImageSpec {
        role: Role::Network,
        name: "network",
        summary: "dnsmasq and the tools of the shared network namespace",
        parent: Parent::Base,
        files: &[file!("network/Dockerfile" => "Dockerfile"), file!("base/slim.sh" => "slim.sh")],
        programs: &[],
        preloads: &[],
        component: Component::Hoist,
        upstream: Upstream::None,
    },
    ImageSpec {
        role: Role::Node,
        name: "node",
        summary: "root file system of a worker node",
        parent: Parent::Image(Role::Network),
        files: &[
            file!("node/Dockerfile" => "Dockerfile"),
            file!("node/preload.sh" => "preload.sh"),
            file!("node/rootfs/etc/containerd/config.toml" => "rootfs/etc/containerd/config.toml"),
            file!("node/rootfs/etc/crictl.yaml" => "rootfs/etc/crictl.yaml"),
            file!("node/rootfs/etc/modules-load.d/hoist.conf" => "rootfs/etc/modules-load.d/hoist.conf"),
            file!("node/rootfs/etc/sysctl.d/90-hoist.conf" => "rootfs/etc/sysctl.d/90-hoist.conf"),
            file!("node/rootfs/etc/systemd/journald.conf.d/90-hoist.conf"
                => "rootfs/etc/systemd/journald.conf.d/90-hoist.conf"),
            file!("node/rootfs/usr/lib/systemd/system/kubelet.service"
                => "rootfs/usr/lib/systemd/system/kubelet.service"),
            file!("node/rootfs/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
                => "rootfs/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"),
            file!("node/rootfs/usr/local/sbin/hoist-node-init"
                => "rootfs/usr/local/sbin/hoist-node-init", executable),
        ],
        programs: &[
            tool("k8s.io/kubernetes/cmd/kubelet", "kubelet", "bin/kubelet"),
            tool("k8s.io/kubernetes/cmd/kubeadm", "kubeadm", "bin/kubeadm"),
            tool("k8s.io/kubernetes/cmd/kubectl", "kubectl", "bin/kubectl"),
            Program::Tool {
                module: GoModule::Crictl,
                package: "sigs.k8s.io/cri-tools/cmd/crictl",
                built_as: "crictl",
                path: "bin/crictl",
            },
            BRIDGE,
            HOST_LOCAL,
            LOOPBACK,
            PORTMAP,
            PTP,
        ],
        preloads: &[Role::Pause, Role::KubeProxy, Role::CoreDns, Role::KubeRouter],
        component: Component::Kubernetes,
        upstream: Upstream::None,
    },
];

impl Role {
    /// The row of this role.
    pub fn spec(self) -> &'static ImageSpec {
        // Every role has a row (a test sees to it); the fallback keeps this total without a panic.
        IMAGES.iter().find(|spec| spec.role == self).unwrap_or(&IMAGES[0])
    }

    /// Name of the image, without its repository.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The local reference for a Kubernetes version such as `v1.36.3`.
    pub fn reference(self, version: &str) -> String {
        format!("{REPOSITORY}/{}:{version}", self.name())
    }
}

/// Images of hoist live under a name that no registry can serve, so that an engine never pulls them by itself.
pub const REPOSITORY: &str = "localhost/hoist";

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [Role; 10] = [
        Role::Etcd,
        Role::ApiServer,
        Role::ControllerManager,
        Role::Scheduler,
        Role::KubeProxy,
        Role::CoreDns,
        Role::Pause,
        Role::KubeRouter,
        Role::Network,
        Role::Node,
    ];

    #[test]
    fn every_role_has_exactly_one_row() {
        assert_eq!(IMAGES.len(), ROLES.len());
        for role in ROLES {
            assert_eq!(role.spec().role, role);
            assert_eq!(IMAGES.iter().filter(|spec| spec.role == role).count(), 1);
        }
    }

    #[test]
    fn contexts_start_with_a_dockerfile_and_have_no_path_twice() {
        for spec in IMAGES {
            let mut paths: Vec<_> = spec.files.iter().map(|file| file.path).collect();
            assert_eq!(paths.first(), Some(&"Dockerfile"), "{}", spec.name);
            paths.extend(spec.programs.iter().map(Program::path));
            let count = paths.len();
            paths.sort_unstable();
            paths.dedup();
            assert_eq!(paths.len(), count, "{}", spec.name);
        }
    }

    #[test]
    fn references_carry_the_kubernetes_version() {
        assert_eq!(Role::ApiServer.reference("v1.36.3"), "localhost/hoist/kube-apiserver:v1.36.3");
    }
}
