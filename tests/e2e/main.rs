//! End-to-end tests in one binary: a real engine, real Kubernetes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on must fail loudly"
)]

mod runtime;
mod runtime_files;
