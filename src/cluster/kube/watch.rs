use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use hoist_phases::object::ObjectRef;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::Value;

use super::api::Api;
use super::resource::built_in;

impl Api {
    /// An object of a built-in kind in a namespace, now and at every change; `None` while it is
    /// not there. A broken connection is told of and mended.
    pub fn watch(&self, object: &ObjectRef) -> BoxStream<'static, Result<Option<Value>, watcher::Error>> {
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let kind = GroupVersionKind::gvk(group, version, &object.kind);
        let plural = built_in(&object.api_version, &object.kind).map(|resource| resource.plural);
        let resource = match plural {
            Some(plural) => ApiResource::from_gvk_with_plural(&kind, &plural),
            None => ApiResource::from_gvk(&kind),
        };
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let api: kube::Api<DynamicObject> =
            kube::Api::namespaced_with(self.client.clone(), namespace, &resource);
        let value = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
        watcher::watch_object(api, &object.name)
            .default_backoff()
            .map_ok(move |found| found.map(value))
            .boxed()
    }
}
