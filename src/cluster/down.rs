//! Removes a cluster, by the engine's labels alone: the state directory may be gone, half-written
//! or another user's.
//!
//! Order: nodes, then what shares the namespace, then its owner, then volumes, then the state
//! directory. A thing that can't be removed stops nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hoist_phases::causes;
use hoist_phases::phases::machines;
use hoist_phases::phases::network::attach;
use hoist_phases::ports::{ContainerState, Runtime, RuntimeError, label};
use hoist_phases::spec::Component;
use serde::Serialize;

use crate::store::StateDir;

/// One thing of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "name")]
pub enum Thing {
    Container(String),
    Volume(String),
    StateDirectory(String),
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Container(name) => write!(f, "container {name}"),
            Self::Volume(name) => write!(f, "volume {name}"),
            Self::StateDirectory(path) => write!(f, "state directory {path}"),
        }
    }
}

/// What became of a removal.
#[derive(Debug, Default)]
pub struct Removal {
    pub removed: Vec<Thing>,
    pub failed: Vec<(Thing, Box<dyn Error + Send + Sync>)>,
}

/// What was left behind, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}", left(.0))]
pub struct LeftBehind(Vec<(Thing, Box<dyn Error + Send + Sync>)>);

fn left(failed: &[(Thing, Box<dyn Error + Send + Sync>)]) -> String {
    let mut lines = vec!["not everything could be removed".to_owned()];
    for (thing, error) in failed {
        lines.push(format!("{thing}: {}", causes(error.as_ref())));
    }
    lines.join("\n")
}

impl Removal {
    fn note(&mut self, thing: Thing, result: Result<(), impl Error + Send + Sync + 'static>) {
        match result {
            Ok(()) => self.removed.push(thing),
            Err(error) => self.failed.push((thing, Box::new(error))),
        }
    }

    /// The things removed.
    ///
    /// # Errors
    /// When anything was left behind.
    pub fn into_result(self) -> Result<Vec<Thing>, LeftBehind> {
        if self.failed.is_empty() { Ok(self.removed) } else { Err(LeftBehind(self.failed)) }
    }
}

/// What of a cluster was there at some moment; what came later can be removed again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Names with the engine's ids.
    containers: BTreeMap<String, String>,
    volumes: BTreeSet<String>,
    state: bool,
}

impl Snapshot {
    /// Looks at what is there now.
    ///
    /// # Errors
    /// When the engine can't tell.
    pub async fn take(runtime: &dyn Runtime, state: &StateDir) -> Result<Self, RuntimeError> {
        let cluster = state.cluster().as_str();
        let (containers, volumes) = tokio::try_join!(runtime.list(Some(cluster)), runtime.volumes(cluster))?;
        Ok(Self {
            containers: containers.into_iter().map(|container| (container.name, container.id)).collect(),
            volumes: volumes.into_iter().collect(),
            state: state.exists(),
        })
    }

    /// Names of the containers that are there now, but made anew since.
    ///
    /// # Errors
    /// When the engine can't tell.
    pub async fn replaced(&self, runtime: &dyn Runtime, cluster: &str) -> Result<Vec<String>, RuntimeError> {
        let now = runtime.list(Some(cluster)).await?.into_iter();
        let anew = |name: &str, id: &str| self.containers.get(name).is_some_and(|before| before != id);
        Ok(now
            .filter(|container| anew(&container.name, &container.id))
            .map(|container| container.name)
            .collect())
    }

    /// Whether there was nothing at all.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.volumes.is_empty() && !self.state
    }
}

/// How long what can't be removed is tried again. An `up` that was killed may have left the engine
/// making a container, whose volumes are in use before it shows up itself; filling those of a
/// node takes some seconds.
pub const SETTLE: Duration = Duration::from_secs(20);

/// Time for a keeper to take its rules back.
const KEEPER_GRACE_SECS: u32 = 5;

/// Between two tries.
const POLL: Duration = Duration::from_millis(50);

/// Removes everything of a cluster. Nothing there is no error.
///
/// # Errors
/// When the engine can't tell what there is; single things that can't be removed are in the
/// [`Removal`].
pub async fn down(runtime: &dyn Runtime, state: &StateDir) -> Result<Removal, RuntimeError> {
    down_since(runtime, state, &Snapshot::default(), SETTLE).await
}

/// As [`down`], but leaves the state directory: it still knows what is to be done elsewhere.
///
/// # Errors
/// As [`down`].
pub async fn down_but_state(runtime: &dyn Runtime, state: &StateDir) -> Result<Removal, RuntimeError> {
    let before = Snapshot { state: true, ..Snapshot::default() };
    down_since(runtime, state, &before, SETTLE).await
}

/// Removes what came into being since a snapshot was taken: what a failed `up` made. Looks again
/// until nothing is left, or what is left could not be removed for as long as `settle`.
///
/// # Errors
/// As [`down`].
pub async fn down_since(
    runtime: &dyn Runtime,
    state: &StateDir,
    before: &Snapshot,
    settle: Duration,
) -> Result<Removal, RuntimeError> {
    let begin = Instant::now();
    let mut removed = Vec::new();
    let failed = loop {
        let sweep = sweep(runtime, state.cluster().as_str(), before).await?;
        let nothing_left = sweep.removed.is_empty() && sweep.failed.is_empty();
        removed.extend(sweep.removed);
        if nothing_left || (!sweep.failed.is_empty() && begin.elapsed() >= settle) {
            break sweep.failed;
        }
        if !sweep.failed.is_empty() {
            tokio::time::sleep(POLL).await;
        }
    };
    let mut removal = Removal { removed, failed };
    if state.exists() && !before.state {
        removal.note(Thing::StateDirectory(state.path().display().to_string()), state.destroy());
    }
    Ok(removal)
}

/// Removes what there is at this moment.
async fn sweep(runtime: &dyn Runtime, cluster: &str, before: &Snapshot) -> Result<Removal, RuntimeError> {
    let mut removal = Removal::default();
    let mut containers = runtime.list(Some(cluster)).await?;
    containers.retain(|container| !before.containers.contains_key(&container.name));
    containers.sort_by_key(|container| (class(container), container.name.clone()));
    for same in containers.chunk_by(|a, b| class(a) == class(b)) {
        let results = join_all(same.iter().map(|container| remove(runtime, container))).await;
        for (container, result) in same.iter().zip(results) {
            removal.note(Thing::Container(container.name.clone()), result);
        }
    }

    // Only now: an engine keeps no list of the volumes of a container that is half removed.
    let mut volumes = runtime.volumes(cluster).await?;
    // A container that was made anew and stays has volumes without a name that weren't there before.
    let stays = |volume: &str| !before.containers.is_empty() && is_anonymous(volume);
    volumes.retain(|volume| !before.volumes.contains(volume) && !stays(volume));
    volumes.sort();
    let results = join_all(volumes.iter().map(|volume| runtime.remove_volume(volume))).await;
    for (volume, result) in volumes.iter().zip(results) {
        removal.note(Thing::Volume(volume.clone()), result);
    }
    Ok(removal)
}

/// Engines call a volume that nobody has named by 32 bytes in hexadecimal; it goes with its container.
fn is_anonymous(volume: &str) -> bool {
    volume.len() == 64 && volume.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A keeper is asked to end first: it takes its rules out of the namespace, which isn't hoist's.
async fn remove(runtime: &dyn Runtime, container: &ContainerState) -> Result<(), RuntimeError> {
    if container.labels.get(label::ROLE).map(String::as_str) == Some(attach::ROLE) {
        runtime.stop(&container.name, KEEPER_GRACE_SECS).await?;
    }
    runtime.remove(&container.name).await
}

/// Place in the order of removal.
fn class(container: &ContainerState) -> u8 {
    match container.labels.get(label::ROLE).map(String::as_str) {
        Some(machines::ROLE) => 0,
        Some(role) if role == Component::Owner.name() => 2,
        _ => 1,
    }
}
