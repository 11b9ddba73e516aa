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
/// What `look` fails with, at once; or [`TimedOut`], even where a look doesn't end.
pub async fn until<T, F, Fut>(deadline: Duration, mut look: F) -> Result<T, PhaseError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Poll<T>, PhaseError>>,
{
    let end = Instant::now() + deadline;
    let mut last = "no look has ended".to_owned();
    loop {
        match tokio::time::timeout_at(end, look()).await {
            Ok(Ok(Poll::Ready(value))) => return Ok(value),
            Ok(Ok(Poll::Pending(seen))) if Instant::now() < end => last = seen,
            Ok(Ok(Poll::Pending(last))) => return Err(Box::new(TimedOut { deadline, last })),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(Box::new(TimedOut { deadline, last })),
        }
        tokio::time::sleep_until(end.min(Instant::now() + INTERVAL)).await;
    }
}
