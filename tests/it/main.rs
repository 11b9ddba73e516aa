//! Integration tests in one binary: the command line and the adapters, over fakes. No engine is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can't go on must fail loudly"
)]

mod cases;
mod cli;
mod config;
mod down;
mod drain;
mod export;
mod fake_engine;
mod fuzz;
mod kubeconfig;
mod machines;
mod pause;
mod pki;
mod plan;
mod runtime;
mod runtime_connect;
mod snapshot;
mod status;
mod store;
mod support;
mod tokens;
mod upgrade;
