//! Lays the data of a snapshot down beside a cluster's own, exchanges the two, and takes it back.
//!
//! Data on trial carry a mark that moves with them, so that a run which was cut off at any moment leaves
//! behind which of the two are the older: those are never deleted before the others have proved good.

use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use hoist_phases::phases::containers::component_name;
use hoist_phases::phases::etcd::{self, MEMBER, Tool};
use hoist_phases::phases::network::etcd_data;
use hoist_phases::ports::{FileEntry, Runtime};
use hoist_phases::spec::{ClusterSpec, Component};

use super::{FILE, ROOM, SnapshotError, both, not_paused, supported};
use crate::error::BoxError;

/// Beside the data in use: those to put back, and once exchanged those from before.
const SPARE: &str = "/var/lib/etcd/restored";

/// File in the directory of data that come from a snapshot, until the control plane is ready on them. etcd
/// leaves it alone and says in its log that it doesn't know it.
const TRIAL: &str = "on-trial";

/// What a script answers when the data in use are on trial and those from before are there.
const CUT_OFF: &str = "cut-off";

/// Added to the snapshot's revision; more than a cluster sees in a life of tests.
const BUMP: &str = "--bump-revision=1000000000";

/// Bytes that etcd reserves for its log at a time (etcd, server/storage/wal: 64 MB a segment): one is made
/// with the data, and the next when etcd starts on them.
const LOGS: u64 = 2 * (64 << 20);

/// Bytes for what the etcd in use writes meanwhile, whose database grows by 16 MiB at a time.
const MEANWHILE: u64 = 32 << 20;

/// Time for a component to end whose data are about to be replaced.
const GRACE_SECS: u32 = 2;

/// All that has to stop while the data change, those first that write.
const STOPPED: [Component; 5] = [
    Component::Steward,
    Component::Scheduler,
    Component::ControllerManager,
    Component::ApiServer,
    Component::Etcd,
];

/// Data of a snapshot, laid down beside those in use.
pub struct Prepared<'a> {
    spec: &'a ClusterSpec,
    runtime: &'a Arc<dyn Runtime>,
}

/// A cluster on the data of a snapshot, those from before beside them.
pub struct Restored<'a>(Prepared<'a>);

impl std::fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("cluster", &self.spec.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Restored<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Restored").field(&self.0).finish()
    }
}

/// Takes back what an earlier run has exchanged that was cut off before its end.
///
/// # Errors
/// When the cluster is paused, its data aren't in an etcd of its own, or as [`Restored::undo`].
pub async fn recover(runtime: &Arc<dyn Runtime>, spec: &ClusterSpec) -> Result<(), SnapshotError> {
    supported(spec)?;
    not_paused(runtime.as_ref(), spec).await?;
    let look = format!("if [ -e {MEMBER}/{TRIAL} ] && [ -d {SPARE} ]; then echo {CUT_OFF}; fi");
    if script(spec, runtime, &look).await?.contains(CUT_OFF) {
        Restored(Prepared { spec, runtime }).undo().await?;
    }
    Ok(())
}

/// Lays a snapshot that [`super::read`] has judged down beside the cluster's data, which stay in use; after
/// [`recover`].
///
/// # Errors
/// When there is no room for the data, or they can't be laid down; nothing is left of them then.
pub async fn prepare<'a>(
    runtime: &'a Arc<dyn Runtime>,
    spec: &'a ClusterSpec,
    content: Vec<u8>,
) -> Result<Prepared<'a>, SnapshotError> {
    discard(runtime, spec).await?;
    let free = format!("df --block-size=1 --output=avail {MEMBER} | tail -n 1");
    has_room(spec, &script(spec, runtime, &free).await?, content.len())?;
    if let Err(error) = lay_down(runtime, spec, content).await {
        both(Err(error), discard(runtime, spec).await)?;
    }
    Ok(Prepared { spec, runtime })
}

/// Removes what [`prepare`] has made, also in its midst.
///
/// # Errors
/// When the engine can't.
pub async fn discard(runtime: &Arc<dyn Runtime>, spec: &ClusterSpec) -> Result<(), SnapshotError> {
    let stopped = restorer(spec).remove(spec, runtime.as_ref()).await.map_err(SnapshotError::from);
    let text = format!("[ -e {MEMBER}/{TRIAL} ] || rm -rf {SPARE}");
    both(stopped, script(spec, runtime, &text).await.map(drop))
}

/// `etcdutl`, as it puts a snapshot back.
fn restorer(spec: &ClusterSpec) -> Tool {
    let member = etcd::member_flags(spec);
    let mut args = vec!["snapshot", "restore", FILE, BUMP, "--mark-compacted"];
    args.extend(member.iter().map(String::as_str));
    let data_dir = format!("--data-dir={SPARE}");
    args.push(&data_dir);
    let tool = Tool::offline(spec, &args).with_room(spec, ROOM);
    match etcd_data(spec) {
        Some(data) => tool.mounting(data),
        None => tool,
    }
}

async fn lay_down(
    runtime: &Arc<dyn Runtime>,
    spec: &ClusterSpec,
    content: Vec<u8>,
) -> Result<(), SnapshotError> {
    let file = FileEntry { path: FILE.to_owned(), mode: 0o600, content };
    restorer(spec).with_file(file).run_and_remove(spec, runtime).await?;
    Ok(())
}

/// A full tmpfs would end the etcd that is in use.
fn has_room(spec: &ClusterSpec, told: &str, bytes: usize) -> Result<(), SnapshotError> {
    let need = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(LOGS + MEANWHILE);
    let free = told.lines().rev().find_map(|line| line.trim().parse::<u64>().ok());
    let free = free.ok_or(SnapshotError::NoAnswer)?;
    if free >= need {
        return Ok(());
    }
    let (field, remedy) = if spec.etcd.durable {
        ("etcd.durable", "make room on the disk of the engine's volumes")
    } else {
        (
            "etcd.tmpfsSize",
            "`etcdctl defrag` in etcd's container gives back what is deleted, and a new cluster can have a larger one",
        )
    };
    Err(SnapshotError::Room { field, need: need.div_ceil(1 << 20), free: free >> 20, remedy })
}

impl<'a> Prepared<'a> {
    /// Stops what works on the data, exchanges the two in one step, and starts it again.
    ///
    /// # Errors
    /// When the engine can't stop, exchange or start; the cluster is as it was then, unless that fails too.
    pub async fn exchange(self) -> Result<Restored<'a>, SnapshotError> {
        // In one step: whoever starts etcd, and whenever, finds the one or the other.
        let forth = format!("touch {SPARE}/{TRIAL}; mv --exchange --no-target-directory {SPARE} {MEMBER}");
        match self.exchanged(&forth).await {
            Ok(()) => Ok(Restored(self)),
            Err(first) => match Restored(self).undo().await {
                Ok(()) => Err(first),
                Err(then) => Err(SnapshotError::NotUndone { then: then.into(), first: first.into() }),
            },
        }
    }

    /// Runs a script while nothing works on the data. What was stopped is started again whatever comes of it.
    async fn exchanged(&self, text: &str) -> Result<(), SnapshotError> {
        let names = STOPPED.map(|component| component_name(self.spec, component));
        let found = try_join_all(names.iter().map(|name| self.runtime.inspect(name))).await?;
        // Phases can be left out.
        let names: Vec<_> = found.into_iter().flatten().map(|container| container.name).collect();
        // All of them, before any is started again.
        let stopped = join_all(names.iter().map(|name| self.runtime.stop(name, GRACE_SECS))).await;
        let done = match stopped.into_iter().collect::<Result<(), _>>() {
            Ok(()) => script(self.spec, self.runtime, text).await.map(drop),
            Err(error) => Err(error.into()),
        };
        let started = join_all(names.iter().map(|name| self.runtime.start(name))).await;
        both(done, started.into_iter().collect::<Result<(), _>>().map_err(SnapshotError::from))
    }
}

/// Takes back an exchange, where there was one, and then removes the data that came of the snapshot.
fn back() -> String {
    format!(
        "if [ -e {MEMBER}/{TRIAL} ] && [ -d {SPARE} ]; then mv --exchange --no-target-directory {SPARE} {MEMBER}; fi; \
         [ -e {MEMBER}/{TRIAL} ] || rm -rf {SPARE}"
    )
}

impl Restored<'_> {
    /// Takes it back: the data as they were before.
    ///
    /// # Errors
    /// When the engine can't stop or start what it must.
    pub async fn undo(self) -> Result<(), SnapshotError> {
        self.0.exchanged(&back()).await
    }

    /// Takes it back, and gives why, for the caller to tell.
    ///
    /// # Errors
    /// As [`Restored::undo`]; the error says why it was to be taken back, too.
    pub async fn undone(self, why: BoxError) -> Result<BoxError, SnapshotError> {
        match self.undo().await {
            Ok(()) => Ok(why),
            Err(then) => Err(SnapshotError::NotUndone { then: then.into(), first: why }),
        }
    }

    /// Forgets the data that were there before.
    ///
    /// # Errors
    /// When the engine can't.
    pub async fn keep(self) -> Result<(), SnapshotError> {
        // First the mark: once those from before begin to go, nothing may put them back.
        let text = format!("rm -f {MEMBER}/{TRIAL}; rm -rf {SPARE}");
        script(self.0.spec, self.0.runtime, &text).await.map(drop)
    }
}

async fn script(spec: &ClusterSpec, runtime: &Arc<dyn Runtime>, text: &str) -> Result<String, SnapshotError> {
    let mut tool = Tool::script(spec, text);
    if let Some(data) = etcd_data(spec) {
        tool = tool.mounting(data);
    }
    Ok(tool.run_and_remove(spec, runtime).await?)
}
