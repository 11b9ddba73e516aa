//! Ports that tell how long each call took.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{
    Applied, ContainerSpec, ContainerState, EngineInfo, Eviction, ExecOutput, KubeApi, KubeConnect,
    KubeError, Runtime, RuntimeError,
};
use crate::engine::{Events, current_phase};
use crate::events::{Event, Peer};
use crate::object::{Object, ObjectRef};

pub(super) struct Timed<T: ?Sized> {
    inner: Arc<T>,
    events: Events,
}

impl<T: ?Sized> Timed<T> {
    pub(super) fn new(inner: Arc<T>, events: &Events) -> Self {
        Self { inner, events: events.clone() }
    }

    /// A call that is dropped before its end is not told: it has no end.
    async fn time<R, E>(
        &self,
        peer: Peer,
        what: impl Into<String>,
        call: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        let began_us = self.events.now_us();
        let result = call.await;
        self.events.send(Event::Call {
            phase: current_phase(),
            peer,
            what: what.into(),
            began_us,
            elapsed_us: self.events.now_us().saturating_sub(began_us),
            failed: result.is_err(),
        });
        result
    }
}

impl Timed<dyn Runtime> {
    async fn engine<R>(
        &self,
        what: impl Into<String>,
        call: impl Future<Output = Result<R, RuntimeError>>,
    ) -> Result<R, RuntimeError> {
        self.time(Peer::Engine, what, call).await
    }
}

#[async_trait]
impl Runtime for Timed<dyn Runtime> {
    async fn info(&self) -> Result<EngineInfo, RuntimeError> {
        self.engine("info", self.inner.info()).await
    }

    async fn missing_images(&self, references: &[String]) -> Result<Vec<String>, RuntimeError> {
        self.engine("look for images", self.inner.missing_images(references)).await
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<String, RuntimeError> {
        self.engine(format!("create {}", spec.name), self.inner.create(spec)).await
    }

    async fn program_digest(&self) -> Result<String, RuntimeError> {
        self.engine("digest of hoist", self.inner.program_digest()).await
    }

    async fn start(&self, name: &str) -> Result<(), RuntimeError> {
        self.engine(format!("start {name}"), self.inner.start(name)).await
    }

    async fn stop(&self, name: &str, grace_secs: u32) -> Result<(), RuntimeError> {
        self.engine(format!("stop {name}"), self.inner.stop(name, grace_secs)).await
    }

    async fn pause(&self, name: &str) -> Result<(), RuntimeError> {
        self.engine(format!("pause {name}"), self.inner.pause(name)).await
    }

    async fn unpause(&self, name: &str) -> Result<(), RuntimeError> {
        self.engine(format!("unpause {name}"), self.inner.unpause(name)).await
    }

    async fn wait(&self, name: &str) -> Result<i64, RuntimeError> {
        self.engine(format!("wait for the end of {name}"), self.inner.wait(name)).await
    }

    async fn inspect(&self, name: &str) -> Result<Option<ContainerState>, RuntimeError> {
        self.engine(format!("inspect {name}"), self.inner.inspect(name)).await
    }

    async fn list(&self, cluster: Option<&str>) -> Result<Vec<ContainerState>, RuntimeError> {
        self.engine("list containers", self.inner.list(cluster)).await
    }

    async fn logs(&self, name: &str, tail: u32) -> Result<String, RuntimeError> {
        self.engine(format!("logs of {name}"), self.inner.logs(name, tail)).await
    }

    // The program alone: arguments may hold a token.
    async fn exec(&self, name: &str, command: &[&str], stdin: &[u8]) -> Result<ExecOutput, RuntimeError> {
        let what = format!("run {} in {name}", command.first().copied().unwrap_or_default());
        self.engine(what, self.inner.exec(name, command, stdin)).await
    }

    async fn feed_image(
        &self,
        name: &str,
        command: &[&str],
        image: &str,
    ) -> Result<ExecOutput, RuntimeError> {
        self.engine(format!("feed {image} to {name}"), self.inner.feed_image(name, command, image)).await
    }

    async fn remove(&self, name: &str) -> Result<(), RuntimeError> {
        self.engine(format!("remove {name}"), self.inner.remove(name)).await
    }

    async fn volumes(&self, cluster: &str) -> Result<Vec<String>, RuntimeError> {
        self.engine("list volumes", self.inner.volumes(cluster)).await
    }

    async fn remove_volume(&self, name: &str) -> Result<(), RuntimeError> {
        self.engine(format!("remove volume {name}"), self.inner.remove_volume(name)).await
    }
}

#[async_trait]
impl KubeConnect for Timed<dyn KubeConnect> {
    async fn connect(&self, kubeconfig: &str) -> Result<Arc<dyn KubeApi>, KubeError> {
        Ok(Arc::new(Timed::new(self.inner.connect(kubeconfig).await?, &self.events)))
    }
}

impl Timed<dyn KubeApi> {
    async fn api<R>(
        &self,
        what: impl Into<String>,
        call: impl Future<Output = Result<R, KubeError>>,
    ) -> Result<R, KubeError> {
        self.time(Peer::Api, what, call).await
    }
}

#[async_trait]
impl KubeApi for Timed<dyn KubeApi> {
    async fn get_path(&self, path: &str) -> Result<(u16, String), KubeError> {
        self.api(format!("get {path}"), self.inner.get_path(path)).await
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, KubeError> {
        self.api(format!("get {object}"), self.inner.get(object)).await
    }

    async fn list(
        &self,
        api_version: &str,
        kind: &str,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, KubeError> {
        self.api(format!("list {kind}"), self.inner.list(api_version, kind, selector)).await
    }

    async fn apply(&self, object: &Object) -> Result<Applied, KubeError> {
        self.api(format!("apply {}", object.reference()), self.inner.apply(object)).await
    }

    async fn create(&self, object: &Value) -> Result<Value, KubeError> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        self.api(format!("create {kind}"), self.inner.create(object)).await
    }

    async fn merge_patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, KubeError> {
        self.api(format!("patch {object}"), self.inner.merge_patch(object, patch)).await
    }

    async fn delete(&self, object: &ObjectRef) -> Result<(), KubeError> {
        self.api(format!("delete {object}"), self.inner.delete(object)).await
    }

    async fn evict(&self, namespace: &str, pod: &str) -> Result<Eviction, KubeError> {
        self.api(format!("evict {namespace}/{pod}"), self.inner.evict(namespace, pod)).await
    }
}
