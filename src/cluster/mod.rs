//! A cluster as a whole: its Kubernetes API, whether it is ready, how it fares, how it goes away.
//!
//! Making one is the work of `hoist_phases`; this module looks at what is there.

pub mod doctor;
pub mod down;
pub mod export;
pub mod identity;
pub mod kube;
pub mod pause;
pub mod ready;
pub mod rollout;
pub(crate) mod selector;
pub mod snapshot;
pub mod status;
pub mod trust;
pub mod usage;
