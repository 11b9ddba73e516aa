//! The phases of a bootstrap. Each module holds a pure function from what is known to what should
//! be, and a small part that observes, applies and verifies it.

pub mod addon;
pub mod addons;
pub mod apply;
pub mod bootstrap_config;
pub mod bootstrap_rbac;
pub mod certs;
pub mod cni;
pub mod containers;
pub mod control_plane;
pub mod coredns;
pub mod credentials;
pub mod etcd;
pub mod flags;
pub mod health;
pub mod images;
pub mod konnectivity;
pub mod kube_proxy;
pub mod kubeconfig;
pub mod machines;
pub mod network;
pub mod nodes;
mod outputs;
pub mod placement;
mod policies;
mod postmortem;
pub mod preflight;
mod preload;
pub mod preview;
mod registry;
pub mod running;
mod skew;
pub mod steward;
pub mod token;
pub mod unsettled;
pub mod upgrade;
pub mod wait;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::engine::{Events, PhaseError};
use crate::events::Outcome;
use crate::ports::Ports;
use crate::spec::ClusterSpec;

pub use outputs::{MissingOutput, NetworkFacts, Outputs, Slot};

macro_rules! phase_ids {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// Names a phase on the command line, in events and docs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum PhaseId { $(#[serde(rename = $name)] $variant),+ }

        impl PhaseId {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

phase_ids! {
    Preflight = "preflight",
    Network = "network",
    Certs = "certs",
    Kubeconfig = "kubeconfig",
    Upgrade = "upgrade",
    Etcd = "etcd",
    ControlPlane = "control-plane",
    Machines = "machines",
    BootstrapRbac = "bootstrap-rbac",
    BootstrapConfig = "bootstrap-config",
    Placement = "placement",
    KubeProxy = "kube-proxy",
    Cni = "cni",
    CoreDns = "coredns",
    Konnectivity = "konnectivity",
    Registry = "registry",
    Steward = "steward",
    Nodes = "nodes",
    Addons = "addons",
}

impl std::fmt::Display for PhaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What a phase works with.
#[derive(Debug, Clone)]
pub struct Context {
    pub spec: Arc<ClusterSpec>,
    pub ports: Ports,
    pub outputs: Arc<Outputs>,
    pub events: Events,
    /// For everything together, from the beginning that [`Events`] counts from.
    pub timeout: Duration,
}

impl Context {
    /// What is left of the run's time for a wait that tells more by its own end than the run's would.
    pub fn time_left(&self) -> Duration {
        self.timeout.saturating_sub(Duration::from_millis(self.events.now_ms()) + LAST_WORDS)
    }
}

/// Time to find out why a wait ran out, before the run's time does.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// One step of the bootstrap.
#[derive(Clone, Copy)]
pub struct Phase {
    pub id: PhaseId,
    /// Phases whose end this one waits for.
    pub after: &'static [PhaseId],
    /// One line for help and docs: what it makes true.
    pub summary: &'static str,
    pub run: for<'a> fn(&'a Context) -> BoxFuture<'a, Result<Outcome, PhaseError>>,
}

impl std::fmt::Debug for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Phase({})", self.id)
    }
}

/// All phases: subcommands, `--skip-phase`, the plan, docs and the progress display derive from this.
///
/// Objects of the API are posted the moment the API server serves, the addons in one burst with
/// the rest: nothing but a joining node needs them in a certain order. Machines boot while the
/// control plane starts.
pub static PHASES: &[Phase] = &[
    Phase {
        id: PhaseId::Preflight,
        after: &[],
        summary: "the engine answers, images are there, address ranges and ports are free",
        run: preflight::run,
    },
    Phase {
        id: PhaseId::Network,
        after: &[PhaseId::Preflight],
        summary: "the shared namespace with bridge, DHCP, DNS, NAT and the published API port",
        run: network::run,
    },
    Phase {
        id: PhaseId::Certs,
        after: &[PhaseId::Preflight],
        summary: "authorities, certificates and keys",
        run: certs::run,
    },
    Phase {
        id: PhaseId::Kubeconfig,
        after: &[PhaseId::Network, PhaseId::Certs],
        summary: "kubeconfig files of the administrator and the components",
        run: kubeconfig::run,
    },
    Phase {
        id: PhaseId::Upgrade,
        after: &[PhaseId::Network, PhaseId::Kubeconfig],
        summary: "components of another version replaced one after the other, each well before the next",
        run: upgrade::run,
    },
    Phase {
        id: PhaseId::Etcd,
        after: &[PhaseId::Network, PhaseId::Certs, PhaseId::Upgrade],
        summary: "etcd, a single member with TLS; or kine, or an etcd elsewhere that answers",
        run: etcd::run,
    },
    Phase {
        id: PhaseId::ControlPlane,
        after: &[PhaseId::Network, PhaseId::Kubeconfig, PhaseId::Upgrade],
        summary: "kube-apiserver, kube-controller-manager and kube-scheduler",
        run: control_plane::run,
    },
    Phase {
        id: PhaseId::Machines,
        after: &[PhaseId::Network],
        summary: "the nodes' machines, booted and on the bridge",
        run: machines::run,
    },
    Phase {
        id: PhaseId::BootstrapRbac,
        after: &[PhaseId::ControlPlane],
        summary: "bootstrap token and the roles that joining nodes need",
        run: bootstrap_rbac::run,
    },
    Phase {
        id: PhaseId::BootstrapConfig,
        after: &[PhaseId::ControlPlane],
        summary: "cluster-info with its signature, kubeadm-config, kubelet-config",
        run: bootstrap_config::run,
    },
    Phase {
        id: PhaseId::Placement,
        after: &[PhaseId::ControlPlane],
        summary: "what Deployments of named namespaces get when they state no placement",
        run: placement::run,
    },
    Phase {
        id: PhaseId::KubeProxy,
        after: &[PhaseId::ControlPlane],
        summary: "kube-proxy on every node",
        run: kube_proxy::run,
    },
    Phase { id: PhaseId::Cni, after: &[PhaseId::ControlPlane], summary: "the pod network", run: cni::run },
    Phase {
        id: PhaseId::CoreDns,
        after: &[PhaseId::ControlPlane],
        summary: "the cluster's DNS, two replicas",
        run: coredns::run,
    },
    Phase {
        id: PhaseId::Konnectivity,
        after: &[PhaseId::ControlPlane],
        summary: "konnectivity's server and its agents on every node, where that is the reach",
        run: konnectivity::run,
    },
    Phase {
        id: PhaseId::Registry,
        after: &[PhaseId::ControlPlane],
        summary: "a registry whose images nodes pull, where one is asked for",
        run: registry::run,
    },
    Phase {
        id: PhaseId::Steward,
        after: &[PhaseId::ControlPlane],
        summary: "the keeper of routes to pods, roles of nodes and the spreading of replicas",
        run: steward::run,
    },
    Phase {
        id: PhaseId::Nodes,
        after: &[PhaseId::Machines, PhaseId::BootstrapRbac, PhaseId::BootstrapConfig],
        summary: "the machines joined by kubeadm join",
        run: nodes::run,
    },
    Phase {
        id: PhaseId::Addons,
        after: &[PhaseId::Cni, PhaseId::Placement, PhaseId::Registry, PhaseId::Nodes],
        summary: "the manifests of the configuration, in order, each ready before the next",
        run: addons::run,
    },
];
