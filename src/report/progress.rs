//! Follows the events of a run until they end, in one of three styles.

use std::io::IsTerminal as _;

use hoist_phases::events::Event;
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::profile::Profile;
use super::terminal::Terminal;
use super::{Times, output, plain};
use crate::cli::args::Progress;
use crate::{env, run};

/// How events are shown, decided once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Live { colour: bool },
    Plain,
    Json,
}

impl Style {
    /// Live only where somebody watches: on a terminal that can move its cursor.
    pub fn choose(progress: Progress, no_color: bool) -> Self {
        let dumb = env::value("TERM").is_some_and(|term| term == "dumb");
        match progress {
            Progress::Json => Self::Json,
            Progress::Plain => Self::Plain,
            Progress::Auto if std::io::stderr().is_terminal() && !dumb => {
                Self::Live { colour: super::colour(no_color) }
            }
            Progress::Auto => Self::Plain,
        }
    }
}

/// An event with the run that it is of, which its log and exports name too.
#[derive(Serialize)]
struct OfRun<'a> {
    #[serde(flatten)]
    event: &'a Event,
    run: &'static str,
}

/// What a run has told of itself.
#[derive(Debug, Default)]
pub struct Record {
    pub times: Times,
    pub profile: Profile,
}

/// Shows events as they come; ends, with what everything took, when the last sender is gone.
pub fn follow(style: Style, mut events: UnboundedReceiver<Event>) -> JoinHandle<Record> {
    tokio::spawn(async move {
        let mut record = Record::default();
        let mut terminal = match style {
            Style::Live { colour } => Some(Terminal::new(colour)),
            Style::Plain | Style::Json => None,
        };
        while let Some(event) = events.recv().await {
            record.times.note(&event);
            record.profile.note(&event);
            // Hundreds of them, for the profile alone.
            if matches!(event, Event::Call { .. }) {
                continue;
            }
            match (&mut terminal, style) {
                (Some(terminal), _) => terminal.show(&event),
                (None, Style::Json) => {
                    if let Ok(json) = serde_json::to_string(&OfRun { event: &event, run: run::id() }) {
                        output::tell(json);
                    }
                }
                (None, _) => plain::show(&event),
            }
        }
        if let Some(mut terminal) = terminal {
            terminal.close();
        }
        record
    })
}
