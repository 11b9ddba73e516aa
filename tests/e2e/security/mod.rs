//! docs/security.md against a running cluster.

mod anonymous;
mod containers;
mod document;
mod ports;

pub(crate) use ports::ports_are_as_told;
