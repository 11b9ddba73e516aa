//! What phases hand to those after them: one typed slot each, written once.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::phases::PhaseId;
use crate::pki::{Kubeconfigs, Pki};
use crate::ports::{EngineInfo, KubeApi};

/// Written once by one phase, read by those after it.
#[derive(Debug)]
pub struct Slot<T> {
    phase: PhaseId,
    value: OnceLock<T>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("needs what phase {0} makes, which has not run")]
pub struct MissingOutput(pub PhaseId);

impl<T> Slot<T> {
    const fn of(phase: PhaseId) -> Self {
        Self { phase, value: OnceLock::new() }
    }

    /// The first value stays: a phase runs once.
    pub fn set(&self, value: T) {
        let _ = self.value.set(value);
    }

    /// # Errors
    /// When the phase that writes it hasn't run, for example because it was skipped.
    pub fn get(&self) -> Result<&T, MissingOutput> {
        self.value.get().ok_or(MissingOutput(self.phase))
    }
}

/// What is known of the shared namespace once it is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFacts {
    /// Where the engine published the API port on the host.
    pub api: SocketAddr,
    /// Where it published the cluster's registry, when there is one.
    pub registry: Option<SocketAddr>,
    /// MTU of the engine's network in bytes; br0, DHCP and the CNI follow it.
    pub mtu: u32,
    /// Hard limit of open files in a container of this engine.
    pub nofile: u64,
}

/// The phases that are through.
#[derive(Debug, Default)]
pub struct Finished(Mutex<BTreeSet<PhaseId>>);

impl Finished {
    pub(crate) fn add(&self, phase: PhaseId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(phase);
    }

    /// Whether a phase has run to its end, without being left out.
    pub fn has(&self, phase: PhaseId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&phase)
    }
}

pub struct Outputs {
    /// Written by the engine.
    pub finished: Finished,
    pub engine: Slot<EngineInfo>,
    pub network: Slot<NetworkFacts>,
    pub pki: Slot<Pki>,
    pub kubeconfigs: Slot<Kubeconfigs>,
    /// Set once etcd's container is as it should be; before that it may be away to be made anew.
    pub etcd: Slot<()>,
    pub api: Slot<Arc<dyn KubeApi>>,
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outputs")
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self {
            finished: Finished::default(),
            engine: Slot::of(PhaseId::Preflight),
            network: Slot::of(PhaseId::Network),
            pki: Slot::of(PhaseId::Certs),
            kubeconfigs: Slot::of(PhaseId::Kubeconfig),
            etcd: Slot::of(PhaseId::Etcd),
            api: Slot::of(PhaseId::ControlPlane),
        }
    }
}
