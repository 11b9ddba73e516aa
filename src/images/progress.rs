//! What a caller sees of work that takes minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// One line of progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is worked on: the name of an image, `base` or `programs`.
    pub subject: String,
    /// What is done to it now.
    pub step: String,
    /// Time since the work on all images began.
    pub elapsed: Duration,
    pub kind: ProgressKind,
}

/// What a line of progress means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressKind {
    Step,
    /// The subject is ready.
    Done,
    /// Something the user should know, which is no error.
    Warning,
}

/// Receiver of progress. The work may move between threads.
pub type Listener<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// Stamps lines with the elapsed time.
#[derive(Clone, Copy)]
pub(crate) struct Reporter<'a> {
    listener: Listener<'a>,
    started: Instant,
}

impl std::fmt::Debug for Reporter<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reporter").field("started", &self.started).finish_non_exhaustive()
    }
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(listener: Listener<'a>) -> Self {
        Self { listener, started: Instant::now() }
    }

    pub(crate) fn step(&self, subject: &str, step: impl Into<String>) {
        self.send(subject, step.into(), ProgressKind::Step);
    }

    pub(crate) fn done(&self, subject: &str, step: impl Into<String>) {
        self.send(subject, step.into(), ProgressKind::Done);
    }

    pub(crate) fn warn(&self, subject: &str, step: impl Into<String>) {
        self.send(subject, step.into(), ProgressKind::Warning);
    }

    fn send(&self, subject: &str, step: String, kind: ProgressKind) {
        (self.listener)(Progress {
            subject: subject.to_owned(),
            step,
            elapsed: self.started.elapsed(),
            kind,
        });
    }
}

/// The last lines of a log: what an error shows of it.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    const LINES: usize = 30;

    pub(crate) fn push(&mut self, text: &str) {
        for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            if self.0.len() == Self::LINES {
                self.0.pop_front();
            }
            self.0.push_back(line.to_owned());
        }
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_last_lines() {
        let mut tail = Tail::default();
        for number in 0..100 {
            tail.push(&format!("line {number}\n\n"));
        }
        let text = tail.text();
        assert_eq!(text.lines().count(), Tail::LINES);
        assert!(text.starts_with("line 70\n") && text.ends_with("line 99"), "{text}");
    }
}
