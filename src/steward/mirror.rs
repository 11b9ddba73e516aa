//! Copies of the API's objects, kept by watching.

use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use futures_util::StreamExt as _;
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
    let events = watcher(api, watcher::Config::default()).modify(strip).reflect(writer).backoff(pauses);
    let (store, health, changes) = (reader.clone(), Arc::clone(health), changes.to_vec());
    tokio::spawn(async move {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                // Half of a list is no news.
                Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
                Ok(_) => health.saw(kind, store.len()),
                Err(error) => {
                    let causes: Vec<_> = crate::error::chain(&error).map(ToString::to_string).collect();
                    health.set(kind, Some(causes.join(": ")));
                    continue;
                }
            }
            health.set(kind, None);
            for change in &changes {
                change.send_replace(());
            }
        }
    });
    reader
}
