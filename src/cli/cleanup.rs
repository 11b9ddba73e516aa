//! Takes back what a failed run has made.

use crate::cluster::down::{Snapshot, down_since};
use crate::report;
use crate::runtime::Engine;
use crate::store::StateDir;

/// Looks at the engine: a request that was under way when the run stopped may still bring a
/// container into being a moment after the others were removed.
const MAX_PASSES: usize = 5;

/// Removes what came into being since `before`, and says what it did. What stays behind is only
/// told: the error of the run itself matters more.
pub(super) async fn take_back(engine: &Engine, state: &StateDir, before: &Snapshot) {
    let mut removed = 0;
    for _ in 0..MAX_PASSES {
        let pass = match down_since(engine, state, before).await {
            Ok(removal) => removal.into_result(),
            Err(error) => {
                report::tell(format_args!("warning: what this run had made is still there: {error}"));
                return;
            }
        };
        match pass {
            Ok(things) if things.is_empty() => break,
            Ok(things) => removed += things.len(),
            Err(left) => {
                report::tell(format_args!("warning: {left}"));
                return;
            }
        }
    }
    if removed > 0 {
        report::tell(format_args!(
            "removed what this run had made ({removed} things); keep it with --retain"
        ));
    }
}
