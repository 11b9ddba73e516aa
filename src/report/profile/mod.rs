//! Where the time of a run went: phases, calls to engine and API server, readiness levels, and the
//! chain of them that decided when it was over. Written as JSON in Chrome's trace format and as one
//! page that needs nothing else.

mod chrome;
mod page;
mod path;

use std::path::{Path, PathBuf};

use hoist_phases::events::{Event, Peer};
use hoist_phases::phases::PhaseId;

use crate::files::{self, FileError};

pub use path::Segment;

/// A stretch of time, in microseconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub begin: u64,
    pub end: u64,
}

impl Span {
    fn length(self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSpan {
    pub phase: PhaseId,
    pub span: Span,
    /// How it ended, in a word.
    pub outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub phase: Option<PhaseId>,
    pub peer: Peer,
    pub what: String,
    pub span: Span,
    pub failed: bool,
}

/// Something that happened within a phase, or a level that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub phase: Option<PhaseId>,
    pub what: String,
    pub at: u64,
}

/// What a run has told, gathered from its events.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    pub phases: Vec<PhaseSpan>,
    pub calls: Vec<Call>,
    pub steps: Vec<Moment>,
    pub levels: Vec<Moment>,
    begun: Vec<(PhaseId, u64)>,
}

impl Profile {
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Plan { .. } => {}
            Event::Started { phase, at_ms } => self.begun.push((*phase, at_ms * 1000)),
            Event::Finished { phase, outcome, at_ms, .. } => {
                self.ended(*phase, *at_ms, super::plain::word(outcome));
            }
            Event::Failed { phase, at_ms, .. } => self.ended(*phase, *at_ms, "failed"),
            Event::Step { phase, message, at_ms } => {
                self.steps.push(Moment { phase: Some(*phase), what: message.clone(), at: at_ms * 1000 });
            }
            Event::Ready { level, at_ms } => {
                self.levels.push(Moment { phase: None, what: level.clone(), at: at_ms * 1000 });
            }
            Event::Call { phase, peer, what, began_us, elapsed_us, failed } => self.calls.push(Call {
                phase: *phase,
                peer: *peer,
                what: what.clone(),
                span: Span { begin: *began_us, end: began_us + elapsed_us },
                failed: *failed,
            }),
        }
    }

    fn ended(&mut self, phase: PhaseId, at_ms: u64, outcome: &'static str) {
        let end = at_ms * 1000;
        let at = self.begun.iter().position(|(id, _)| *id == phase);
        let begin = at.map_or(end, |at| self.begun.swap_remove(at).1);
        self.phases.push(PhaseSpan { phase, span: Span { begin, end }, outcome });
    }

    /// When the last thing ended.
    pub fn end(&self) -> u64 {
        let spans = self.phases.iter().map(|p| p.span.end).chain(self.calls.iter().map(|c| c.span.end));
        spans.chain(self.levels.iter().map(|level| level.at)).max().unwrap_or_default()
    }

    /// The chain that decided when the run was over, from its beginning on.
    pub fn critical_path(&self) -> Vec<Segment> {
        path::of(self)
    }

    /// Writes `path` in Chrome's trace format, and the page beside it; gives where that is.
    ///
    /// # Errors
    /// When one of them can't be written.
    pub fn write(&self, path: &Path, title: &str) -> Result<PathBuf, FileError> {
        let page = path.with_extension("html");
        files::write(path, chrome::trace(self, title).to_string().as_bytes(), MODE)?;
        files::write(&page, page::html(self, title).as_bytes(), MODE)?;
        Ok(page)
    }
}

/// Nothing secret is in it, yet it is the user's.
const MODE: u32 = 0o600;

#[cfg(test)]
mod tests;
