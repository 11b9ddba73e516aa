//! What etcd holds, in a file, and back: the reset between test runs, nodes still joined.
//!
//! The file is what `etcdctl snapshot save` writes: etcd's database with its SHA-256 behind it. It is
//! put back at revisions far above all that anybody has seen, all earlier ones compacted: who watches
//! the API, on whatever machine, is told that its place is gone, and lists anew.

mod restore;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hoist_phases::causes;
use hoist_phases::phases::etcd::{self, Tool, ToolError};
use hoist_phases::ports::{Runtime, RuntimeError, Status};
use hoist_phases::spec::{ClusterSpec, Component, EtcdSpec};
use sha2::{Digest as _, Sha256};

use crate::error::BoxError;
use crate::files::{self, FileError};
use crate::runtime::Engine;

pub use restore::{Prepared, Restored, discard, prepare, recover};

/// Where the tools have the file, in a volume of their own.
const ROOM: &str = "/snapshot";
const FILE: &str = "/snapshot/db";

/// Bytes of the SHA-256 behind the database, whose size is a multiple of a disk's sector.
const SUM: usize = 32;
const SECTOR: usize = 512;

/// Of a bbolt database, at this place of its first page (go.etcd.io/bbolt, internal/common).
const MAGIC: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();
const MAGIC_AT: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("etcd.backend {0}: only an etcd of the cluster's own can be saved and restored")]
    Backend(&'static str),
    #[error("snapshot {path:?}: there is no such file")]
    Absent { path: PathBuf },
    #[error("snapshot {path:?}: {why}")]
    Wrong { path: PathBuf, why: &'static str },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("etcd's tool has left no snapshot")]
    Nothing,
    #[error("the free space beside etcd's data isn't told")]
    NoAnswer,
    #[error("cluster {0} is paused, and etcd answers nobody; `hoist resume` lets it go on")]
    Paused(String),
    #[error(
        "{field}: the data to put back need {need} MiB beside those in use, and {free} MiB are free; {remedy}"
    )]
    Room { field: &'static str, need: u64, free: u64, remedy: &'static str },
    #[error("{}; that came after another failure", causes(then.as_ref()))]
    Both {
        then: Box<Self>,
        #[source]
        first: Box<Self>,
    },
    #[error(
        "the cluster could not be made as it was ({}); `hoist snapshot restore` tries that again before all else, \
         and `hoist up` starts what doesn't run",
        causes(then.as_ref())
    )]
    NotUndone {
        then: Box<Self>,
        #[source]
        first: BoxError,
    },
}

/// The first failure, with a later one where there is one too.
fn both(first: Result<(), SnapshotError>, then: Result<(), SnapshotError>) -> Result<(), SnapshotError> {
    match (first, then) {
        (Err(first), Err(then)) => Err(SnapshotError::Both { first: first.into(), then: then.into() }),
        (first, then) => first.and(then),
    }
}

/// A tool that asks a frozen etcd would wait for ever.
async fn not_paused(runtime: &dyn Runtime, spec: &ClusterSpec) -> Result<(), SnapshotError> {
    let containers = runtime.list(Some(spec.name.as_str())).await?;
    let paused = containers.iter().any(|container| container.status == Status::Paused);
    if paused { Err(SnapshotError::Paused(spec.name.to_string())) } else { Ok(()) }
}

/// Whether a cluster can be saved and restored.
///
/// # Errors
/// When its data aren't in an etcd of its own.
pub fn supported(spec: &ClusterSpec) -> Result<(), SnapshotError> {
    match spec.etcd.backend.component() {
        Some(Component::Etcd) => Ok(()),
        _ => Err(SnapshotError::Backend(spec.etcd.backend.name())),
    }
}

/// Saves what etcd holds now, with CA, certificate and key of a client; gives the size in bytes. The
/// file has every Secret in it: its mode is 0600.
///
/// # Errors
/// When etcd doesn't answer, or the file can't be written.
pub async fn save(
    engine: &Arc<Engine>,
    spec: &ClusterSpec,
    keys: [&[u8]; 3],
    path: &Path,
) -> Result<usize, SnapshotError> {
    supported(spec)?;
    let runtime: Arc<dyn Runtime> = Arc::clone(engine) as _;
    not_paused(runtime.as_ref(), spec).await?;
    let tool = Tool::client(spec, &etcd::servers(spec), keys, &["snapshot", "save", FILE]);
    let tool = tool.with_room(spec, ROOM);
    let content = match tool.run(spec, &runtime).await {
        Ok(_) => {
            engine.read_file(tool.container(), FILE, most(&spec.etcd)).await.map_err(SnapshotError::from)
        }
        Err(error) => Err(error.into()),
    };
    let removed = tool.remove(spec, runtime.as_ref()).await;
    let content = content?.ok_or(SnapshotError::Nothing)?;
    removed?;
    judge(&content).map_err(|why| SnapshotError::Wrong { path: path.to_owned(), why })?;
    files::write(path, &content, 0o600)?;
    Ok(content.len())
}

/// Reads a snapshot of the cluster whose CA this is, in PEM.
///
/// # Errors
/// When it can't be read, is damaged, or isn't one of this cluster.
pub fn read(spec: &ClusterSpec, ca: &[u8], path: &Path) -> Result<Vec<u8>, SnapshotError> {
    let content = files::read(path)?.ok_or_else(|| SnapshotError::Absent { path: path.to_owned() })?;
    let wrong = |why| SnapshotError::Wrong { path: path.to_owned(), why };
    judge(&content).map_err(wrong)?;
    // Each namespace has the CA in a ConfigMap, which may be encrypted.
    if spec.api_server.encryption_config.is_none() && !holds(&content, ca) {
        return Err(wrong(
            "is of another cluster: this one's CA isn't in it, and nobody's keys would be good any more",
        ));
    }
    Ok(content)
}

/// Most bytes of a snapshot: etcd takes no writes past its quota, which the last one may overstep.
fn most(etcd: &EtcdSpec) -> u64 {
    etcd.quota_bytes.saturating_mul(2)
}

fn judge(content: &[u8]) -> Result<(), &'static str> {
    if content.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) != Some(&MAGIC) {
        return Err("is no snapshot of etcd, as `hoist snapshot save` or `etcdctl snapshot save` write it");
    }
    let (data, sum) = content.split_at(content.len().saturating_sub(SUM));
    if data.len() % SECTOR != 0 || Sha256::digest(data).as_slice() != sum {
        return Err("is damaged or cut short: its SHA-256 is not the one at its end");
    }
    Ok(())
}

/// Whether a line out of the midst of this certificate is in the content.
fn holds(content: &[u8], cert: &[u8]) -> bool {
    let lines: Vec<&[u8]> = cert.split(|byte| *byte == b'\n').filter(|line| line.len() == 64).collect();
    let Some(line) = lines.get(lines.len() / 2) else { return false };
    content.windows(line.len()).any(|window| window == *line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &[u8]) -> Vec<u8> {
        let mut content = vec![0; 2 * SECTOR];
        content[MAGIC_AT..MAGIC_AT + MAGIC.len()].copy_from_slice(&MAGIC);
        content[SECTOR..SECTOR + text.len()].copy_from_slice(text);
        let sum = Sha256::digest(&content);
        content.extend_from_slice(&sum);
        content
    }

    #[test]
    fn a_snapshot_is_whole_or_refused() {
        let good = snapshot(b"");
        assert_eq!(judge(&good), Ok(()));
        for (content, word) in [
            (Vec::new(), "no snapshot"),
            (b"apiVersion: v1\n".repeat(100), "no snapshot"),
            (good[..good.len() - 1].to_vec(), "damaged"),
            (good[..good.len() - SUM].to_vec(), "damaged"),
            (
                good.iter().enumerate().map(|(at, byte)| if at == 600 { 1 } else { *byte }).collect(),
                "damaged",
            ),
        ] {
            assert!(judge(&content).is_err_and(|why| why.contains(word)), "{word}");
        }
    }

    #[test]
    fn a_snapshot_of_another_cluster_is_known_by_its_ca() {
        let cert =
            |letter: &str| format!("-----BEGIN CERTIFICATE-----\n{0}\n{0}\n-----END", letter.repeat(64));
        let (ours, theirs) = (cert("a"), cert("b"));
        assert!(holds(&snapshot(ours.as_bytes()), ours.as_bytes()));
        assert!(!holds(&snapshot(theirs.as_bytes()), ours.as_bytes()));
    }
}
