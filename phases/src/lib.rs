//! What must be true for a Kubernetes control plane that nodes can join, and in what order.
//!
//! This crate is pure: it opens no socket and starts no process. The outside world comes in
//! through the traits of [`ports`]; everything else is values: a [`spec::ClusterSpec`] becomes a
//! plan of [`phases`], which the [`engine`] runs as a graph and reports as [`events`].

mod causes;
pub mod engine;
pub mod events;
pub mod jws;
pub mod manifest;
pub mod object;
pub mod phases;
pub mod pki;
pub mod ports;
pub mod spec;

pub use causes::causes;
