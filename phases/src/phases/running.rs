//! Whether what a run has brought up stays up, for as long as the run lasts: a phase watches what it
//! waits for, but a component can also end while others are waited for, or over a flag that no phase
//! asks about.

use std::time::Duration;

use crate::engine::{PhaseError, PhaseFailure};
use crate::phases::containers::{ContainerError, Watch, component_name};
use crate::phases::{Context, PhaseId, control_plane};
use crate::spec::{ClusterSpec, Component, Owner, Reach};

/// Between two looks. Nothing waits for them while all is well, and each costs the engine a little.
const INTERVAL: Duration = Duration::from_millis(200);

/// The phases that make components.
const MAKERS: [PhaseId; 5] =
    [PhaseId::Network, PhaseId::Etcd, PhaseId::ControlPlane, PhaseId::Konnectivity, PhaseId::Steward];

/// The components that a phase leaves running.
fn made_by(phase: PhaseId, spec: &ClusterSpec) -> Vec<Component> {
    match phase {
        PhaseId::Network if spec.owner == Owner::Own => vec![Component::Owner, Component::Dnsmasq],
        PhaseId::Etcd => spec.etcd.backend.component().into_iter().collect(),
        PhaseId::ControlPlane => control_plane::COMPONENTS.to_vec(),
        PhaseId::Konnectivity if spec.reach == Reach::Konnectivity => vec![Component::Konnectivity],
        PhaseId::Steward => vec![Component::Steward],
        _ => Vec::new(),
    }
}

/// Ends when a component of a phase that is through has ended for good, and says which and why. Until
/// then it goes on, whatever becomes of the phases.
pub async fn watch(cx: &Context) -> PhaseFailure {
    let seen = cx.ports.runtime.list(Some(cx.spec.name.as_str())).await;
    let watch = seen.map_or_else(|_| Watch::default(), |seen| Watch::after(&seen)).reviving(&cx.spec);
    // Podman calls a container ended until it has started it again.
    let mut suspect = None;
    loop {
        let failed = look(cx, &watch).await;
        match failed {
            Some((phase, component, error)) if lasts(&error) || suspect == Some(component) => {
                return PhaseFailure { phase, source: error };
            }
            failed => suspect = failed.map(|(_, component, _)| component),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Whether one look is enough.
fn lasts(error: &PhaseError) -> bool {
    matches!(error.downcast_ref(), Some(ContainerError::KeepsEnding { .. }))
}

/// The first component that has ended for good. An engine that doesn't answer is the business of those
/// who wait for something of it.
async fn look(cx: &Context, watch: &Watch) -> Option<(PhaseId, Component, PhaseError)> {
    for phase in MAKERS.into_iter().filter(|phase| cx.outputs.finished.has(*phase)) {
        for component in made_by(phase, &cx.spec) {
            match watch.check(&cx.ports.runtime, &component_name(&cx.spec, component)).await {
                Ok(()) | Err(ContainerError::Runtime(_)) => {}
                Err(error) => return Some((phase, component, error.into())),
            }
        }
    }
    None
}
