//! Exit codes, and the one place where errors are mapped to them. docs/exit-codes.md is written
//! from [`CODES`].

use std::error::Error;
use std::process::ExitCode;

use hoist_phases::engine::PhaseFailure;
use hoist_phases::phases::preflight::{PreflightError, Problem};
use hoist_phases::ports::RuntimeError;
use hoist_phases::spec::VersionError;

use crate::cli::is_wrong_file;
use crate::cli::{
    ApplyCommandError, CertsDue, ChecksFailed, FileIsThere, Interrupted, LogsError, MachineError,
    NodeCommandError, NotReady, NotWell, OthersNodes, Partial, SessionError, UnknownImage, UpError,
    UpgradeCommandError,
};
use crate::cluster::export::ExportError;
use crate::cluster::snapshot::SnapshotError;
use crate::config::{ConfigError, Conflict, Invalid};
use crate::error::chain;
use crate::images::ImageError;
use crate::kubevirtci;
use crate::nodes::tokens::TokensError;
use crate::runtime::ConnectError;
use crate::store::StateError;

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
pub const NOT_WELL: Code = Code(9);
pub const PARTIAL: Code = Code(10);
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
    (NOT_READY, "the cluster, or what `hoist wait` was asked for, was not ready within the deadline"),
    (NO_CLUSTER, "there is no cluster of that name"),
    (
        CONFLICT,
        "a cluster of that name exists with other settings, has an upgrade that has not ended or nodes of others, or \
         another hoist is working on it",
    ),
    (
        NOT_WELL,
        "`hoist status` or `hoist certs check` found something wrong, or a check of `hoist doctor` failed",
    ),
    (PARTIAL, "`hoist export` could not have everything; what it could is in the directory"),
    (
        INTERRUPTED,
        "interrupted by SIGINT or SIGTERM; what `up` had made was removed, what was under way of an upgrade or of other \
         CAs is gone on with by the same command",
    ),
];

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// The code for an error: that of the outermost error in the chain that has one.
pub fn code(error: &(dyn Error + 'static)) -> Code {
    chain(error).find_map(of_one).unwrap_or(GENERAL)
}

fn of_one(error: &(dyn Error + 'static)) -> Option<Code> {
    if error.is::<ConfigError>()
        || error.is::<Invalid>()
        || error.is::<UnknownImage>()
        || error.is::<FileIsThere>()
        || error.is::<VersionError>()
    {
        return Some(USAGE);
    }
    if let Some(error) = error.downcast_ref::<NodeCommandError>() {
        return (!matches!(error, NodeCommandError::Ca)).then_some(USAGE);
    }
    if let Some(error) = error.downcast_ref::<SnapshotError>() {
        return is_wrong_file(error).then_some(USAGE);
    }
    if let Some(LogsError::Unknown { .. }) = error.downcast_ref() {
        return Some(USAGE);
    }
    if error.is::<NotWell>() || error.is::<CertsDue>() || error.is::<ChecksFailed>() {
        return Some(NOT_WELL);
    }
    if let Some(TokensError::Malformed | TokensError::Unknown { .. }) = error.downcast_ref() {
        return Some(USAGE);
    }
    if error.is::<Partial>() {
        return Some(PARTIAL);
    }
    if let Some(ExportError::Occupied(_) | ExportError::NoDirectory(_)) = error.downcast_ref() {
        return Some(USAGE);
    }
    if error.is::<NotReady>() {
        return Some(NOT_READY);
    }
    if let Some(ApplyCommandError::Read { .. } | ApplyCommandError::Manifest(_)) = error.downcast_ref() {
        return Some(USAGE);
    }
    if error.is::<ConnectError>() {
        return Some(ENGINE);
    }
    if error.is::<OthersNodes>() {
        return Some(CONFLICT);
    }
    if error.is::<Conflict>() || matches!(error.downcast_ref(), Some(StateError::Busy { .. })) {
        return Some(CONFLICT);
    }
    match error.downcast_ref() {
        Some(
            ImageError::Missing { .. }
            | ImageError::Sources { .. }
            | ImageError::Download { .. }
            | ImageError::Digest { .. },
        ) => return Some(IMAGES),
        Some(ImageError::Disk { .. }) => return Some(USAGE),
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<SessionError>() {
        return match error {
            SessionError::NoCluster(_) => Some(NO_CLUSTER),
            SessionError::Orphan { .. } => Some(CONFLICT),
            SessionError::NoKubeconfig(_) | SessionError::Encoding(_) => None,
        };
    }
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return match error {
            RuntimeError::Unreachable { .. } | RuntimeError::Denied { .. } => Some(ENGINE),
            RuntimeError::ImageMissing(_) => Some(IMAGES),
            RuntimeError::Failed { .. } => None,
        };
    }
    if let Some(error) = error.downcast_ref::<PreflightError>() {
        return Some(preflight(error));
    }
    if let Some(error) = error.downcast_ref::<MachineError>() {
        return match error {
            // The code of the command itself, as ssh(1) has it.
            MachineError::Command(code) => u8::try_from(*code).ok().map(Code),
            MachineError::Unknown { .. } | MachineError::NoConsole(_) => Some(USAGE),
        };
    }
    if let Some(error) = error.downcast_ref::<UpError>() {
        return match error {
            UpError::Phase(failure) => Some(phase(failure)),
            UpError::NotReady(_) | UpError::Timeout { .. } => Some(NOT_READY),
            UpError::Interrupted(_) => Some(INTERRUPTED),
            UpError::Kubeconfig(_) => None,
            UpError::OtherCa => Some(CONFLICT),
        };
    }
    if let Some(error) = error.downcast_ref::<UpgradeCommandError>() {
        return match error {
            UpgradeCommandError::Refused { .. } => Some(USAGE),
            UpgradeCommandError::Unfinished { .. } => Some(CONFLICT),
            UpgradeCommandError::Addons(_) => Some(NOT_READY),
            // The cause has one of its own.
            UpgradeCommandError::NoAnswer(..)
            | UpgradeCommandError::PutBack { .. }
            | UpgradeCommandError::Halfway { .. } => None,
        };
    }
    if error.is::<Interrupted>() {
        return Some(INTERRUPTED);
    }
    if error.is::<kubevirtci::Refused>() {
        return Some(USAGE);
    }
    if error.is::<kubevirtci::Taken>() {
        return Some(CONFLICT);
    }
    if let Some(kubevirtci::SshError(code)) = error.downcast_ref() {
        return u8::try_from(*code).ok().map(Code);
    }
    error.downcast_ref::<PhaseFailure>().map(phase)
}

/// A phase that failed for want of an engine or of images is told apart from one that failed.
fn phase(failure: &PhaseFailure) -> Code {
    chain(failure.source.as_ref()).find_map(of_one).unwrap_or(PHASE)
}

/// Missing images alone have a code of their own; settings that clash with the engine are wrong
/// settings.
fn preflight(error: &PreflightError) -> Code {
    let images = |problem: &Problem| matches!(problem, Problem::Images(_));
    let settings = |problem: &Problem| matches!(problem, Problem::Networking(_) | Problem::Port { .. });
    match error.0.as_slice() {
        problems if problems.iter().all(images) => IMAGES,
        problems if problems.iter().any(settings) => USAGE,
        _ => PHASE,
    }
}
