//! How a cluster fares: containers by the engine's word, nodes by the API's.
//!
//! It only looks; `hoist up` mends what it finds.

use std::fmt;
use std::time::Duration;

use hoist_phases::causes;
use hoist_phases::phases::containers::{is_stranded, killed};
use hoist_phases::phases::network::{attach, mapped_at};
use hoist_phases::phases::{images, machines, placement, steward, upgrade};
use hoist_phases::ports::{ContainerState, KubeApi, Runtime, RuntimeError, Status as Run, label};
use hoist_phases::spec::networking::API_PORT;
use hoist_phases::spec::{
    Backend, ClusterSpec, Component, EtcdSpec, KubernetesVersion, PortMapping, Protocol, REGISTRY_PORT,
};
use serde::Serialize;
use serde_json::Value;

use super::identity;
use super::ready::not_ready;

/// Share of etcd's quota, in percent, above which [`status`] warns: past the quota etcd takes no
/// more writes.
const QUOTA_WARNING: u64 = 80;

/// For all that the API is asked: a server without its store takes a minute to give up.
const API_WITHIN: Duration = Duration::from_secs(5);

/// Kind of nodes that joined without hoist.
const EXTERNAL: &str = "external";

/// State of a container that should be there.
const MISSING: &str = "missing";

/// A cluster in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Overall {
    /// Everything runs, every node is Ready.
    Running,
    /// Something runs, but [`Status::problems`] isn't empty.
    Degraded,
    /// Everything that runs is frozen (`hoist pause`).
    Paused,
    /// Containers are there, none runs.
    Stopped,
    /// The engine has nothing of that name.
    Absent,
}

impl fmt::Display for Overall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Degraded => "degraded",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Absent => "absent",
        })
    }
}

/// A cluster as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub cluster: String,
    pub overall: Overall,
    pub components: Vec<ComponentStatus>,
    pub nodes: Vec<NodeStatus>,
    /// Ports of the host that lead to nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortStatus>,
    /// What is wrong, one a line.
    pub problems: Vec<String>,
    /// What is as asked for only in part, by what this Kubernetes can do; nothing is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One component's container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    pub name: String,
    /// `running`, `exited (1)`, `missing` and the like.
    pub state: String,
    /// Of Kubernetes, where it is a component of that: the version of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<KubernetesVersion>,
    /// Starts by the engine after an end of its own.
    pub restarts: u32,
    /// RFC 3339; absent when it never ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Where it is published on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// A port of the host that leads to nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortStatus {
    /// Where the engine has published it.
    pub host: String,
    pub protocol: Protocol,
    /// Of the nodes.
    pub port: u16,
    /// The one node it leads to, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// One node, by its container, by its Node object, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    pub name: String,
    /// State of its container; absent for machines that hoist doesn't run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// What it runs on: `container` or `vm`; `external` for machines that hoist doesn't run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `kvm` or `tcg`, of virtual machines that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<String>,
    /// Absent when the API doesn't answer or knows no such Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The kubelet's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// On the cluster's network, the one of the primary family first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// When it joined, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<String>,
}

/// Looks at a cluster. Without `api` (no kubeconfig is left) nodes are told by their containers
/// alone, without `spec` (no state is left) no component that not every cluster has is missed, and
/// without `identity` (see [`super::identity`]) nobody knows whether its data is that of the last `up`.
///
/// # Errors
/// When the engine can't tell. An API that doesn't answer is a problem in the [`Status`].
pub async fn status(
    runtime: &dyn Runtime,
    api: Option<&dyn KubeApi>,
    cluster: &str,
    spec: Option<&ClusterSpec>,
    identity: Option<&str>,
) -> Result<Status, RuntimeError> {
    let containers = runtime.list(Some(cluster)).await?;
    let api_port = spec.map_or(API_PORT, ClusterSpec::api_port);
    if let Some(paused) = paused(cluster, &containers, api_port) {
        return Ok(paused);
    }
    let by_role = |role: &str| containers.iter().find(|c| role_of(c) == Some(role));
    let mut problems = Vec::new();

    let attached = foreign_owner(runtime, by_role(attach::ROLE)).await?;
    let owner = attached.as_ref().or_else(|| by_role(Component::Owner.name()));
    let mut components = Vec::new();
    for component in Component::ALL {
        // Those two are somebody else's then.
        if attached.is_some() && matches!(component, Component::Owner | Component::Dnsmasq) {
            continue;
        }
        let container = by_role(component.name());
        let wanted = spec.map_or(component.is_in_every_cluster(), |spec| spec.runs(component));
        if !wanted && container.is_none() {
            continue;
        }
        components.push(describe(component, container, owner, api_port));
        match container {
            None => problems.push(format!("{component} is missing")),
            Some(container) if container.status != Run::Running => {
                problems.push(format!("{component} is {}", state(&container.status)));
            }
            Some(container) => {
                let stranded = owner.filter(|owner| is_stranded(container, owner));
                problems.extend(stranded.map(|_| {
                    format!("{component} is in the network namespace of an earlier run of the owner; `hoist up` starts it again")
                }));
            }
        }
    }

    problems.extend(spec.and_then(|spec| unfinished(&containers, spec)));
    if let Some(etcd) = by_role(Component::Etcd.name()).filter(|etcd| etcd.status == Run::Running) {
        problems.extend(alarm(runtime, &etcd.name).await);
    }
    if let Some(steward) = by_role(Component::Steward.name()).filter(|s| s.status == Run::Running) {
        problems.extend(troubles_of_steward(runtime, &steward.name).await);
    }

    let mut nodes = machines_of(runtime, &containers, &mut problems).await;
    let any_running = containers.iter().any(|container| container.status == Run::Running);
    if let Some(api) = api.filter(|_| any_running) {
        let full = async { nearly_full(api, &spec?.etcd).await };
        let another = async { matches!(identity, Some(noted) if identity::is_another(api, noted).await) };
        let asked = async { tokio::join!(api.list("v1", "Node", None), full, another) };
        match tokio::time::timeout(API_WITHIN, asked).await {
            Ok((found, full, another)) => {
                match found {
                    Ok(found) => merge(&mut nodes, &found, spec, &mut problems),
                    Err(error) => problems.push(format!("the API doesn't answer: {}", causes(&error))),
                }
                problems.extend(full);
                if another {
                    problems.insert(0, identity::LOST.to_owned());
                }
            }
            Err(_) => {
                problems.push(format!("the API doesn't answer within {} s", API_WITHIN.as_secs()));
            }
        }
    }
    if identity.is_some() && spec.is_some_and(|spec| spec.etcd.in_memory() > 0) && !holds_memory(&containers)
    {
        problems.insert(0, identity::LOST.to_owned());
    }

    let overall = match (containers.is_empty(), any_running, problems.is_empty()) {
        (true, ..) => Overall::Absent,
        (_, false, _) => Overall::Stopped,
        (_, _, true) => Overall::Running,
        (_, _, false) => Overall::Degraded,
    };
    if overall == Overall::Absent {
        // That all components are missing is no news then.
        (components, problems) = (Vec::new(), Vec::new());
    }
    let published = owner.map(|owner| owner.published.as_slice()).unwrap_or_default();
    let mappings = spec.map(|spec| spec.ports.as_slice()).unwrap_or_default();
    let port = |(mapping, host): (&PortMapping, std::net::SocketAddr)| PortStatus {
        host: host.to_string(),
        protocol: mapping.protocol,
        port: mapping.port,
        node: mapping.node.map(|number| format!("node{number:02}")),
    };
    let ports = mapped_at(mappings, published).map(port).collect();
    let notes = spec.and_then(placement::limitation).into_iter().collect();
    Ok(Status { cluster: cluster.to_owned(), overall, components, nodes, ports, problems, notes })
}

/// What an upgrade that was cut off has not come to.
fn unfinished(containers: &[ContainerState], spec: &ClusterSpec) -> Option<String> {
    let left = upgrade::stale(containers, spec);
    let names: Vec<_> = left.iter().map(|component| component.name()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "an upgrade to {to} has not ended: not yet of it {} {}; `hoist upgrade --name {name} --kubernetes {to}` goes on",
            if names.len() == 1 { "is" } else { "are" },
            names.join(", "),
            name = spec.name,
            to = spec.kubernetes
        )
    })
}

/// The owner of the namespace in attach mode, which carries no label: the keeper shares it.
async fn foreign_owner(
    runtime: &dyn Runtime,
    keeper: Option<&ContainerState>,
) -> Result<Option<ContainerState>, RuntimeError> {
    match keeper.and_then(|keeper| keeper.network_of.as_deref()) {
        Some(owner) => runtime.inspect(owner).await,
        None => Ok(None),
    }
}

/// The status of a cluster that is frozen as a whole: there is nobody to ask for more.
fn paused(cluster: &str, containers: &[ContainerState], api_port: u16) -> Option<Status> {
    let count = |wanted: fn(&Run) -> bool| containers.iter().filter(|c| wanted(&c.status)).count();
    let frozen = count(|status| *status == Run::Paused);
    if frozen == 0 || count(|status| matches!(status, Run::Running | Run::Restarting { .. })) > 0 {
        return None;
    }
    let by_role = |component: Component| containers.iter().find(|c| role_of(c) == Some(component.name()));
    let present = Component::ALL.into_iter().filter(|component| by_role(*component).is_some());
    let owner = by_role(Component::Owner);
    let components =
        present.map(|component| describe(component, by_role(component), owner, api_port)).collect();
    let machines = containers.iter().filter(|c| role_of(c) == Some(machines::ROLE));
    let nodes = machines.map(|container| NodeStatus {
        name: container.labels.get(label::NODE).unwrap_or(&container.name).clone(),
        container: Some(state(&container.status)),
        kind: container.labels.get(label::KIND).cloned(),
        ..NodeStatus::default()
    });
    Some(Status {
        cluster: cluster.to_owned(),
        overall: Overall::Paused,
        components,
        nodes: nodes.collect(),
        ports: Vec::new(),
        problems: vec![format!("{frozen} containers are paused; `hoist resume` lets them go on")],
        notes: Vec::new(),
    })
}

/// Whether one of the containers that mount the memory of etcd or kine has a process, without which the engine
/// unmounts it.
fn holds_memory(containers: &[ContainerState]) -> bool {
    let holders = [Component::Owner.name(), Component::Etcd.name(), Component::Kine.name(), attach::ROLE];
    let ended = |status: &Run| matches!(status, Run::Created | Run::Exited { .. });
    containers.iter().any(|c| role_of(c).is_some_and(|role| holders.contains(&role)) && !ended(&c.status))
}

fn role_of(container: &ContainerState) -> Option<&str> {
    container.labels.get(label::ROLE).map(String::as_str)
}

fn state(status: &Run) -> String {
    match status {
        Run::Created => "created".to_owned(),
        Run::Running => "running".to_owned(),
        Run::Restarting { code } => format!("restarting after exit code {code}{}", killed(*code)),
        Run::Paused => "paused".to_owned(),
        Run::Exited { oom_killed: true, .. } => "exited (out of memory)".to_owned(),
        Run::Exited { code, .. } => format!("exited ({code})"),
    }
}

fn describe(
    component: Component,
    container: Option<&ContainerState>,
    owner: Option<&ContainerState>,
    api_port: u16,
) -> ComponentStatus {
    // Ports belong to the namespace: the owner publishes them for whoever listens.
    let listens = match component {
        Component::ApiServer => Some(api_port),
        Component::Registry => Some(REGISTRY_PORT),
        _ => None,
    };
    let published = owner.map(|owner| owner.published.as_slice()).unwrap_or_default();
    let endpoint = published.iter().find(|port| Some(port.container) == listens);
    let started = container.map(|c| c.started_at.clone()).filter(|started| !started.is_empty());
    ComponentStatus {
        name: component.name().to_owned(),
        state: container.map_or_else(|| MISSING.to_owned(), |c| state(&c.status)),
        version: container.filter(|_| component.is_kubernetes()).and_then(|c| images::version(&c.image)),
        restarts: container.map_or(0, |c| c.restarts),
        started,
        endpoint: endpoint.map(|port| port.host.to_string()),
    }
}

/// What the steward says that it can't do, or that it doesn't answer.
async fn troubles_of_steward(runtime: &dyn Runtime, container: &str) -> Vec<String> {
    match steward::health(runtime, container).await {
        Ok(output) if output.code == 0 => {
            output.stdout.lines().map(|line| format!("steward: {line}")).collect()
        }
        Ok(output) => vec![format!("steward: {}{}", output.stdout, output.stderr).trim_end().to_owned()],
        Err(error) => vec![format!("steward doesn't answer: {error}")],
    }
}

async fn machines_of(
    runtime: &dyn Runtime,
    containers: &[ContainerState],
    problems: &mut Vec<String>,
) -> Vec<NodeStatus> {
    let mut nodes = Vec::new();
    for container in containers.iter().filter(|c| role_of(c) == Some(machines::ROLE)) {
        let name = container.labels.get(label::NODE).unwrap_or(&container.name).clone();
        if container.status != Run::Running {
            problems.push(format!("container of {name} is {}", state(&container.status)));
        }
        let kind = container.labels.get(label::KIND).cloned();
        let accelerator = match (kind.as_deref(), &container.status) {
            (Some("vm"), Run::Running) => machines::accelerator(runtime, &container.name).await,
            _ => None,
        };
        let container = Some(state(&container.status));
        nodes.push(NodeStatus { name, container, kind, accelerator, ..NodeStatus::default() });
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

/// Adds what the API knows of the nodes.
fn merge(
    nodes: &mut Vec<NodeStatus>,
    found: &[Value],
    spec: Option<&ClusterSpec>,
    problems: &mut Vec<String>,
) {
    let of_hoist = |name: &str| spec.and_then(|spec| spec.nodes.iter().find(|node| node.name() == name));
    for node in found {
        let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let name = text("/metadata/name").unwrap_or_default();
        let unready = not_ready(node);
        let addresses = node["status"]["addresses"].as_array();
        let internal = addresses.into_iter().flatten().filter(|a| a["type"] == "InternalIP");
        let internal = internal.filter_map(|a| a["address"].as_str()).map(str::to_owned);
        let known = nodes.iter().position(|known| known.name == name).unwrap_or_else(|| {
            let lost = of_hoist(&name);
            problems.extend(lost.map(|_| format!("container of {name} is missing")));
            nodes.push(NodeStatus {
                name: name.clone(),
                container: lost.map(|_| MISSING.to_owned()),
                kind: Some(lost.map_or_else(|| EXTERNAL.to_owned(), |node| node.kind.to_string())),
                ..NodeStatus::default()
            });
            nodes.len() - 1
        });
        nodes[known] = NodeStatus {
            ready: Some(unready.is_none()),
            version: text("/status/nodeInfo/kubeletVersion"),
            addresses: internal.collect(),
            joined: text("/metadata/creationTimestamp"),
            ..nodes[known].clone()
        };
        problems.extend(unready.map(|why| format!("{name} is not Ready: {why}")));
    }
    let absent = nodes.iter().filter(|node| node.ready.is_none());
    problems.extend(absent.map(|node| format!("{} has not joined", node.name)));
}

/// What etcd has raised an alarm about: past its quota it takes no writes until somebody takes the alarm
/// back, whatever is removed. An image without its tool tells nothing.
async fn alarm(runtime: &dyn Runtime, etcd: &str) -> Option<String> {
    let look = ["/usr/local/bin/etcdctl", "--command-timeout=3s", "alarm", "list"];
    let output = runtime.exec(etcd, &look, &[]).await.ok().filter(|output| output.code == 0)?;
    output.stdout.contains("NOSPACE").then(|| {
        "etcd is full (NOSPACE) and takes no writes: give it a larger etcd.quota by `hoist up`".to_owned()
    })
}

/// Warns before the store is full. The API server measures its size (metric
/// `apiserver_storage_size_bytes`), so that etcd itself needn't be reachable from here.
async fn nearly_full(api: &dyn KubeApi, etcd: &EtcdSpec) -> Option<String> {
    let (quota, remedy) = match etcd.backend {
        Backend::Etcd => (etcd.quota_bytes, "a larger etcd.quota gives it room"),
        Backend::Kine if !etcd.durable => {
            (etcd.tmpfs_bytes, "a new cluster may have a larger etcd.tmpfsSize")
        }
        Backend::Kine | Backend::External(_) => return None,
    };
    let (_, metrics) = api.get_path("/metrics").await.ok().filter(|(code, _)| *code == 200)?;
    let size = storage_size(&metrics)?;
    let full = size.saturating_mul(100) >= quota.saturating_mul(QUOTA_WARNING);
    let (size, quota) = (size >> 20, quota >> 20);
    full.then(|| {
        let name = &etcd.backend;
        format!(
            "{name} holds {size} MiB of at most {quota} MiB; it takes no more writes when that is full; {remedy}"
        )
    })
}

fn storage_size(metrics: &str) -> Option<u64> {
    let line = metrics.lines().find(|line| line.starts_with("apiserver_storage_size_bytes"))?;
    // Prometheus writes large numbers with an exponent.
    let bytes: f64 = line.rsplit(' ').next()?.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size below 2^53, never negative"
    )]
    Some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes_as_prometheus_writes_them() {
        let metrics = "# TYPE apiserver_storage_size_bytes gauge\napiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} 2.4576e+06\n";
        assert_eq!(storage_size(metrics), Some(2_457_600));
        assert_eq!(storage_size("apiserver_other 1\n"), None);
    }
}
