//! Applies objects in one burst: all side by side, in no order.
//!
//! Order isn't needed because what an object waits for (a namespace, a CustomResourceDefinition,
//! the API server itself) appears while it is tried again.

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::events::Outcome;
use crate::object::{Object, ObjectRef};
use crate::ports::{Applied, KubeApi, KubeError};

/// How long objects may wait for what they depend on.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub(super) const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{object} was refused")]
    Refused {
        object: ObjectRef,
        #[source]
        source: KubeError,
    },
    #[error("{object} could not be applied within {} s", .waited.as_secs())]
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
    let begin = Instant::now();
    loop {
        let source = match api.apply(object).await {
            Ok(applied) => return Ok(applied),
            Err(error) => error,
        };
        let object = object.reference().clone();
        if !may_succeed_later(&source) {
            return Err(ApplyError::Refused { object, source });
        }
        if begin.elapsed() >= deadline {
            return Err(ApplyError::Deadline { object, waited: deadline, source });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// On a young API server an administrator is Forbidden until the default roles are there, and the
/// namespace or kind of an object Not Found until someone has made it; another writer between
/// read and write is a Conflict.
pub(super) fn may_succeed_later(error: &KubeError) -> bool {
    error.is_transient() || matches!(error, KubeError::Status { code: 403 | 404 | 409, .. })
}
