//! Why a wait for components ran out: the first of them, in the order they need each other, that
//! does not run, or runs only since it was started again.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::engine::PhaseError;
use crate::phases::containers::{ContainerError, component_name};
use crate::phases::wait::TimedOut;
use crate::ports::{ContainerState, Runtime, Status};
use crate::spec::{ClusterSpec, Component};

/// Lines of its log that the error about a component shows.
const LOG_TAIL: u32 = 20;

/// A component that ended while others waited for it, and runs at the moment.
#[derive(Debug, thiserror::Error)]
#[error("{name} was started again {times} times; its last lines:\n{log}")]
pub(super) struct Restarted {
    name: String,
    times: u32,
    log: String,
    #[source]
    timed_out: PhaseError,
}

/// How often the engine had started each container again when a wait began; none is known of one
/// that was not there.
#[derive(Debug)]
pub(super) struct Restarts(Vec<(String, u32)>);

impl Restarts {
    /// Looks at the components, given those that others need first.
    pub(super) async fn now(
        runtime: &Arc<dyn Runtime>,
        spec: &ClusterSpec,
        components: impl Iterator<Item = Component>,
    ) -> Self {
        let looks = components.map(|component| async move {
            let name = component_name(spec, component);
            let found = runtime.inspect(&name).await.ok().flatten();
            (name, found.map_or(0, |state| state.restarts))
        });
        Self(join_all(looks).await)
    }

    /// A better error than [`TimedOut`], when a component gives cause; any other error as it is.
    pub(super) async fn explain(self, runtime: &Arc<dyn Runtime>, error: PhaseError) -> PhaseError {
        if !error.is::<TimedOut>() {
            return error;
        }
        let looks = join_all(self.0.into_iter().map(|(name, before)| async move {
            let state = runtime.inspect(&name).await;
            state.map(|state| judge(state.as_ref(), before).map(|verdict| (name, verdict)))
        }));
        // An engine that no longer answers tells nothing of what was waited for.
        let Some((name, verdict)) = looks.await.into_iter().flatten().flatten().next() else { return error };
        let log = runtime.logs(&name, LOG_TAIL).await.unwrap_or_default();
        match verdict {
            Verdict::Gone => ContainerError::Gone(name).into(),
            Verdict::Ended { code, oom_killed } => {
                ContainerError::Ended { name, code, oom_killed, log }.into()
            }
            Verdict::KeepsEnding { ends, code } => {
                ContainerError::KeepsEnding { name, ends, code, log }.into()
            }
            Verdict::Restarted { times } => Restarted { name, times, log, timed_out: error }.into(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Gone,
    Ended { code: i64, oom_killed: bool },
    KeepsEnding { ends: u32, code: i64 },
    Restarted { times: u32 },
}

/// What is wrong with a container, if anything, that had been started again `before` times.
fn judge(state: Option<&ContainerState>, before: u32) -> Option<Verdict> {
    let Some(state) = state else { return Some(Verdict::Gone) };
    let ends = state.restarts.saturating_sub(before);
    match state.status {
        Status::Exited { code, oom_killed } => Some(Verdict::Ended { code, oom_killed }),
        Status::Restarting { code } => Some(Verdict::KeepsEnding { ends: ends.max(1), code }),
        // Its exit code is known only between two starts.
        _ => (ends > 0).then_some(Verdict::Restarted { times: ends }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(status: Status, restarts: u32) -> ContainerState {
        ContainerState {
            id: "id".into(),
            name: "name".into(),
            image: String::new(),
            labels: [].into(),
            status,
            restarts,
            published: Vec::new(),
            started_at: String::new(),
            lived: None,
            network_of: None,
        }
    }

    #[test]
    fn a_component_that_ended_slowly_is_told_when_the_time_is_up() {
        let judge = |status, restarts| judge(Some(&state(status, restarts)), 2);
        assert_eq!(judge(Status::Running, 2), None);
        assert_eq!(judge(Status::Running, 5), Some(Verdict::Restarted { times: 3 }));
        let between = Status::Restarting { code: 7 };
        assert_eq!(judge(between, 5), Some(Verdict::KeepsEnding { ends: 3, code: 7 }));
        let ended = Status::Exited { code: 137, oom_killed: true };
        assert_eq!(judge(ended, 2), Some(Verdict::Ended { code: 137, oom_killed: true }));
        assert_eq!(super::judge(None, 0), Some(Verdict::Gone));
    }
}
