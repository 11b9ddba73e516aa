//! Integration tests in one binary: the command line and the adapters, over fakes. No engine is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on must fail loudly"
)]

mod pki;
