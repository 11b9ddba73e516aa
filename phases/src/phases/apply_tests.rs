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
    for early in ["the provided network does not match the current range", "provided IP is already allocated"]
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
    for early in ["error looking up service account a/default: not found", "status unknown for quota: q"] {
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
