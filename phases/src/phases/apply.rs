//! Applies objects in one burst: all side by side, in no order.
//!
//! Order isn't needed because what an object waits for (a namespace, a CustomResourceDefinition,
//! the API server itself) appears while it is tried again.

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::object::{MANAGED_BY, Object, ObjectError, ObjectRef};
use crate::phases::{Context, placement};
use crate::ports::{Applied, KubeApi, KubeError};

/// How long objects may wait for what they depend on.
pub const DEADLINE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{object} was refused")]
    Refused {
        object: ObjectRef,
        #[source]
        source: KubeError,
    },
    #[error(transparent)]
    NoObject(#[from] ObjectError),
    #[error("{object} could not be applied or deleted within {} s", .waited.as_secs())]
    Deadline {
        object: ObjectRef,
        waited: Duration,
        #[source]
        source: KubeError,
    },
}

/// What became of a burst.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Burst {
    /// Objects created or updated.
    pub changed: usize,
    /// Objects of those names that aren't hoist's: left alone.
    pub foreign: Vec<ObjectRef>,
}

impl Burst {
    /// The outcome of a phase that applied these objects.
    pub fn outcome(&self) -> Outcome {
        if self.foreign.is_empty() {
            return Outcome::changed(self.changed > 0);
        }
        let names: Vec<_> = self.foreign.iter().map(ToString::to_string).collect();
        Outcome::Warned(format!("left alone, not made by hoist: {}", names.join(", ")))
    }
}

/// What a phase does that consists of objects alone.
///
/// # Errors
/// When no API is there to be asked, or as [`apply`].
pub async fn phase(cx: &Context, objects: &[Object]) -> Result<Outcome, PhaseError> {
    let api = cx.outputs.api.get()?;
    let objects = placement::own(&cx.spec, objects);
    Ok(apply(api.as_ref(), &objects, DEADLINE).await?.outcome())
}

/// Applies all objects, trying again what may succeed a moment later until `deadline` has passed.
///
/// # Errors
/// The first object that was refused for good or ran out of time, with the server's last word.
pub async fn apply(api: &dyn KubeApi, objects: &[Object], deadline: Duration) -> Result<Burst, ApplyError> {
    let results = try_join_all(objects.iter().map(|object| apply_one(api, object, deadline))).await?;
    let mut burst = Burst::default();
    for (object, applied) in objects.iter().zip(results) {
        match applied {
            Applied::Created | Applied::Updated => burst.changed += 1,
            Applied::Unchanged => {}
            Applied::Foreign => burst.foreign.push(object.reference().clone()),
        }
    }
    Ok(burst)
}

async fn apply_one(api: &dyn KubeApi, object: &Object, deadline: Duration) -> Result<Applied, ApplyError> {
    persist(object.reference(), deadline, may_succeed_later, || api.apply(object)).await
}

/// Deletes those objects that are there and hoist's own, and gives their number: what doesn't carry
/// hoist's label is the user's.
///
/// # Errors
/// As [`apply`].
pub async fn delete_own(
    api: &dyn KubeApi,
    objects: &[Object],
    deadline: Duration,
) -> Result<usize, ApplyError> {
    let deleted = objects.iter().map(Object::reference).map(|object| {
        persist(object, deadline, may_succeed_later, move || async move {
            let live = api.get(object).await?;
            let own = live.is_some_and(|live| live["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1);
            if own {
                api.delete(object).await?;
            }
            Ok(usize::from(own))
        })
    });
    Ok(try_join_all(deleted).await?.into_iter().sum())
}

/// Tries a request for an object again while `may_succeed` says so of its error, until `deadline`
/// has passed.
///
/// # Errors
/// When the server refuses for good or time has run out, with its last word.
pub async fn persist<T, F, Fut>(
    object: &ObjectRef,
    deadline: Duration,
    may_succeed: fn(&KubeError) -> bool,
    mut attempt: F,
) -> Result<T, ApplyError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, KubeError>>,
{
    let begin = Instant::now();
    loop {
        let source = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let object = object.clone();
        if !may_succeed(&source) {
            return Err(ApplyError::Refused { object, source });
        }
        if begin.elapsed() >= deadline {
            return Err(ApplyError::Deadline { object, waited: deadline, source });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What may succeed a moment later while a cluster starts: on a young API server an administrator is
/// Forbidden until the default roles are there.
pub(super) fn may_succeed_later(error: &KubeError) -> bool {
    may_still_come(error) || matches!(error, KubeError::Status { code: 403, .. })
}

/// What may succeed a moment later on a cluster that is up: the namespace or kind of an object is Not
/// Found until someone has made it, and another writer between read and write is a Conflict. A
/// refusal stands.
pub fn may_still_come(error: &KubeError) -> bool {
    error.is_transient()
        || matches!(error, KubeError::Status { code: 404 | 409, .. })
        || is_early_service(error)
        || is_early_account(error)
}

/// In a namespace made a moment ago a pod is Forbidden until its service account is there, and what a
/// quota counts until the quota's controller has counted.
fn is_early_account(error: &KubeError) -> bool {
    const EARLY: [&str; 2] = ["error looking up service account", "status unknown for quota"];
    matches!(error, KubeError::Status { code: 403, message, .. } if EARLY.iter().any(|early| message.contains(early)))
}

/// A Service that asks for an address before the API server has loaded its ranges is called
/// invalid, though nothing is wrong with it (`ipallocator.ErrMismatchedNetwork`, `ErrNotReady`). A
/// creation that fails half way, for one family of two or by a lost answer, leaves its address
/// taken for a moment (`ErrAllocated`); whoever holds it for good is named when the time is up.
fn is_early_service(error: &KubeError) -> bool {
    const EARLY: [&str; 3] = [
        "the provided network does not match the current range",
        "allocator not ready",
        "provided IP is already allocated",
    ];
    matches!(error, KubeError::Status { code: 422, message, .. } if EARLY.iter().any(|early| message.contains(early)))
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
