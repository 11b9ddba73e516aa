//! Everything of hoist that touches the outside world: the command line, the container engine,
//! the Kubernetes API, files. What should be true, and in what order, is `hoist_phases`.

pub mod cli;
pub mod cluster;
pub mod config;
mod digest;
pub mod env;
pub mod error;
pub mod exit;
#[cfg(feature = "faults")]
mod faults;
mod fetch;
pub mod files;
pub mod host;
pub mod images;
pub mod kubeconfig;
pub mod kubevirtci;
pub mod nodes;
mod pieces;
pub mod report;
pub mod run;
pub mod runtime;
pub mod steward;
pub mod store;
