//! What a person or a script gets to see: progress, tables, JSON. Data goes to stdout,
//! everything else to stderr.

pub mod html;
pub mod log;
pub mod output;
mod plain;
pub mod profile;
mod progress;
mod terminal;
mod times;

pub use output::{OutputError, data, table, tell};
pub use profile::Profile;
pub use progress::{Record, Style, follow};
pub use times::{PhaseTime, Times};

/// Whether stderr gets colours.
pub fn colour(no_color: bool) -> bool {
    use std::io::IsTerminal as _;
    !no_color && crate::env::value(crate::env::NO_COLOR).is_none() && std::io::stderr().is_terminal()
}

/// A duration in milliseconds as people read it: seconds with one decimal.
pub fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}

/// A span of seconds in its two largest units as kubectl shows it: `45s`, `3m20s`, `2d5h`.
pub fn span(secs: u64) -> String {
    let units = [(secs / 86_400, 'd'), (secs / 3_600 % 24, 'h'), (secs / 60 % 60, 'm'), (secs % 60, 's')];
    let largest = units.iter().position(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let shown = units.iter().skip(largest).take(2).filter(|(count, _)| *count > 0 || secs == 0);
    shown.map(|(count, unit)| format!("{count}{unit}")).collect()
}
