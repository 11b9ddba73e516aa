//! Live progress: one line for each phase under way, which becomes its result.

use std::collections::BTreeMap;
use std::time::Duration;

use hoist_phases::events::{Event, Outcome};
use hoist_phases::phases::PhaseId;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{plain, seconds};

/// Redraw interval of the spinners.
const TICK: Duration = Duration::from_millis(100);

pub(super) struct Terminal {
    lines: MultiProgress,
    running: BTreeMap<PhaseId, ProgressBar>,
    colour: bool,
}

impl Terminal {
    pub(super) fn new(colour: bool) -> Self {
        Self { lines: MultiProgress::new(), running: BTreeMap::new(), colour }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Plan { .. } | Event::Call { .. } => {}
            Event::Started { phase, .. } => {
                let bar = self.lines.add(ProgressBar::new_spinner());
                if let Ok(style) =
                    ProgressStyle::with_template("{spinner} {prefix:16} {elapsed:>4} {wide_msg}")
                {
                    bar.set_style(style);
                }
                bar.set_prefix(phase.name());
                bar.enable_steady_tick(TICK);
                self.running.insert(*phase, bar);
            }
            Event::Step { phase, message, .. } => {
                if let Some(bar) = self.running.get(phase) {
                    bar.set_message(message.clone());
                }
            }
            Event::Finished { phase, outcome, elapsed_ms, .. } => {
                let (mark, code) = match outcome {
                    Outcome::Done => ("✓", "32"),
                    Outcome::Unchanged => ("=", "2"),
                    Outcome::Skipped(_) => ("-", "2"),
                    Outcome::Warned(_) => ("!", "33"),
                };
                let word = plain::word(outcome);
                let (time, detail) = (seconds(*elapsed_ms), plain::detail(outcome));
                let mark = self.paint(mark, code);
                self.end(*phase, &format!("{mark} {phase:<16}  {word:<9}  {time:>7}{detail}"));
            }
            Event::Failed { phase, elapsed_ms, .. } => {
                // The error itself follows once, with its causes, when everything has stopped.
                let mark = self.paint("✗", "31");
                self.end(
                    *phase,
                    &format!("{mark} {phase:<16}  {:<9}  {:>7}", "failed", seconds(*elapsed_ms)),
                );
            }
            Event::Ready { level, at_ms } => {
                let mark = self.paint("✓", "32");
                let _ = self.lines.println(format!(
                    "{mark} {:<16}  {:<9}  {:>7}",
                    plain::level_name(level),
                    "reached",
                    seconds(*at_ms)
                ));
            }
        }
    }

    /// Takes away the lines of phases that never ended.
    pub(super) fn close(&mut self) {
        for bar in std::mem::take(&mut self.running).into_values() {
            bar.finish_and_clear();
        }
    }

    fn end(&mut self, phase: PhaseId, line: &str) {
        if let Some(bar) = self.running.remove(&phase) {
            bar.finish_and_clear();
        }
        let _ = self.lines.println(line);
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
