//! Replicas onto different nodes: the scheduler places a pod once, so that those which came
//! first all stay on the first node. Here one at a time is evicted, for the scheduler to place anew.
//!
//! Little of the scheduler is imitated: which nodes a pod may go to at all by labels and taints.
//! Whether it can do better is seen by what it does: when an eviction has not helped, none follows
//! until those nodes or the Deployment have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use hoist_phases::spec::Spread;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration};

use crate::cluster::selector::is_met;

/// The cluster's DNS, which hoist itself lays down.
const DNS: (&str, &str) = ("kube-system", "coredns");

/// A Deployment and its pods, as far as spreading needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Workload {
    /// `NAMESPACE/NAME`.
    pub(super) key: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) replicas: usize,
    /// The Deployment's controller has nothing left to do.
    pub(super) settled: bool,
    pub(super) pods: Vec<Replica>,
}

/// A pod that isn't ending.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) uid: String,
    /// Empty when it has none yet.
    pub(super) node: String,
    pub(super) ready: bool,
    /// Seconds since the epoch.
    pub(super) created: i64,
}

/// The nodes that pods of a Deployment can be placed on now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    names: BTreeSet<String>,
    /// Changes with whatever might let the scheduler decide otherwise.
    fingerprint: u64,
}

/// What is remembered of a Deployment between two looks. Lost with the process, which costs one
/// eviction that doesn't help.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Memory {
    uid: String,
    generation: i64,
    /// Number of nodes at the last eviction.
    nodes: usize,
    /// Candidates that an eviction was tried with.
    tried: BTreeSet<u64>,
    /// The pod that was evicted last; until it is seen ending, everything else is old news.
    evicted: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is on as many nodes as it can be.
    Spread,
    /// Pods are on their way.
    Wait,
    /// The scheduler has shown that it does no better.
    Futile,
    Evict(Replica),
}

/// Which Deployments are spread.
pub(super) fn concerns(spread: &Spread, deployment: &Deployment) -> bool {
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let labels = deployment.metadata.labels.as_ref();
    let labelled = !spread.labels.is_empty()
        && spread.labels.iter().all(|(key, value)| labels.and_then(|has| has.get(key)) == Some(value));
    spread.enabled && ((namespace, name) == DNS || spread.namespaces.contains(namespace) || labelled)
}

/// The one namespace to look at, when one is enough.
pub(super) fn scope(spread: &Spread) -> Option<&'static str> {
    let others = spread.namespaces.iter().any(|namespace| namespace != DNS.0);
    (!others && spread.labels.is_empty()).then_some(DNS.0)
}

/// Those of the nodes that may take the Deployment's pods.
pub(super) fn candidates<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
    deployment: &Deployment,
) -> Candidates {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let allowed = |node: &&Node| pod.is_none_or(|pod| is_asked_for(node, pod) && tolerates(node, pod));
    let mut candidates = Candidates::default();
    let mut described = BTreeMap::new();
    for node in nodes.into_iter().filter(|node| takes_pods(node)).filter(allowed) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let taints: BTreeSet<_> =
            taints(node).map(|t| (t.key.clone(), t.value.clone(), t.effect.clone())).collect();
        described.insert(name.clone(), (node.metadata.uid.clone(), node.metadata.labels.clone(), taints));
        candidates.names.insert(name);
    }
    let mut hasher = DefaultHasher::new();
    described.hash(&mut hasher);
    candidates.fingerprint = hasher.finish();
    candidates
}

fn takes_pods(node: &Node) -> bool {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    !cordoned && conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// By the pod's node selector and required node affinity: one term has to be met, each expression of it.
fn is_asked_for(node: &Node, pod: &PodSpec) -> bool {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|has| has.get(key)).map(String::as_str);
    // The one field that can be asked for is `metadata.name`.
    let name = node.metadata.name.as_deref();
    let met = |term: &NodeSelectorTerm| {
        term.match_expressions.iter().flatten().all(|expression| is_met(expression, label(&expression.key)))
            && term.match_fields.iter().flatten().all(|expression| is_met(expression, name))
    };
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    pod.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value))
        && required.is_none_or(|selector| selector.node_selector_terms.iter().any(met))
}

/// By the node's taints that keep new pods away.
fn tolerates(node: &Node, pod: &PodSpec) -> bool {
    let tolerations = || pod.tolerations.iter().flatten();
    let repels = |taint: &Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !tolerations().any(|toleration| tolerated(taint, toleration))
    };
    !taints(node).any(repels)
}

/// Toleration of core/v1: what is absent fits everything. An operator not known here is the
/// scheduler's to judge.
fn tolerated(taint: &Taint, toleration: &Toleration) -> bool {
    let Toleration { key, operator, value, effect, toleration_seconds: _ } = toleration;
    let fits = |asked: &Option<String>, is: &str| {
        asked.as_deref().is_none_or(|asked| asked.is_empty() || asked == is)
    };
    let equal = || value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    fits(key, &taint.key)
        && fits(effect, &taint.effect)
        && (!matches!(operator.as_deref(), None | Some("" | "Equal")) || equal())
}

fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten())
}

/// A Deployment with those of the pods that are its own.
pub(super) fn workload(deployment: &Deployment, sets: &[&ReplicaSet], pods: &[&Pod]) -> Workload {
    let uid = deployment.metadata.uid.clone().unwrap_or_default();
    let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let generation = deployment.metadata.generation.unwrap_or_default();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let settled = deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation.unwrap_or_default() >= generation
            && [status.replicas, status.updated_replicas, status.ready_replicas]
                .iter()
                .all(|count| count.unwrap_or_default() == wanted)
    });
    let owned = |owners: &Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>>,
                 uids: &BTreeSet<&str>| {
        owners.iter().flatten().any(|owner| uids.contains(owner.uid.as_str()))
    };
    let me = BTreeSet::from([uid.as_str()]);
    let sets: BTreeSet<&str> = sets
        .iter()
        .filter(|set| owned(&set.metadata.owner_references, &me))
        .filter_map(|set| set.metadata.uid.as_deref())
        .collect();
    let pods = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter(|pod| owned(&pod.metadata.owner_references, &sets))
        .map(|pod| replica(pod))
        .collect();
    let replicas = usize::try_from(wanted).unwrap_or_default();
    Workload { key: format!("{namespace}/{name}"), namespace, uid, generation, replicas, settled, pods }
}

fn replica(pod: &Pod) -> Replica {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    Replica {
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        ready: conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True"),
        created: pod.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
    }
}

/// What to do about a Deployment; an eviction that was granted is to be noted by [`Memory::note`].
pub(super) fn decide(workload: &Workload, candidates: &Candidates, memory: &mut Memory) -> Verdict {
    if memory.uid != workload.uid || memory.generation != workload.generation {
        *memory = Memory { uid: workload.uid.clone(), generation: workload.generation, ..Memory::default() };
    }
    let Workload { replicas, pods, .. } = workload;
    let evicted_is_there = pods.iter().any(|pod| pod.uid == memory.evicted);
    let all_ready = pods.len() == *replicas && pods.iter().all(|pod| pod.ready && !pod.node.is_empty());
    // One that is ready stays: fewer than two are never touched.
    if *replicas < 2 {
        return Verdict::Spread;
    }
    if !workload.settled || !all_ready || evicted_is_there {
        return Verdict::Wait;
    }
    let mut by_node: BTreeMap<&str, Vec<&Replica>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(&pod.node).or_default().push(pod);
    }
    if by_node.len() > memory.nodes {
        // The last one has helped, or somebody else did.
        memory.tried.clear();
    }
    let elsewhere = candidates.names.iter().any(|name| !by_node.contains_key(name.as_str()));
    if !elsewhere || by_node.len() >= *replicas {
        memory.tried.clear();
        return Verdict::Spread;
    }
    if memory.tried.contains(&candidates.fingerprint) {
        return Verdict::Futile;
    }
    let fullest = by_node.values().max_by_key(|pods| pods.len());
    // The youngest has the fewest connections.
    let youngest = fullest.and_then(|pods| pods.iter().max_by_key(|pod| (pod.created, &pod.name)));
    youngest.map_or(Verdict::Spread, |pod| Verdict::Evict((*pod).clone()))
}

impl Memory {
    /// A pod was evicted with these candidates.
    pub(super) fn note(&mut self, workload: &Workload, candidates: &Candidates, pod: &Replica) {
        let nodes: BTreeSet<_> = workload.pods.iter().map(|pod| &pod.node).collect();
        self.nodes = nodes.len();
        self.tried.insert(candidates.fingerprint);
        self.evicted = pod.uid.clone();
    }
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
