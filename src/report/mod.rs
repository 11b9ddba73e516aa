//! What a person or a script gets to see: progress, tables, JSON. Data goes to stdout,
//! everything else to stderr.

pub mod html;
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
