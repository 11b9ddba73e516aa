//! The phases of a bootstrap. Each module holds a pure function from what is known to what should
//! be, and a small part that observes, applies and verifies it.

pub mod addon;
pub mod apply;
pub mod bootstrap_config;
pub mod bootstrap_rbac;
pub mod certs;
pub mod cni;
pub mod coredns;
pub mod kube_proxy;
pub mod kubeconfig;
mod outputs;
pub mod token;

use std::sync::Arc;

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
    Etcd = "etcd",
    ControlPlane = "control-plane",
    Machines = "machines",
    BootstrapRbac = "bootstrap-rbac",
    BootstrapConfig = "bootstrap-config",
    KubeProxy = "kube-proxy",
    Cni = "cni",
    CoreDns = "coredns",
    Nodes = "nodes",
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
}

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
pub static PHASES: &[Phase] = &[];
