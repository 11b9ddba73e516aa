//! How long everything took, gathered from the events.

use hoist_phases::events::{Event, Outcome};
use hoist_phases::phases::PhaseId;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTime {
    pub phase: PhaseId,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub elapsed_ms: u64,
    /// Moment of its end, since the run began.
    pub at_ms: u64,
}

/// What a run took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    pub phases: Vec<PhaseTime>,
    /// Readiness levels and the moment each was reached, in milliseconds.
    pub levels: Vec<(String, u64)>,
    /// Phases that have begun and not ended.
    #[serde(skip)]
    pub running: Vec<PhaseId>,
}

impl Times {
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Started { phase, .. } => self.running.push(*phase),
            Event::Finished { phase, .. } | Event::Failed { phase, .. } => {
                self.running.retain(|id| id != phase)
            }
            Event::Plan { .. } | Event::Step { .. } | Event::Ready { .. } | Event::Call { .. } => {}
        }
        match event {
            Event::Finished { phase, outcome, at_ms, elapsed_ms } => self.phases.push(PhaseTime {
                phase: *phase,
                outcome: outcome.clone(),
                elapsed_ms: *elapsed_ms,
                at_ms: *at_ms,
            }),
            Event::Ready { level, at_ms } => self.levels.push((level.clone(), *at_ms)),
            Event::Plan { .. }
            | Event::Started { .. }
            | Event::Step { .. }
            | Event::Failed { .. }
            | Event::Call { .. } => {}
        }
    }

    /// Whether any phase made or changed something.
    pub fn changed(&self) -> bool {
        self.phases.iter().any(|time| matches!(time.outcome, Outcome::Done | Outcome::Warned(_)))
    }
}
