//! Copies of the API's objects, kept by watching.

use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use futures_util::StreamExt as _;
use hoist_phases::causes;
use kube::api::ListParams;
use kube::runtime::reflector::{self, Store};
use kube::runtime::utils::WatchStreamExt as _;
use kube::runtime::watcher::{self, ExponentialBackoff, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::health::Health;

/// After a failed request, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Told of every change, of however many at once.
pub(super) type Changes = watch::Sender<()>;

/// Starts to watch all objects of a kind. `strip` takes away what nobody reads, so that it takes
/// no memory either.
pub(super) fn mirror<K>(
    kind: &'static str,
    api: Api<K>,
    strip: fn(&mut K),
    changes: &[Changes],
    health: &Arc<Health>,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Default,
{
    let (reader, writer) = reflector::store();
    let pauses = ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times();
    let pauses = ExponentialBackoff::from(pauses);
    let events = watcher(api.clone(), watcher::Config::default());
    let events = events.modify(strip).reflect(writer).backoff(pauses);
    let (store, health, changes) = (reader.clone(), Arc::clone(health), changes.to_vec());
    tokio::spawn(async move {
        let mut events = pin!(events);
        let mut troubled = false;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = recovered(&api), if troubled => {
                    troubled = false;
                    health.set(kind, None);
                    continue;
                }
            };
            match event {
                None => return,
                // Half of a list is no news.
                Some(Ok(watcher::Event::Init | watcher::Event::InitApply(_))) => continue,
                Some(Ok(_)) => health.saw(kind, store.len()),
                Some(Err(error)) => {
                    troubled = true;
                    health.set(kind, Some(causes(&error)));
                    continue;
                }
            }
            troubled = false;
            health.set(kind, None);
            for change in &changes {
                change.send_replace(());
            }
        }
    });
    reader
}

/// Comes back when the API answers and nothing was heard of the watch for so long that it has been
/// tried again: one that goes on tells nothing until an object changes.
async fn recovered<K>(api: &Api<K>)
where
    K: Clone + DeserializeOwned + Debug,
{
    loop {
        tokio::time::sleep(LONGEST_PAUSE + FIRST_PAUSE).await;
        if api.list_metadata(&ListParams::default().limit(1)).await.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Node;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A fake API server without nodes, whose first watch fails and whose second says nothing.
    #[derive(Default)]
    struct Server {
        down: AtomicBool,
        watches: AtomicUsize,
    }

    impl Server {
        async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let fails = self.down.load(Ordering::Relaxed)
                || is_watch && self.watches.fetch_add(1, Ordering::Relaxed) == 0;
            let (code, answer) = match (fails, is_watch) {
                (true, _) => {
                    (500, json!({"kind": "Status", "message": "no etcd", "reason": "", "code": 500}))
                }
                (false, true) => return std::future::pending().await,
                (false, false) => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
            };
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            response.map_err(kube::Error::HttpError)
        }
    }

    async fn until(health: &Health, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
        for _ in 0..600 {
            if wanted(&health.report().1) {
                return Ok(());
            }
            tokio::time::sleep(FIRST_PAUSE).await;
        }
        Err(health.report().1)
    }

    /// No node changes on a quiet cluster, maybe for days.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_goes_on_is_well_again_without_any_change() -> Result<(), String> {
        let server = Arc::new(Server::default());
        let shared = Arc::clone(&server);
        let service = tower::service_fn(move |request| Arc::clone(&shared).answer(request));
        let client = kube::Client::new(service, "default");
        let health = Arc::new(Health::new(vec!["nodes"]));
        let _nodes = mirror::<Node>("nodes", Api::all(client), |_| {}, &[], &health);
        until(&health, |report| report.contains("no etcd")).await?;
        assert!(health.report().0, "they were listed");
        // Not while nothing else is answered either.
        server.down.store(true, Ordering::Relaxed);
        tokio::time::sleep(4 * LONGEST_PAUSE).await;
        assert!(health.report().1.contains("no etcd"), "{}", health.report().1);
        server.down.store(false, Ordering::Relaxed);
        until(&health, str::is_empty).await
    }
}
