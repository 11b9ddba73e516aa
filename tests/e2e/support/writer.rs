//! Somebody who writes to a cluster without a pause and remembers what was acknowledged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hoist::cluster::kube::Access;
use hoist_phases::ports::KubeApi as _;
use serde_json::json;

use super::{Hoist, block, until};

/// What is still missing is waited for at most this long: an API server finds its store again.
const BACK: Duration = Duration::from_secs(90);

/// Runs until it is asked for its list.
pub(crate) struct Writer {
    end: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    thread: Option<JoinHandle<BTreeSet<String>>>,
}

impl Writer {
    /// Writes ConfigMaps into the default namespace.
    pub(crate) fn start(hoist: &Hoist) -> Self {
        let kubeconfig = std::fs::read_to_string(hoist.state().join("kubeconfig")).expect("a kubeconfig");
        let access = Access::from_kubeconfig(&kubeconfig).expect("a kubeconfig");
        let api = block(async { access.connect() }).expect("a client");
        let (end, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ended, count) = (Arc::clone(&end), Arc::clone(&acknowledged));
        let thread = std::thread::spawn(move || {
            let mut names = BTreeSet::new();
            for number in 0.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("written-{number}");
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}});
                // Nobody promises anything of a write that fails.
                if block(api.create(&object)).is_ok() {
                    names.insert(name);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            names
        });
        Self { end, acknowledged, thread: Some(thread) }
    }

    /// Waits until so many more writes are acknowledged.
    pub(crate) fn writes(&self, more: usize) {
        let wanted = self.acknowledged.load(Ordering::Relaxed) + more;
        until("writes are acknowledged", BACK, || match self.acknowledged.load(Ordering::Relaxed) {
            count if count >= wanted => Ok(()),
            count => Err(format!("{count} of {wanted}")),
        });
    }

    /// Ends, and wants everything that was acknowledged to be there; gives how much that is.
    pub(crate) fn nothing_is_lost(mut self, hoist: &Hoist) -> usize {
        self.end.store(true, Ordering::Relaxed);
        let names = self.thread.take().expect("it runs").join().expect("the writer ends well");
        let list = hoist.get(&["configmaps"]);
        let there: BTreeSet<_> = list["items"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        let lost: Vec<_> = names.difference(&there).collect();
        assert!(lost.is_empty(), "{} of {} writes are lost: {lost:?}", lost.len(), names.len());
        names.len()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}
