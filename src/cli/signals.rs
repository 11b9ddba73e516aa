//! SIGINT and SIGTERM as a future.

use tokio::signal::unix::{SignalKind, signal};

/// The run was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted by {0}")]
pub struct Interrupted(&'static str);

/// Ends with the first SIGINT or SIGTERM. From the first call on neither ends the process by
/// itself any more, so that what was made can be removed.
pub(crate) async fn interrupted() -> Result<Interrupted, std::io::Error> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => Ok(Interrupted("SIGINT")),
        _ = terminate.recv() => Ok(Interrupted("SIGTERM")),
    }
}
