//! What happened, as plain values: the terminal display, the JSON lines and the profile all read
//! this one stream.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::phases::PhaseId;

/// How a phase ended well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "outcome", content = "detail")]
pub enum Outcome {
    /// It made or changed something.
    Done,
    /// All was as it should be.
    Unchanged,
    /// It was not run, for this reason.
    Skipped(String),
    /// It did what it could; this is what it could not.
    Warned(String),
}

impl Outcome {
    /// `Done` when anything changed, `Unchanged` otherwise.
    pub fn changed(changed: bool) -> Self {
        if changed { Self::Done } else { Self::Unchanged }
    }
}

/// One moment of a run. Times are milliseconds since the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum Event {
    /// First of all: everything that will be tried, in a valid order.
    Plan { phases: Vec<PhaseId> },
    #[serde(rename_all = "camelCase")]
    Started { phase: PhaseId, at_ms: u64 },
    /// Something within a phase worth telling: a container started, a node joined.
    #[serde(rename_all = "camelCase")]
    Step { phase: PhaseId, message: String, at_ms: u64 },
    #[serde(rename_all = "camelCase")]
    Finished {
        phase: PhaseId,
        #[serde(flatten)]
        outcome: Outcome,
        at_ms: u64,
        elapsed_ms: u64,
    },
    #[serde(rename_all = "camelCase")]
    Failed { phase: PhaseId, error: String, at_ms: u64, elapsed_ms: u64 },
    /// A readiness level was reached.
    #[serde(rename_all = "camelCase")]
    Ready { level: String, at_ms: u64 },
    /// A call to the world outside has ended; its times are microseconds, many take less than one
    /// millisecond.
    #[serde(rename_all = "camelCase")]
    Call {
        /// The phase that made it, if one did.
        phase: Option<PhaseId>,
        peer: Peer,
        what: String,
        began_us: u64,
        elapsed_us: u64,
        failed: bool,
    },
}

/// Who was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// The container engine.
    Engine,
    /// The API server.
    Api,
}

/// Milliseconds of a duration, saturating.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Microseconds of a duration, saturating.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
