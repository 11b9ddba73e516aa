//! Fakes of the ports, shared by the tests.

pub(crate) mod fake_runtime;
