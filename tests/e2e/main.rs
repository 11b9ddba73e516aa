//! End-to-end tests in one binary: a real engine, real Kubernetes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can't go on must fail loudly"
)]

mod access;
mod attach;
mod bad_input;
mod choices;
mod configured;
mod containment;
mod datastore;
mod dead_nodes;
mod doctor;
mod engine_smoke;
mod export;
mod external;
mod families;
#[cfg(feature = "faults")]
mod faults;
mod interrupted;
mod joins;
mod kubeadm_parity;
mod kubevirtci;
mod kubevirtci_more;
mod lifecycle;
mod network;
mod node_images;
mod outlive;
mod parallel;
mod placement_policy;
mod ports;
mod reach;
mod registry;
mod remote_engine;
mod runtime;
mod runtime_files;
mod security;
mod steward;
mod support;
mod upgrade;
mod versions;
mod vm;
mod vm_more;
