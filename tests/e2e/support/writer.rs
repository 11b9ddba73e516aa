//! Writes objects one after the other and counts those that the API server has acknowledged.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hoist::cluster::kube::Connector;
use hoist_phases::ports::{KubeApi, KubeConnect as _};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use super::{Hoist, until};

/// How long one write may take before it counts as refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is still missing is waited for at most this long: an API server finds its store again.
const BACK: Duration = Duration::from_secs(120);

/// Between two tries at a server that doesn't answer.
const PAUSE: Duration = Duration::from_millis(20);

/// Writes from its start until it is stopped.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<(Instant, String)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(hoist: &Hoist) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<_>>>::default());
        let (told, end, kubeconfig) =
            (Arc::clone(&acknowledged), Arc::clone(&stop), hoist.state().join("kubeconfig"));
        let network = hoist.network().map(|path| std::fs::File::open(path).expect("a network namespace"));
        let thread = std::thread::spawn(move || {
            if let Some(network) = network {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(network.as_fd(), kind).expect("this host's root");
            }
            // Of this thread alone, as the namespace is.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a tokio runtime");
            let mut number = 0;
            while !end.load(Ordering::Relaxed) {
                // Read anew after each failure: `up` may have written another port.
                let Some(api) = std::fs::read_to_string(&kubeconfig)
                    .ok()
                    .and_then(|text| runtime.block_on(Connector.connect(&text)).ok())
                else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                while !end.load(Ordering::Relaxed) {
                    number += 1;
                    let name = format!("written-{number}");
                    if !runtime.block_on(write(api.as_ref(), &name)) {
                        std::thread::sleep(PAUSE);
                        break;
                    }
                    told.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), name));
                }
            }
        });
        Self { stop, acknowledged, thread: Some(thread) }
    }

    fn all(&self) -> Vec<(Instant, String)> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for some more writes; gives the time from `since` to the first of them.
    pub(crate) fn goes_on(&self, since: Instant) -> Duration {
        until("writes are acknowledged", BACK, || {
            let after: Vec<_> = self.all().into_iter().filter(|(at, _)| *at > since).collect();
            if after.len() >= 5 { Ok(after[0].0 - since) } else { Err(format!("{} of 5", after.len())) }
        })
    }

    /// Waits until so many more writes are acknowledged.
    pub(crate) fn writes(&self, more: usize) {
        let wanted = self.all().len() + more;
        until("writes are acknowledged", BACK, || match self.all().len() {
            count if count >= wanted => Ok(()),
            count => Err(format!("{count} of {wanted}")),
        });
    }

    /// How many were acknowledged until now.
    #[cfg(feature = "faults")]
    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    /// The longest time between two acknowledged writes that went past `since`.
    pub(crate) fn longest_gap(&self, since: Instant) -> Duration {
        let all = self.all();
        let gaps = all.windows(2).filter(|pair| pair[1].0 > since).map(|pair| pair[1].0 - pair[0].0);
        gaps.max().unwrap_or_default()
    }

    /// Ends it, and wants every acknowledged write to be there; gives their number.
    pub(crate) fn nothing_is_lost(mut self, hoist: &Hoist) -> usize {
        self.end();
        let found = hoist.get(&["configmaps", "-l", "written=yes"]);
        let found: std::collections::BTreeSet<_> = found["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        let all = self.all();
        let lost: Vec<_> = all.iter().filter(|(_, name)| !found.contains(name.as_str())).collect();
        assert!(lost.is_empty(), "{} of {} acknowledged writes are lost: {lost:?}", lost.len(), all.len());
        all.len()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

async fn write(api: &dyn KubeApi, name: &str) -> bool {
    let object: Value = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"written": "yes"}},
        "data": {"key": "value"},
    });
    tokio::time::timeout(PATIENCE, api.create(&object)).await.is_ok_and(|done| done.is_ok())
}
