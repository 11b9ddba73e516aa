//! How much has to answer before `up` returns.

use hoist_phases::phases::PhaseId;
use hoist_phases::spec::{ClusterSpec, Cni};

use super::problem::{Problem, Problems};
use crate::cluster::ready::Level;

/// The level asked for, or the highest that this cluster reaches by itself.
pub(super) fn level(text: Option<String>, spec: &ClusterSpec, problems: &mut Problems) -> Level {
    let skips = |phases: &[PhaseId]| phases.iter().any(|phase| spec.skip_phases.contains(phase));
    let highest = match () {
        () if spec.nodes.is_empty() || spec.cni == Cni::None => Level::Api,
        () if skips(&[PhaseId::Machines, PhaseId::Nodes, PhaseId::Cni]) => Level::Api,
        () if skips(&[PhaseId::CoreDns]) => Level::Nodes,
        () => Level::Dns,
    };
    let Some(text) = text else { return highest };
    match text.parse::<Level>() {
        Err(_) => {
            let names = Level::ALL.map(|level| level.to_string()).join(", ");
            problems.push(Problem::new(
                "wait",
                format_args!("{text:?}"),
                format_args!("must be one of {names}"),
            ));
        }
        Ok(level) => match barred(level, spec) {
            Some(rule) => problems.push(Problem::new("wait", level, rule)),
            None => return level,
        },
    }
    highest
}

/// Later somebody may install a CNI: only `up`, which doesn't, never sees the end of it.
fn barred(level: Level, spec: &ClusterSpec) -> Option<&'static str> {
    let without_cni = level >= Level::Nodes && spec.cni == Cni::None && !spec.nodes.is_empty();
    let rule = "without a CNI no node gets Ready until you install one; use api";
    without_cni.then_some(rule).or_else(|| level.barred(spec))
}
