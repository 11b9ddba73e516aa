//! One line a phase, for logs and pipes.

use hoist_phases::events::{Event, Outcome};

use super::{output, seconds};

/// The line that an event is worth, if any.
pub(super) fn line(event: &Event) -> Option<String> {
    match event {
        Event::Finished { phase, outcome, elapsed_ms, .. } => {
            Some(format!("{phase:<16}  {:<9}  {:>7}{}", word(outcome), seconds(*elapsed_ms), detail(outcome)))
        }
        // The whole error follows once, when everything has stopped.
        Event::Failed { phase, error, elapsed_ms, .. } => {
            let first = error.lines().next().unwrap_or_default();
            Some(format!("{phase:<16}  {:<9}  {:>7}  {first}", "failed", seconds(*elapsed_ms)))
        }
        Event::Ready { level, at_ms } => {
            Some(format!("{:<16}  {:<9}  {:>7}", level_name(level), "reached", seconds(*at_ms)))
        }
        Event::Plan { .. } | Event::Started { .. } | Event::Step { .. } | Event::Call { .. } => None,
    }
}

pub(super) fn show(event: &Event) {
    if let Some(line) = line(event) {
        output::tell(line);
    }
}

/// A level told apart from the phase of the same name.
pub(super) fn level_name(level: &str) -> String {
    format!("level {level}")
}

pub(super) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Unchanged => "unchanged",
        Outcome::Skipped(_) => "skipped",
        Outcome::Warned(_) => "warned",
    }
}

pub(super) fn detail(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done | Outcome::Unchanged => String::new(),
        Outcome::Skipped(text) | Outcome::Warned(text) => format!("  {text}"),
    }
}

#[cfg(test)]
mod tests {
    use hoist_phases::phases::PhaseId;

    use super::*;

    #[test]
    fn one_line_a_phase() {
        let finished =
            |outcome| Event::Finished { phase: PhaseId::Etcd, outcome, at_ms: 2000, elapsed_ms: 1250 };
        assert_eq!(line(&finished(Outcome::Done)).as_deref(), Some("etcd              done         1.2 s"));
        let warned = line(&finished(Outcome::Warned("no swap accounting".to_owned())));
        assert_eq!(warned.as_deref(), Some("etcd              warned       1.2 s  no swap accounting"));
        assert_eq!(line(&Event::Started { phase: PhaseId::Etcd, at_ms: 0 }), None);
    }
}
