//! What the steward can't do at the moment, and what it has done: for people and for Prometheus.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// One label, whose name is fixed by the metric.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// A counter or gauge for each kind.
type Counters = Family<Kind, Counter>;

/// Shared by everything that runs in the steward.
#[derive(Debug)]
pub(super) struct Health {
    /// By what is troubled; what is well has no entry.
    troubles: Mutex<BTreeMap<String, String>>,
    /// Not empty until each kind of object has been listed once.
    unseen: Mutex<Vec<&'static str>>,
    registry: Registry,
    objects: Family<Kind, Gauge>,
    routes: Gauge,
    changes: Counters,
    failures: Counters,
}

impl Health {
    pub(super) fn new(unseen: Vec<&'static str>) -> Self {
        let mut registry = Registry::with_prefix("hoist_steward");
        let objects = Family::<Kind, Gauge>::default();
        let (routes, changes, failures) = (Gauge::default(), Counters::default(), Counters::default());
        registry.register("objects", "Objects of the API that are watched", objects.clone());
        registry.register("routes", "Routes to pods that are wanted", routes.clone());
        registry.register("changes", "What was changed", changes.clone());
        registry.register("failures", "What could not be done and is tried again", failures.clone());
        let (troubles, unseen) = (Mutex::default(), Mutex::new(unseen));
        Self { troubles, unseen, registry, objects, routes, changes, failures }
    }

    /// So many objects of a kind are known.
    pub(super) fn saw(&self, kind: &'static str, count: usize) {
        self.objects.get_or_create(&Kind { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != kind);
    }

    pub(super) fn routes(&self, count: usize) {
        self.routes.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Something was changed.
    pub(super) fn changed(&self, kind: &'static str) {
        self.changes.get_or_create(&Kind { kind }).inc();
    }

    /// The state of one duty or watch, until the next word of it.
    pub(super) fn set(&self, of: &'static str, trouble: Option<String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trouble) = trouble else {
            if troubles.remove(of).is_some() {
                tracing::info!("{of}: well again");
            }
            return;
        };
        self.failures.get_or_create(&Kind { kind: of }).inc();
        if troubles.get(of) != Some(&trouble) {
            tracing::warn!("{of}: {trouble}");
        }
        troubles.insert(of.to_owned(), trouble);
    }

    /// Whether all has been seen once, and what is wrong, one a line.
    pub(super) fn report(&self) -> (bool, String) {
        let unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let unseen_lines = unseen.iter().map(|kind| format!("{kind}: not seen yet\n"));
        let lines = troubles.iter().map(|(of, trouble)| format!("{of}: {}\n", trouble.replace('\n', "; ")));
        (unseen.is_empty(), unseen_lines.chain(lines).collect())
    }

    /// As Prometheus reads it.
    pub(super) fn metrics(&self) -> String {
        let mut page = String::new();
        // Writing to a String doesn't fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_lasts_until_it_is_taken_back() {
        let health = Health::new(vec!["nodes"]);
        assert_eq!(health.report(), (false, "nodes: not seen yet\n".to_owned()));
        health.saw("nodes", 3);
        health.set("routes", Some("first\nsecond".to_owned()));
        assert_eq!(health.report(), (true, "routes: first; second\n".to_owned()));
        health.set("routes", None);
        assert_eq!(health.report(), (true, String::new()));
    }

    #[test]
    fn metrics_are_in_prometheus_own_form() {
        let health = Health::new(Vec::new());
        health.saw("nodes", 3);
        health.changed("eviction");
        let page = health.metrics();
        for line in [
            "hoist_steward_objects{kind=\"nodes\"} 3",
            "hoist_steward_changes_total{kind=\"eviction\"} 1",
            "# EOF",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}: {page}");
        }
    }
}
