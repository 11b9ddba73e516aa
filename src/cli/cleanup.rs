//! Takes back what a failed run has made.

use crate::cluster::down::{SETTLE, Snapshot, down_since};
use crate::report;
use crate::runtime::Engine;
use crate::store::StateDir;

/// Removes what came into being since `before`, and says what it did. What stays behind is only
/// told: the error of the run itself matters more.
pub(super) async fn take_back(engine: &Engine, state: &StateDir, before: &Snapshot) {
    match down_since(engine, state, before, SETTLE).await {
        Ok(removal) => match removal.into_result() {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => report::tell(format_args!(
                "removed what this run had made ({} things); keep it with --retain",
                removed.len()
            )),
            Err(left) => report::tell(format_args!("warning: {left}")),
        },
        Err(error) => {
            report::tell(format_args!("warning: what this run had made is still there: {error}"));
        }
    }
}
