//! The images of a cluster as one table: listing, building, saving and the documentation iterate it.

use super::recipe::RecipeFile;
pub use super::rows::IMAGES;

/// What an image is for. The name of the image is the same word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The single-member store of the control plane.
    Etcd,
    /// A store that speaks etcd's protocol and keeps its data in SQLite.
    Kine,
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
    /// The control plane's end of konnectivity.
    KonnectivityServer,
    /// Runs on nodes, as a DaemonSet: their end of it.
    KonnectivityAgent,
    /// dnsmasq and the network tools of the shared namespace.
    Network,
    /// What kube-proxy and kube-router are built on.
    Tools,
    /// Root file system of a worker node.
    Node,
    /// A worker node as a virtual machine.
    Vm,
    /// Where the users of a cluster push their images.
    Registry,
    /// hoist in the place of kubevirtci's gocli.
    Gocli,
}

/// What an image is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Every cluster.
    Cluster,
    /// Clusters with nodes in virtual machines.
    VmNodes,
    /// Clusters of kubevirtci.
    Kubevirtci,
    /// Clusters with a registry of their own, those of kubevirtci among them.
    Registry,
    /// Clusters that keep their data with kine.
    Kine,
    /// Other images, as long as they are built.
    Build,
}

/// What an image is built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// Nothing: static binaries only.
    Scratch,
    /// The Debian root file system that `base` provides.
    Base,
    /// Other images of the table, each handed to the recipe as an argument with the name of the image in
    /// capitals.
    Images(&'static [Role]),
}

/// Where the code of a program comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A `tool` of a pinned Go module: its package path, the name `go build` gives it, its place in the
    /// build context.
    Tool { module: GoModule, package: &'static str, built_as: &'static str, path: &'static str },
    /// A Go file of the recipe that needs the standard library only.
    Source { file: RecipeFile, path: &'static str },
    /// The running program itself.
    Own { path: &'static str },
}

/// A pinned Go module. One for nearly everything, so that shared packages are compiled once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GoModule {
    /// The one of the Kubernetes release.
    Release,
    /// crictl's: see the header of its module file.
    Crictl,
    /// konnectivity's: see the header of its module file.
    Konnectivity,
    /// The registry's: see the header of its module file.
    Registry,
    /// kine's: see the header of its module file.
    Kine,
    /// That of etcd's own tools: see the headers of its module files.
    EtcdTools,
}

impl GoModule {
    /// Those whose programs are kept by the version of Kubernetes.
    pub const VERSIONED: [Self; 3] = [Self::Release, Self::Crictl, Self::Konnectivity];

    /// Those whose programs are kept by themselves, whatever the version of Kubernetes.
    pub const ALONE: [Self; 3] = [Self::Registry, Self::Kine, Self::EtcdTools];
}

impl Program {
    /// Place of the binary in the build context.
    pub const fn path(&self) -> &'static str {
        match self {
            Self::Tool { path, .. } | Self::Source { path, .. } | Self::Own { path } => path,
        }
    }

    /// Name of the binary in the build context; no two programs share one.
    pub fn file_name(&self) -> &'static str {
        let path = self.path();
        path.rsplit('/').next().unwrap_or(path)
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
    /// A repository whose tags are the versions of a Go module of the pinned module files.
    Module { repository: &'static str, module: &'static str },
    /// One image, whatever the Kubernetes version.
    Image(&'static str),
}

/// One image.
#[derive(Debug, Clone, Copy)]
pub struct ImageSpec {
    pub role: Role,
    /// Last part of the repository: `localhost/hoist/<name>`.
    pub name: &'static str,
    /// One line for lists and documentation.
    pub summary: &'static str,
    pub need: Need,
    pub parent: Parent,
    /// The build context without its binaries; the first one is the Dockerfile.
    pub files: &'static [RecipeFile],
    pub programs: &'static [Program],
    /// Images that the recipe expects as `images.tar` in its context.
    pub preloads: &'static [Role],
    pub component: Component,
    pub upstream: Upstream,
}

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

    /// Name of the build argument that hands this image to the recipe of another.
    pub(crate) fn argument(self) -> String {
        self.name().to_uppercase().replace('-', "_")
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

    #[test]
    fn references_carry_the_kubernetes_version() {
        assert_eq!(Role::ApiServer.reference("v1.36.3"), "localhost/hoist/kube-apiserver:v1.36.3");
    }
}
