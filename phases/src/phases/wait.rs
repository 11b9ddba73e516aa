//! Waiting for a condition: a deadline always, the last thing seen in the error.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::PhaseError;

/// Between two looks. A local engine or API server answers in a few milliseconds; a longer pause
/// would be time lost, a shorter one would take the processor from those waited for.
pub const INTERVAL: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub enum Poll<T> {
    Ready(T),
    /// Not yet; what was seen instead.
    Pending(String),
}

#[derive(Debug, thiserror::Error)]
#[error("not within {} s: {last}", deadline.as_secs())]
pub struct TimedOut {
    pub deadline: Duration,
    pub last: String,
}

/// Looks again and again until `look` says ready.
///
/// # Errors
/// What `look` fails with, at once; or [`TimedOut`].
pub async fn until<T, F, Fut>(deadline: Duration, mut look: F) -> Result<T, PhaseError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Poll<T>, PhaseError>>,
{
    let begin = Instant::now();
    loop {
        match look().await? {
            Poll::Ready(value) => return Ok(value),
            Poll::Pending(last) if begin.elapsed() >= deadline => {
                return Err(Box::new(TimedOut { deadline, last }));
            }
            Poll::Pending(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}
