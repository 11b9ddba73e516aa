//! The steward: keeps what must follow the nodes after `up` has returned. It runs in a container
//! of the shared namespace, from the very program that made the cluster.
//!
//! Each duty is a pure decision over what is there, made anew whenever anything changes and every
//! few seconds besides. Nothing is remembered that could be wrong after a kill.

mod datagrams;
mod health;
mod mirror;
mod netlink;
mod relay;
mod roles;
mod routes;
mod server;
mod spread;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hoist_phases::causes;
use hoist_phases::phases::steward::{KUBECONFIG_PATH, SETTINGS_PATH, Settings};
use hoist_phases::ports::{Eviction, KubeApi, KubeError};
use hoist_phases::spec::{Protocol, Spread};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::Store;
use tokio::sync::watch;

use crate::cluster::kube::{Access, AccessError, Api};
use crate::files::{self, FileError};
use health::Health;
use mirror::{Changes, mirror};

pub use server::{ServerError, ask};

/// A duty looks again after this time though nothing was heard: routes can be lost without a word
/// from the API, and an eviction that was refused may be granted by now.
const PERIOD: Duration = Duration::from_secs(5);

/// After a look that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Between two looks while changes come in one after the other.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum StewardError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0} is missing: the steward runs in the container that `hoist up` makes for it")]
    Missing(&'static str),
    #[error("{SETTINGS_PATH} can't be read")]
    Settings(#[source] serde_json::Error),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// What all duties share.
struct Steward {
    settings: Settings,
    api: Api,
    health: Arc<Health>,
    nodes: Store<Node>,
}

/// What spreading looks at besides nodes.
struct Workloads {
    deployments: Store<Deployment>,
    sets: Store<ReplicaSet>,
    pods: Store<Pod>,
}

/// Does all duties until the process is ended.
///
/// # Errors
/// When settings or kubeconfig can't be used, or the port is taken.
pub async fn run() -> Result<Infallible, StewardError> {
    let settings: Settings = serde_json::from_slice(&read(SETTINGS_PATH)?).map_err(StewardError::Settings)?;
    let access = Access::from_kubeconfig(&String::from_utf8_lossy(&read(KUBECONFIG_PATH)?))?;
    let client = access.client()?;
    let mut kinds = vec!["nodes"];
    if settings.spread.enabled {
        kinds.extend(["deployments", "replicasets", "pods"]);
    }
    let health = Arc::new(Health::new(kinds));
    let [for_routes, for_roles, for_spread] = [(); 3].map(Changes::new);

    let all = [for_routes.clone(), for_roles.clone(), for_spread.clone()];
    let nodes = mirror("nodes", kube::Api::all(client.clone()), strip_node, &all, &health);
    // They serve for as long as the process lives, whatever becomes of the API.
    for wanted in &settings.relays {
        let targets = relay::Targets::new(wanted.clone(), nodes.clone());
        let (at, health, protocol) = (relay::listen_address(wanted), Arc::clone(&health), wanted.protocol);
        tokio::spawn(async move {
            let ended = match protocol {
                Protocol::Tcp => relay::tcp(targets).await,
                Protocol::Udp => datagrams::udp(targets, at).await,
            };
            let Err(error) = ended;
            health.set("ports", Some(format!("listen at {at}/{}: {error}", protocol.lower())));
        });
    }
    let (served, api) = (Arc::clone(&health), access.connect()?);
    let steward = Steward { settings, api, health, nodes };
    let workloads = steward.workloads(&client, &for_spread);
    tokio::try_join!(
        async { Ok(server::serve(served).await?) },
        keep(&steward, "routes", for_routes.subscribe(), || steward.routes()),
        keep(&steward, "roles", for_roles.subscribe(), || steward.roles()),
        async {
            match workloads {
                Some(workloads) => steward.spread(&workloads, for_spread.subscribe()).await,
                None => std::future::pending().await,
            }
        },
    )
    .map(|(never, ..)| never)
}

fn read(path: &'static str) -> Result<Vec<u8>, StewardError> {
    files::read(std::path::Path::new(path))?.ok_or(StewardError::Missing(path))
}

/// Does a duty again and again, whatever becomes of it.
async fn keep<F>(
    steward: &Steward,
    duty: &'static str,
    mut changes: watch::Receiver<()>,
    mut look: impl FnMut() -> F,
) -> Result<Infallible, StewardError>
where
    F: Future<Output = Result<(), String>>,
{
    loop {
        // Nothing is decided on nodes that have not been heard of: all routes would go.
        if steward.nodes.wait_until_ready().await.is_err() {
            return std::future::pending().await;
        }
        changes.mark_unchanged();
        let done = look().await;
        let pause = if done.is_ok() { PERIOD } else { RETRY };
        steward.health.set(duty, done.err());
        // The sender lives as long as the process.
        let _ = tokio::time::timeout(pause, changes.changed()).await;
        tokio::time::sleep(PAUSE).await;
    }
}

impl Steward {
    async fn routes(&self) -> Result<(), String> {
        let nodes = self.nodes.state();
        // None at all where pods are reached otherwise: those of an earlier setting go.
        let nodes: &[_] = if self.settings.routes { &nodes } else { &[] };
        let claims = routes::claims(nodes.iter().map(AsRef::as_ref), &self.settings.pod_subnets);
        self.health.routes(claims.len());
        let (done, failed) = routes::apply(&claims).await;
        for route in &done.remove {
            tracing::info!("route {route} removed");
            self.health.changed("route-removed");
        }
        for route in &done.add {
            tracing::info!("route {route} added");
            self.health.changed("route-added");
        }
        all_well(failed.iter().map(|error| causes(error)).collect())
    }

    async fn roles(&self) -> Result<(), String> {
        let nodes = self.nodes.state();
        let nodes: Vec<&Node> = nodes.iter().map(AsRef::as_ref).collect();
        let mut failed = Vec::new();
        let Settings { roles, elsewhere, .. } = &self.settings;
        for roles::Patch { node, patch } in roles::decide(&nodes, roles, *elsewhere) {
            match self.api.merge_patch(&node, &patch).await {
                Ok(_) => {
                    tracing::info!("roles of {} set", node.name);
                    self.health.changed("roles");
                }
                // Changed or removed since: word of it is under way.
                Err(KubeError::Status { code: 404 | 409, .. }) => {}
                Err(error) => failed.push(causes(&error)),
            }
        }
        all_well(failed)
    }

    fn workloads(&self, client: &kube::Client, changes: &Changes) -> Option<Workloads> {
        let spread = &self.settings.spread;
        let (health, changes) = (&self.health, std::slice::from_ref(changes));
        spread.enabled.then(|| Workloads {
            deployments: mirror("deployments", scoped(client, spread), strip_deployment, changes, health),
            sets: mirror("replicasets", scoped(client, spread), strip_set, changes, health),
            pods: mirror("pods", scoped(client, spread), strip_pod, changes, health),
        })
    }

    async fn spread(
        &self,
        workloads: &Workloads,
        changes: watch::Receiver<()>,
    ) -> Result<Infallible, StewardError> {
        let memories = tokio::sync::Mutex::new(BTreeMap::new());
        keep(self, "spread", changes, || async {
            let ready = tokio::try_join!(
                workloads.deployments.wait_until_ready(),
                workloads.sets.wait_until_ready(),
                workloads.pods.wait_until_ready()
            );
            ready.map_err(|error| causes(&error))?;
            self.spread_once(workloads, &mut *memories.lock().await).await
        })
        .await
    }

    /// Looks at each Deployment once.
    async fn spread_once(
        &self,
        workloads: &Workloads,
        memories: &mut BTreeMap<String, spread::Memory>,
    ) -> Result<(), String> {
        let nodes = self.nodes.state();
        let (sets, pods) = (workloads.sets.state(), workloads.pods.state());
        let sets: Vec<_> = sets.iter().map(AsRef::as_ref).collect();
        let pods: Vec<_> = pods.iter().map(AsRef::as_ref).collect();
        let concerned = |deployment: &Deployment| spread::concerns(&self.settings.spread, deployment);
        let workloads: Vec<_> = workloads
            .deployments
            .state_filter(concerned)
            .iter()
            .map(|deployment| {
                let candidates = spread::candidates(nodes.iter().map(AsRef::as_ref), deployment);
                (spread::workload(deployment, &sets, &pods), candidates)
            })
            .collect();
        memories.retain(|key, _| workloads.iter().any(|(workload, _)| workload.key == *key));
        let mut failed = Vec::new();
        for (workload, candidates) in &workloads {
            let memory = memories.entry(workload.key.clone()).or_default();
            let spread::Verdict::Evict(pod) = spread::decide(workload, candidates, memory) else { continue };
            match self.api.evict(&workload.namespace, &pod.name).await {
                Ok(Eviction::Granted) => {
                    memory.note(workload, candidates, &pod);
                    tracing::info!("pod {}/{} evicted from {}", workload.namespace, pod.name, pod.node);
                    self.health.changed("eviction");
                }
                // Asked for again until the disruption budget allows it.
                Ok(Eviction::Blocked(why)) => {
                    tracing::debug!("pod {}/{} stays for now: {why}", workload.namespace, pod.name);
                    self.health.changed("eviction-blocked");
                }
                Err(error) => failed.push(causes(&error)),
            }
        }
        all_well(failed)
    }
}

/// All objects, or those of the one namespace that is needed.
fn scoped<K>(client: &kube::Client, spread: &Spread) -> kube::Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    match spread::scope(spread) {
        Some(namespace) => kube::Api::namespaced(client.clone(), namespace),
        None => kube::Api::all(client.clone()),
    }
}

fn all_well(failed: Vec<String>) -> Result<(), String> {
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn strip(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
}

fn strip_node(node: &mut Node) {
    strip(&mut node.metadata);
    if let Some(status) = node.status.as_mut() {
        (status.images, status.volumes_in_use, status.volumes_attached) = (None, None, None);
    }
}

fn strip_deployment(deployment: &mut Deployment) {
    strip(&mut deployment.metadata);
    deployment.metadata.annotations = None;
    if let Some(spec) = deployment.spec.as_mut() {
        let pod = spec.template.spec.take().map(|pod| PodSpec {
            affinity: pod.affinity,
            node_selector: pod.node_selector,
            tolerations: pod.tolerations,
            ..PodSpec::default()
        });
        spec.template = PodTemplateSpec { spec: pod, ..PodTemplateSpec::default() };
    }
}

fn strip_set(set: &mut ReplicaSet) {
    strip(&mut set.metadata);
    set.metadata.annotations = None;
    set.spec = None;
}

fn strip_pod(pod: &mut Pod) {
    strip(&mut pod.metadata);
    pod.metadata.annotations = None;
    if let Some(spec) = pod.spec.as_mut() {
        *spec = PodSpec { node_name: spec.node_name.take(), ..PodSpec::default() };
    }
    if let Some(status) = pod.status.as_mut() {
        (status.container_statuses, status.init_container_statuses) = (None, None);
    }
}
