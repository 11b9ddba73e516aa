//! Tells a component that may still come up from one that has ended for good.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::containers::{ContainerError, component_name};
use crate::ports::{ContainerState, Runtime, Status};
use crate::spec::{ClusterSpec, Component};

/// Lines of a failed component's log that its error shows.
const LOG_TAIL: u32 = 20;

/// Ends that can't be bad luck any more, when the last came within [`SHORT_LIFE`].
const MAX_ENDS: u32 = 3;

/// A process that ended over bad flags lived for less. kube-controller-manager gives up by itself
/// after 10 s without a healthy API server, as often as it takes: that is waiting, not failing.
const SHORT_LIFE: Duration = Duration::from_secs(5);

/// Watches containers: a component may end and be started again, but not over and over.
#[derive(Debug, Default)]
pub struct Watch {
    /// By name: id, and restarts that the engine had counted at the first look. Those don't count.
    before: Mutex<BTreeMap<String, (String, u32)>>,
    /// Whether what is not in `before` is known to be new, so that all of its restarts count.
    complete: bool,
    /// Names of those that may be started once more.
    revivable: Mutex<BTreeSet<String>>,
}

impl Watch {
    /// One that has seen these already: containers made since have all of their ends counted.
    pub fn after(seen: &[ContainerState]) -> Self {
        let one = |state: &ContainerState| (state.name.clone(), (state.id.clone(), state.restarts));
        Self {
            before: Mutex::new(seen.iter().map(one).collect()),
            complete: true,
            revivable: Mutex::default(),
        }
    }

    /// Starts a component that has ended for good once more. One that the engine keeps running ends
    /// so only when it was stopped: by a run that was cut off, after which the engine goes on with
    /// the stop and tells until then that the container runs. Not the owner: those that share its
    /// namespace would be left with a dead one.
    #[must_use]
    pub fn reviving(self, spec: &ClusterSpec) -> Self {
        let kept = Component::ALL.into_iter().filter(|component| *component != Component::Owner);
        let names = kept.map(|component| component_name(spec, component)).collect();
        Self { revivable: Mutex::new(names), ..self }
    }

    /// Succeeds while a container runs or has a chance to; fails once it has ended for good.
    ///
    /// # Errors
    /// Says the exit code or the number of ends, and the last lines of the container's log.
    pub async fn check(&self, runtime: &Arc<dyn Runtime>, name: &str) -> Result<(), ContainerError> {
        let Some(state) = runtime.inspect(name).await? else {
            return Err(ContainerError::Gone(name.to_owned()));
        };
        let name = name.to_owned();
        if let Status::Exited { code, oom_killed } = state.status {
            if self.may_revive(&name) {
                return Ok(runtime.start(&name).await?);
            }
            let log = runtime.logs(&name, LOG_TAIL).await?;
            return Err(ContainerError::Ended { name, code, oom_killed, log });
        }
        let ends = self.ends(&name, &state);
        let short = state.lived.is_some_and(|lived| lived < SHORT_LIFE);
        match state.status {
            // Between two starts, where it is most of the time by then, its exit code is known.
            Status::Restarting { code } if ends >= MAX_ENDS && short => {
                let log = runtime.logs(&name, LOG_TAIL).await?;
                Err(ContainerError::KeepsEnding { name, ends, code, log })
            }
            _ => Ok(()),
        }
    }

    fn may_revive(&self, name: &str) -> bool {
        self.revivable.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    /// How often a container has ended since the first look. That look may come after the first ends
    /// of one made a moment ago; those few are forgiven, the next ones come at once.
    fn ends(&self, name: &str, state: &ContainerState) -> u32 {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (state.id.clone(), state.restarts);
        let first = if self.complete { (state.id.clone(), 0) } else { now.clone() };
        let (id, count) = before.entry(name.to_owned()).or_insert(first);
        // Engines count from 0 again for one that was made anew, or started by hand.
        if *id != state.id || *count > state.restarts {
            (*id, *count) = (state.id.clone(), 0);
        }
        state.restarts - *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(id: &str, restarts: u32) -> ContainerState {
        ContainerState {
            id: id.into(),
            name: "name".into(),
            image: String::new(),
            labels: BTreeMap::new(),
            status: Status::Running,
            restarts,
            published: Vec::new(),
            started_at: String::new(),
            lived: None,
            network_of: None,
        }
    }

    #[test]
    fn ends_of_earlier_days_do_not_count() {
        let fresh = Watch::default();
        assert_eq!([7, 7, 9].map(|restarts| fresh.ends("name", &state("id", restarts))), [0, 0, 2]);
        let told = Watch::after(&[state("id", 7)]);
        assert_eq!(told.ends("name", &state("id", 8)), 1);
        assert_eq!(told.ends("other", &state("other", 2)), 2);
    }

    #[test]
    fn one_that_was_stopped_is_started_once() {
        let spec = crate::spec::test_spec();
        let name = |component| component_name(&spec, component);
        assert!(!Watch::default().may_revive(&name(Component::Etcd)));
        let watch = Watch::default().reviving(&spec);
        let tried = [Component::Etcd, Component::Etcd, Component::ApiServer, Component::Owner];
        assert_eq!(tried.map(|component| watch.may_revive(&name(component))), [true, false, true, false]);
    }

    #[test]
    fn a_container_made_or_started_anew_is_counted_from_zero() {
        let watch = Watch::after(&[state("id", 7)]);
        assert_eq!(watch.ends("name", &state("another", 8)), 8);
        let watch = Watch::after(&[state("id", 7)]);
        assert_eq!([1, 2].map(|restarts| watch.ends("name", &state("id", restarts))), [1, 2]);
    }
}
