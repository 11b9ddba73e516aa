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
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::sync::Mutex;

    use async_trait::async_trait;
    use serde_json::{Value, json};

    use super::*;
    use crate::ports::Eviction;

    type Check = Result<(), Box<dyn std::error::Error>>;
    type Answer = Result<Applied, KubeError>;
    type Script = VecDeque<fn() -> Answer>;

    /// A fake API server: answers each object with what was prepared for it, the last one for ever.
    #[derive(Default)]
    struct FakeApi {
        answers: Mutex<BTreeMap<String, Script>>,
        calls: Mutex<BTreeMap<String, usize>>,
        live: BTreeMap<String, Value>,
        deleted: Mutex<Vec<String>>,
    }

    impl FakeApi {
        fn answering(self, name: &str, answers: impl IntoIterator<Item = fn() -> Answer>) -> Self {
            if let Ok(mut all) = self.answers.lock() {
                all.insert(name.to_owned(), answers.into_iter().collect());
            }
            self
        }

        fn calls(&self, name: &str) -> usize {
            self.calls.lock().map_or(0, |calls| calls.get(name).copied().unwrap_or_default())
        }
    }

    fn unused() -> KubeError {
        status(501)
    }

    fn status(code: u16) -> KubeError {
        KubeError::Status { operation: "apply", object: "x".to_owned(), code, message: "no".to_owned() }
    }

    #[async_trait]
    impl KubeApi for FakeApi {
        async fn apply(&self, object: &Object) -> Answer {
            let name = &object.reference().name;
            if let Ok(mut calls) = self.calls.lock() {
                *calls.entry(name.clone()).or_default() += 1;
            }
            let mut all = self.answers.lock().map_err(|_| unused())?;
            let answers = all.get_mut(name).ok_or_else(unused)?;
            let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().copied() };
            answer.ok_or_else(unused)?()
        }

        async fn get_path(&self, _: &str) -> Result<(u16, String), KubeError> {
            Err(unused())
        }
        async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, KubeError> {
            Ok(self.live.get(&object.name).cloned())
        }
        async fn list(&self, _: &str, _: &str, _: Option<&str>) -> Result<Vec<Value>, KubeError> {
            Err(unused())
        }
        async fn create(&self, _: &Value) -> Result<Value, KubeError> {
            Err(unused())
        }
        async fn merge_patch(&self, _: &ObjectRef, _: &Value) -> Result<Value, KubeError> {
            Err(unused())
        }
        async fn evict(&self, _: &str, _: &str) -> Result<Eviction, KubeError> {
            Err(unused())
        }

        async fn delete(&self, object: &ObjectRef) -> Result<(), KubeError> {
            self.deleted.lock().map_err(|_| unused())?.push(object.name.clone());
            Ok(())
        }
    }

    fn objects(names: &[&str]) -> Result<Vec<Object>, crate::object::ObjectError> {
        let map = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        names.iter().map(|name| Object::new(&map(name))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_what_appears_later() -> Check {
        let api = FakeApi::default()
            .answering(
                "a",
                [(|| Err(status(404))) as fn() -> Answer, || Err(status(403)), || Ok(Applied::Created)],
            )
            .answering("b", [(|| Ok(Applied::Unchanged)) as fn() -> Answer]);
        let burst = apply(&api, &objects(&["a", "b"])?, DEADLINE).await?;
        assert_eq!(burst.outcome(), Outcome::Done);
        assert_eq!((api.calls("a"), api.calls("b")), (3, 1));
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_at_the_deadline_with_the_last_word() -> Check {
        let api = FakeApi::default().answering("a", [(|| Err(status(503))) as fn() -> Answer]);
        let begin = Instant::now();
        let result = apply(&api, &objects(&["a"])?, Duration::from_secs(2)).await;
        let Err(ApplyError::Deadline { source, .. }) = result else {
            return Err(format!("{result:?}").into());
        };
        assert_eq!(source.to_string(), "apply x: 503 no");
        assert!(begin.elapsed() < Duration::from_millis(2100));
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_tried_again() -> Check {
        let api = FakeApi::default().answering("a", [(|| Err(status(422))) as fn() -> Answer]);
        let result = apply(&api, &objects(&["a"])?, DEADLINE).await;
        assert!(matches!(result, Err(ApplyError::Refused { .. })), "{result:?}");
        assert_eq!(api.calls("a"), 1);
        Ok(())
    }

    #[test]
    fn a_service_before_its_range_is_loaded_is_tried_again() {
        let refused = |message: &str| KubeError::Status {
            operation: "create",
            object: "Service kube-system/kube-dns".to_owned(),
            code: 422,
            message: message.to_owned(),
        };
        for early in
            ["the provided network does not match the current range", "provided IP is already allocated"]
        {
            assert!(may_succeed_later(&refused(&format!("failed to allocate IP 10.96.0.10: {early}"))));
        }
        assert!(!may_succeed_later(&refused("the provided IP is not in the valid range")));
    }

    #[test]
    fn a_refusal_stands_once_the_cluster_is_up() {
        assert!(may_succeed_later(&status(403)) && !may_still_come(&status(403)));
        for code in [404, 409, 500, 503] {
            assert!(may_succeed_later(&status(code)) && may_still_come(&status(code)), "{code}");
        }
        for early in ["error looking up service account a/default: not found", "status unknown for quota: q"]
        {
            let early = KubeError::Status {
                operation: "apply",
                object: "Pod a/b".to_owned(),
                code: 403,
                message: format!("pods \"b\" is forbidden: {early}"),
            };
            assert!(may_still_come(&early), "{early}");
        }
    }

    #[tokio::test]
    async fn nothing_changed_is_unchanged() -> Check {
        let api = FakeApi::default().answering("a", [(|| Ok(Applied::Unchanged)) as fn() -> Answer]);
        assert_eq!(apply(&api, &objects(&["a"])?, DEADLINE).await?.outcome(), Outcome::Unchanged);
        Ok(())
    }

    #[tokio::test]
    async fn kamaji_527_what_the_user_manages_is_left_alone_and_named() -> Check {
        let api = FakeApi::default()
            .answering("a", [(|| Ok(Applied::Foreign)) as fn() -> Answer])
            .answering("b", [(|| Ok(Applied::Created)) as fn() -> Answer]);
        let outcome = apply(&api, &objects(&["a", "b"])?, DEADLINE).await?.outcome();
        assert_eq!(outcome, Outcome::Warned("left alone, not made by hoist: ConfigMap a".to_owned()));
        Ok(())
    }

    #[tokio::test]
    async fn only_what_is_there_and_own_is_deleted() -> Check {
        let objects = objects(&["own", "users", "absent"])?;
        let live = [
            ("own".to_owned(), objects[0].value().clone()),
            ("users".to_owned(), json!({"metadata": {"name": "users"}})),
        ];
        let api = FakeApi { live: live.into(), ..FakeApi::default() };
        assert_eq!(delete_own(&api, &objects, DEADLINE).await?, 1);
        assert_eq!(api.deleted.into_inner().unwrap_or_default(), ["own"]);
        Ok(())
    }
}
