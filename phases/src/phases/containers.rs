//! Makes a container what its specification says, and tells why one that should run does not.

use std::sync::Arc;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::ports::{
    ContainerSpec, ContainerState, Mount, MountKind, Network, Runtime, RuntimeError, Status, label,
};
use crate::spec::{Attach, ClusterName, ClusterSpec, Component, Owner};

pub use super::watch::Watch;

/// The grace a component gets before it is killed, in seconds: etcd needs a moment to close its log.
const STOP_GRACE_SECS: u32 = 10;

/// The same for kube-apiserver. Asked to end, it takes no new requests and answers what it has within
/// moments, but then waits up to a minute for watches that nobody ends (seen with v1.36.3: more than 30 s).
const API_SERVER_GRACE_SECS: u32 = 3;

/// The same for one in a namespace that is no more: nobody can talk to it, and an API server without
/// etcd would use up any time.
const STRANDED_GRACE_SECS: u32 = 2;

#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("{name} ended with exit code {code}{oom}; its last lines:\n{log}", oom = if *oom_killed { " (out of memory)" } else { "" })]
    Ended { name: String, code: i64, oom_killed: bool, log: String },
    #[error("{name} keeps ending ({ends} times) with exit code {code}{}; its last lines:\n{log}", killed(*code))]
    KeepsEnding { name: String, ends: u32, code: i64, log: String },
    #[error("{0} is gone")]
    Gone(String),
    #[error("a container {0} is there that hoist has not made for this cluster; rename or remove it")]
    Foreign(String),
}

/// What an exit code says to those who don't know signals by number (128 + 9).
pub fn killed(code: i64) -> &'static str {
    if code == 137 { " (killed, as when out of memory)" } else { "" }
}

/// Name of a component's container: `hoist-CLUSTER-COMPONENT`, or as the owner's maker has it.
pub fn component_name(spec: &ClusterSpec, component: Component) -> String {
    match &spec.owner {
        Owner::Attach(attach) if component == Component::Owner => attach.container.clone(),
        _ => format!("{}-{component}", name_prefix(spec)),
    }
}

/// What the names of a cluster's components and of their volumes begin with.
pub fn name_prefix(spec: &ClusterSpec) -> String {
    match &spec.owner {
        Owner::Attach(Attach { prefix: Some(prefix), .. }) => prefix.clone(),
        Owner::Own | Owner::Attach(_) => format!("hoist-{}", spec.name),
    }
}

/// A volume of one container alone, for its files. Where a tool of the owner's maker cleans up by
/// name, it has one: an anonymous volume would stay behind.
pub fn private_mount(spec: &ClusterSpec, container: &str, target: &str) -> Mount {
    let kind = match spec.owner.attach().and_then(|attach| attach.prefix.as_ref()) {
        Some(_) => MountKind::Volume(format!("{container}{}", target.replace('/', "-"))),
        None => MountKind::Anonymous,
    };
    Mount { target: target.to_owned(), kind }
}

/// Name of a node's container, and prefix of its volumes.
pub fn node_name(cluster: &ClusterName, node: &str) -> String {
    format!("hoist-{cluster}-{node}")
}

/// Creates, re-creates or starts a container so that it runs as specified; `true` when it had to.
///
/// # Errors
/// When the engine refuses.
pub async fn reconcile(
    runtime: &Arc<dyn Runtime>,
    cluster: &ClusterName,
    role: &str,
    mut spec: ContainerSpec,
) -> Result<bool, ContainerError> {
    spec.labels.insert(label::CLUSTER.to_owned(), cluster.to_string());
    spec.labels.insert(label::ROLE.to_owned(), role.to_owned());
    let hash = spec.content_hash();
    spec.labels.insert(label::HASH.to_owned(), hash.clone());

    let found = runtime.inspect(&spec.name).await?;
    own(found.as_ref(), cluster)?;
    let owner = match &spec.network {
        Network::Container(owner) => runtime.inspect(owner).await?,
        Network::Own | Network::None => None,
    };
    match decide(found.as_ref(), &hash, owner.as_ref()) {
        Decision::Keep => return Ok(false),
        Decision::Start => {}
        Decision::Restart => runtime.stop(&spec.name, STRANDED_GRACE_SECS).await?,
        Decision::Recreate => {
            runtime.stop(&spec.name, grace_secs(role)).await?;
            runtime.remove(&spec.name).await?;
            runtime.create(&spec).await?;
        }
        Decision::Create => {
            runtime.create(&spec).await?;
        }
    }
    runtime.start(&spec.name).await?;
    Ok(true)
}

fn grace_secs(role: &str) -> u32 {
    if role == Component::ApiServer.name() { API_SERVER_GRACE_SECS } else { STOP_GRACE_SECS }
}

/// A container of the user's that happens to have one of our names is left alone.
fn own(found: Option<&ContainerState>, cluster: &ClusterName) -> Result<(), ContainerError> {
    let ours = |state: &ContainerState| {
        state.labels.get(label::CLUSTER).map(String::as_str) == Some(cluster.as_str())
    };
    match found {
        Some(state) if !ours(state) => Err(ContainerError::Foreign(state.name.clone())),
        _ => Ok(()),
    }
}

/// Removes a container of this cluster; succeeds when there is none.
///
/// # Errors
/// When the engine refuses, or the container isn't this cluster's.
pub async fn remove_own(
    runtime: &dyn Runtime,
    cluster: &ClusterName,
    name: &str,
) -> Result<(), ContainerError> {
    own(runtime.inspect(name).await?.as_ref(), cluster)?;
    Ok(runtime.remove(name).await?)
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Create,
    Recreate,
    Restart,
    Start,
    Keep,
}

/// What to do about a container, given the one whose network namespace it should share.
fn decide(found: Option<&ContainerState>, hash: &str, owner: Option<&ContainerState>) -> Decision {
    let Some(found) = found else { return Decision::Create };
    if found.labels.get(label::HASH).map(String::as_str) != Some(hash) {
        return Decision::Recreate;
    }
    if let Some(owner) = owner {
        if joined_another(found, owner) {
            return Decision::Recreate;
        }
        if found.status == Status::Running && started_before(found, owner) {
            return Decision::Restart;
        }
    }
    match found.status {
        Status::Running | Status::Restarting { .. } => Decision::Keep,
        // Files go in after the creation: whoever was cut off between the two has left it without.
        Status::Created => Decision::Recreate,
        Status::Paused | Status::Exited { .. } => Decision::Start,
    }
}

/// Whether `sharer` holds another network namespace than `owner` has: an earlier one of the same
/// container, or that of a container which had its place before.
pub fn is_stranded(sharer: &ContainerState, owner: &ContainerState) -> bool {
    sharer.id != owner.id && (joined_another(sharer, owner) || started_before(sharer, owner))
}

/// A namespace is joined by container id (some engines tell the name): a re-made owner leaves its
/// sharers with a dead one.
fn joined_another(sharer: &ContainerState, owner: &ContainerState) -> bool {
    sharer.network_of.as_ref().is_some_and(|of| *of != owner.id && *of != owner.name)
}

/// A namespace lives as long as the owner's process.
fn started_before(sharer: &ContainerState, owner: &ContainerState) -> bool {
    let moment = |state: &ContainerState| OffsetDateTime::parse(&state.started_at, &Rfc3339).ok();
    match (moment(sharer), moment(owner)) {
        (Some(sharer), Some(owner)) => sharer < owner,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(hash: &str, status: Status, started_at: &str) -> ContainerState {
        ContainerState {
            id: "id".into(),
            name: "name".into(),
            image: String::new(),
            labels: [(label::HASH.to_owned(), hash.to_owned())].into(),
            status,
            restarts: 0,
            published: Vec::new(),
            started_at: started_at.into(),
            lived: None,
            network_of: Some("owner".into()),
        }
    }

    fn owner(id: &str, started_at: &str) -> ContainerState {
        ContainerState { id: id.into(), ..state("h", Status::Running, started_at) }
    }

    const EARLY: &str = "2026-01-01T00:00:00.5Z";
    // Later than EARLY, though it sorts before it as text.
    const LATE: &str = "2026-01-01T00:00:00.51Z";

    #[test]
    fn keeps_what_is_right() {
        let running = state("h", Status::Running, LATE);
        assert_eq!(decide(Some(&running), "h", Some(&owner("owner", EARLY))), Decision::Keep);
    }

    #[test]
    fn a_container_of_the_users_is_left_alone() {
        let cluster = crate::spec::test_spec().name;
        let users = state("h", Status::Running, LATE);
        assert!(matches!(own(Some(&users), &cluster), Err(ContainerError::Foreign(name)) if name == "name"));
        let mut ours = users;
        ours.labels.insert(label::CLUSTER.to_owned(), cluster.to_string());
        assert!(own(Some(&ours), &cluster).is_ok());
        assert!(own(None, &cluster).is_ok());
    }

    #[test]
    fn remakes_what_differs() {
        assert_eq!(decide(None, "h", None), Decision::Create);
        assert_eq!(decide(Some(&state("old", Status::Running, LATE)), "h", None), Decision::Recreate);
        assert_eq!(decide(Some(&state("h", Status::Created, "")), "h", None), Decision::Recreate);
        let ended = Status::Exited { code: 1, oom_killed: false };
        assert_eq!(decide(Some(&state("h", ended, LATE)), "h", None), Decision::Start);
    }

    #[test]
    fn moby_36334_sharers_of_a_dead_namespace_are_mended() {
        let sharer = state("h", Status::Running, EARLY);
        assert_eq!(decide(Some(&sharer), "h", Some(&owner("owner", LATE))), Decision::Restart);
        assert_eq!(decide(Some(&sharer), "h", Some(&owner("another", EARLY))), Decision::Recreate);
    }
}
