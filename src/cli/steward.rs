//! `hoist steward`: what the steward's container runs, and what `up` and `status` ask it there.

use super::signals::interrupted;
use crate::error::BoxError;
use crate::{report, steward};

/// It answers, but has not seen the cluster yet.
#[derive(Debug, thiserror::Error)]
#[error("the steward has not seen the cluster yet")]
pub(super) struct NotSeen;

pub(super) async fn run(health: bool) -> Result<(), BoxError> {
    if health {
        let (seen, troubles) = steward::ask().await?;
        report::data(troubles)?;
        return if seen { Ok(()) } else { Err(NotSeen.into()) };
    }
    tokio::select! {
        ended = steward::run() => match ended? {},
        signal = interrupted() => {
            signal?;
            Ok(())
        }
    }
}
