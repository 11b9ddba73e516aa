//! The rows of the table of images.

use super::recipe::file;
use super::table::{Component, GoModule, ImageSpec, Need, Parent, Program, Role, Upstream};

const fn tool(package: &'static str, built_as: &'static str, path: &'static str) -> Program {
    Program::Tool { module: GoModule::Release, package, built_as, path }
}

const fn kubernetes(package: &'static str, name: &'static str) -> [Program; 1] {
    [tool(package, name, name)]
}

const KONNECTIVITY: &str = "sigs.k8s.io/apiserver-network-proxy";

const fn konnectivity(package: &'static str, built_as: &'static str, path: &'static str) -> Program {
    Program::Tool { module: GoModule::Konnectivity, package, built_as, path }
}

const fn etcd_tool(package: &'static str, name: &'static str) -> Program {
    Program::Tool { module: GoModule::EtcdTools, package, built_as: name, path: name }
}

const KINE: &str = "github.com/k3s-io/kine";

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
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("etcd" / "Dockerfile")],
        programs: &[
            tool("go.etcd.io/etcd/server/v3", "server", "etcd"),
            etcd_tool("go.etcd.io/etcd/etcdctl/v3", "etcdctl"),
            etcd_tool("go.etcd.io/etcd/etcdutl/v3", "etcdutl"),
        ],
        preloads: &[],
        component: Component::Module("go.etcd.io/etcd/server/v3"),
        upstream: Upstream::Etcd("registry.k8s.io/etcd"),
    },
    ImageSpec {
        role: Role::Kine,
        name: "kine",
        summary: "store of the control plane in etcd's place, on SQLite",
        need: Need::Kine,
        parent: Parent::Scratch,
        files: &[file!("kine" / "Dockerfile")],
        programs: &[Program::Tool { module: GoModule::Kine, package: KINE, built_as: "kine", path: "kine" }],
        preloads: &[],
        component: Component::Module(KINE),
        upstream: Upstream::Module { repository: "docker.io/rancher/kine", module: KINE },
    },
    ImageSpec {
        role: Role::ApiServer,
        name: "kube-apiserver",
        summary: "Kubernetes API",
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("kube-apiserver" / "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-apiserver"),
    },
    ImageSpec {
        role: Role::ControllerManager,
        name: "kube-controller-manager",
        summary: "controllers of the control plane",
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("kube-controller-manager" / "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-controller-manager"),
    },
    ImageSpec {
        role: Role::Scheduler,
        name: "kube-scheduler",
        summary: "scheduler of the control plane",
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("kube-scheduler" / "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-scheduler"),
    },
    ImageSpec {
        role: Role::KubeProxy,
        name: "kube-proxy",
        summary: "services on nodes",
        need: Need::Cluster,
        parent: Parent::Images(&[Role::Tools]),
        files: &[file!("kube-proxy" / "Dockerfile")],
        programs: &kubernetes("k8s.io/kubernetes/cmd/kube-proxy", "kube-proxy"),
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::Kubernetes("registry.k8s.io/kube-proxy"),
    },
    ImageSpec {
        role: Role::CoreDns,
        name: "coredns",
        summary: "DNS of the cluster",
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("coredns" / "Dockerfile")],
        programs: &[tool("github.com/coredns/coredns", "coredns", "coredns")],
        preloads: &[],
        component: Component::Module("github.com/coredns/coredns"),
        upstream: Upstream::CoreDns("registry.k8s.io/coredns/coredns"),
    },
    ImageSpec {
        role: Role::Pause,
        name: "pause",
        summary: "sandbox of pods and owner of the shared network namespace",
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("pause" / "Dockerfile")],
        programs: &[Program::Source { file: file!("pause" / "main.go"), path: "pause" }],
        preloads: &[],
        component: Component::Hoist,
        upstream: Upstream::Pause("registry.k8s.io/pause"),
    },
    ImageSpec {
        role: Role::KubeRouter,
        name: "kube-router",
        summary: "default CNI, and the CNI plugins for nodes",
        need: Need::Cluster,
        parent: Parent::Images(&[Role::Tools]),
        files: &[file!("kube-router" / "Dockerfile")],
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
        role: Role::KonnectivityServer,
        name: "konnectivity-server",
        summary: "the control plane's way to nodes and pods that it has no route to",
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("konnectivity-server" / "Dockerfile")],
        programs: &[konnectivity(
            "sigs.k8s.io/apiserver-network-proxy/cmd/server",
            "server",
            "konnectivity-server",
        )],
        preloads: &[],
        component: Component::Module(KONNECTIVITY),
        upstream: Upstream::Module {
            repository: "registry.k8s.io/kas-network-proxy/proxy-server",
            module: KONNECTIVITY,
        },
    },
    ImageSpec {
        role: Role::KonnectivityAgent,
        name: "konnectivity-agent",
        summary: "the nodes' end of that way",
        need: Need::Cluster,
        parent: Parent::Scratch,
        files: &[file!("konnectivity-agent" / "Dockerfile")],
        programs: &[konnectivity(
            "sigs.k8s.io/apiserver-network-proxy/cmd/agent",
            "agent",
            "konnectivity-agent",
        )],
        preloads: &[],
        component: Component::Module(KONNECTIVITY),
        upstream: Upstream::Module {
            repository: "registry.k8s.io/kas-network-proxy/proxy-agent",
            module: KONNECTIVITY,
        },
    },
    ImageSpec {
        role: Role::Network,
        name: "network",
        summary: "dnsmasq and the tools of the shared network namespace",
        need: Need::Cluster,
        parent: Parent::Base,
        files: &[file!("network" / "Dockerfile"), file!("base" / "slim.sh")],
        programs: &[],
        preloads: &[],
        component: Component::Hoist,
        upstream: Upstream::None,
    },
    ImageSpec {
        role: Role::Tools,
        name: "tools",
        summary: "packet filter tools that kube-proxy and kube-router run",
        need: Need::Build,
        parent: Parent::Images(&[Role::Network]),
        files: &[file!("tools" / "Dockerfile"), file!("tools" / "collect.sh")],
        programs: &[],
        preloads: &[],
        component: Component::Hoist,
        upstream: Upstream::None,
    },
    ImageSpec {
        role: Role::Node,
        name: "node",
        summary: "root file system of a worker node",
        need: Need::Cluster,
        parent: Parent::Images(&[Role::Network]),
        files: &[
            file!("node" / "Dockerfile"),
            file!("node" / "preload.sh"),
            file!("node" / "rootfs/etc/containerd/config.toml"),
            file!("node" / "rootfs/etc/crictl.yaml"),
            file!("node" / "rootfs/etc/modules-load.d/hoist.conf"),
            file!("node" / "rootfs/etc/sysctl.d/90-hoist.conf"),
            file!("node" / "rootfs/etc/systemd/journald.conf.d/90-hoist.conf"),
            file!("node" / "rootfs/usr/lib/systemd/system/kubelet.service"),
            file!("node" / "rootfs/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"),
            file!("node" / "rootfs/usr/local/sbin/hoist-node-init", executable),
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
        preloads: &[Role::Pause, Role::KubeProxy, Role::CoreDns, Role::KubeRouter, Role::KonnectivityAgent],
        component: Component::Kubernetes,
        upstream: Upstream::None,
    },
    ImageSpec {
        role: Role::Vm,
        name: "vm",
        summary: "worker node in a virtual machine",
        need: Need::VmNodes,
        parent: Parent::Images(&[Role::Network, Role::Node]),
        files: &[
            file!("vm" / "Dockerfile"),
            file!("vm" / "bin/bin/hoist-exec", executable),
            file!("vm" / "bin/sbin/hoist-vm", executable),
            file!("vm" / "bin/sbin/hoist-vm-ifup", executable),
            file!("vm" / "disk.sh"),
            file!("vm" / "init"),
            file!("vm" / "pack.sh"),
            file!("vm" / "unpack.sh"),
            file!("vm" / "rootfs/etc/kubernetes/kubelet.conf.d/10-hoist-vm-node.conf"),
            file!("vm" / "rootfs/etc/ssh/sshd_config.d/10-hoist.conf"),
            file!("vm" / "rootfs/etc/systemd/network/99-default.link"),
            file!("vm" / "rootfs/etc/systemd/system/containerd.service.d/10-hoist.conf"),
            file!("vm" / "rootfs/etc/systemd/system/hoist-grow.service"),
            file!("vm" / "rootfs/etc/systemd/system/hoist-late.slice"),
            file!("vm" / "rootfs/etc/systemd/system/hoist-late.target"),
            file!("vm" / "rootfs/etc/systemd/system/hoist-network.service"),
            file!("vm" / "rootfs/etc/systemd/system/hoist-network6.service"),
            file!("vm" / "rootfs/etc/systemd/system/kubelet.service.d/20-hoist-vm.conf"),
            file!("vm" / "rootfs/etc/systemd/system/ssh.service.d/10-hoist.conf"),
            file!("vm" / "rootfs/etc/systemd/system/systemd-journald.service.d/10-hoist.conf"),
            file!("vm" / "rootfs/etc/systemd/system/systemd-udev-trigger.service.d/10-hoist.conf"),
            file!("vm" / "rootfs/usr/lib/hoist/dhcp-event", executable),
            file!("vm" / "rootfs/usr/lib/hoist/dhcp6-event", executable),
            file!("vm" / "rootfs/usr/lib/hoist/dhcp6-start", executable),
        ],
        programs: &[],
        preloads: &[],
        component: Component::Kubernetes,
        upstream: Upstream::None,
    },
    ImageSpec {
        role: Role::Registry,
        name: "registry",
        summary: "registry of a cluster, which its nodes pull from",
        need: Need::Registry,
        parent: Parent::Scratch,
        files: &[file!("registry" / "Dockerfile"), file!("registry" / "config.yml")],
        programs: &[Program::Tool {
            module: GoModule::Registry,
            package: "github.com/distribution/distribution/v3/cmd/registry",
            built_as: "registry",
            path: "registry",
        }],
        preloads: &[],
        component: Component::Module("github.com/distribution/distribution/v3"),
        // The one that kubevirtci uses.
        upstream: Upstream::Image("quay.io/libpod/registry:2.8.2"),
    },
    ImageSpec {
        role: Role::Gocli,
        name: "gocli",
        summary: "hoist for kubevirtci's scripts",
        need: Need::Kubevirtci,
        parent: Parent::Images(&[Role::Tools]),
        files: &[file!("gocli" / "Dockerfile")],
        programs: &[Program::Own { path: "hoist" }],
        preloads: &[],
        component: Component::Hoist,
        upstream: Upstream::None,
    },
];

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
