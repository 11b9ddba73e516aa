//! Exit codes, and the one place where errors are mapped to them. docs/exit-codes.md is written
//! from [`CODES`].

use std::error::Error;
use std::process::ExitCode;

use hoist_phases::engine::PhaseFailure;
use hoist_phases::ports::RuntimeError;

/// An exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u8);

pub const OK: Code = Code(0);
pub const GENERAL: Code = Code(1);
pub const USAGE: Code = Code(2);
pub const ENGINE: Code = Code(3);
pub const IMAGES: Code = Code(4);
pub const PHASE: Code = Code(5);
pub const NOT_READY: Code = Code(6);
pub const NO_CLUSTER: Code = Code(7);
pub const CONFLICT: Code = Code(8);
/// As a shell reports a child that SIGINT ended: 128 + 2.
pub const INTERRUPTED: Code = Code(130);

/// Every code with its meaning.
pub const CODES: &[(Code, &str)] = &[
    (OK, "done"),
    (GENERAL, "an error that has no code of its own"),
    (USAGE, "wrong arguments or a wrong configuration file; nothing was started"),
    (ENGINE, "no container engine answers, or it may not be used"),
    (IMAGES, "images are missing and could not be had"),
    (PHASE, "a phase of the bootstrap failed"),
    (NOT_READY, "the cluster was not ready within the deadline"),
    (NO_CLUSTER, "there is no cluster of that name"),
    (CONFLICT, "a cluster of that name exists with other settings, or another hoist is working on it"),
    (INTERRUPTED, "interrupted by SIGINT or SIGTERM; what the run had made was removed"),
];

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// The code for an error: that of the outermost error in the chain that has one.
pub fn code(error: &(dyn Error + 'static)) -> Code {
    crate::error::chain(error).find_map(of_one).unwrap_or(GENERAL)
}

fn of_one(error: &(dyn Error + 'static)) -> Option<Code> {
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return match error {
            RuntimeError::Unreachable { .. } | RuntimeError::Denied { .. } => Some(ENGINE),
            RuntimeError::ImageMissing(_) => Some(IMAGES),
            RuntimeError::Failed { .. } => None,
        };
    }
    error.downcast_ref::<PhaseFailure>().map(|failure| {
        // Preflight changes nothing: what it finds has codes of its own.
        let inner = crate::error::chain(failure.source.as_ref()).find_map(of_one);
        inner.filter(|code| [ENGINE, IMAGES].contains(code)).unwrap_or(PHASE)
    })
}
