//! `hoist snapshot`.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use clap::Subcommand;
use futures_util::poll;
use hoist_phases::pki::CertId;
use hoist_phases::ports::{Runtime, Store as _};

use super::args::Global;
use super::session::{self, Session, SessionError};
use super::signals::{Interrupted, interrupted};
use crate::cluster::ready::{self, Level, Target};
use crate::cluster::snapshot::{self, SnapshotError};
use crate::error::BoxError;
use crate::{config, report};

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Write all objects of the API into a file, while the cluster runs
    Save {
        /// The file, mode 0600: every Secret is in it; one that is there is replaced
        file: PathBuf,
    },
    /// Put all objects back as they were saved; nodes stay joined
    Restore {
        /// A file that `save` has written, of this very cluster
        file: PathBuf,
        /// Time until the control plane is ready and the nodes are
        #[arg(long, value_name = "DURATION", default_value = "3m")]
        timeout: String,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("the data of {} are not kept, and the cluster is as it was", path.display())]
pub struct TakenBack {
    path: PathBuf,
    #[source]
    source: BoxError,
}

pub(super) async fn run(global: &Global, command: SnapshotCommand) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let spec = session.spec()?;
    let _lock = session.state.lock()?;
    snapshot::supported(&spec)?;
    match command {
        SnapshotCommand::Save { file } => save(&session, &file).await,
        SnapshotCommand::Restore { file, timeout } => {
            restore(&session, &file, config::time_limit("--timeout", &timeout)?).await
        }
    }
}

fn kept(session: &Session, path: &str) -> Result<Vec<u8>, BoxError> {
    let content = session.state.read(path)?;
    Ok(content.ok_or_else(|| SessionError::NoKubeconfig(session.name.clone()))?)
}

async fn save(session: &Session, file: &Path) -> Result<(), BoxError> {
    let begin = Instant::now();
    let spec = session.spec()?;
    let engine = session::engine().await?;
    let client = CertId::ApiServerEtcdClient;
    let keys = [CertId::EtcdCa.cert_path(), client.cert_path(), client.key_path()];
    let [ca, cert, key] = keys.map(|path| kept(session, &path));
    let (ca, cert, key) = (ca?, cert?, key?);
    let bytes = snapshot::save(&engine, &spec, [&ca, &cert, &key], file).await?;
    report::tell(format_args!(
        "saved cluster {} to {}: {} MiB, {}",
        session.name,
        file.display(),
        bytes.div_ceil(1 << 20),
        took(begin)
    ));
    Ok(())
}

async fn restore(session: &Session, file: &Path, timeout: Duration) -> Result<(), BoxError> {
    let begin = Instant::now();
    let spec = session.spec()?;
    let content = snapshot::read(&spec, &kept(session, &CertId::Ca.cert_path())?, file)?;
    let kubeconfig = session.kubeconfig()?;
    let engine: Arc<dyn Runtime> = session::engine().await?;
    let not_kept = |source: BoxError| TakenBack { path: file.to_owned(), source };
    let mut signal = pin!(interrupted());
    // From here on a signal waits until it is asked for: nothing that is stopped stays so.
    if let Poll::Ready(signal) = poll!(signal.as_mut()) {
        return Err(why(signal));
    }
    snapshot::recover(&engine, &spec).await?;
    let prepared = tokio::select! {
        signal = &mut signal => {
            snapshot::discard(&engine, &spec).await?;
            return Err(not_kept(why(signal)).into());
        }
        prepared = snapshot::prepare(&engine, &spec, content) => prepared?,
    };
    let restored = prepared.exchange().await?;
    let waited = async {
        let target = Target::new(&spec, engine.as_ref(), &kubeconfig)?;
        tokio::select! {
            signal = &mut signal => Err(why(signal)),
            ready = ready::wait(&target, Level::Api, timeout, |_, _| {}) => {
                ready.map(|_| target).map_err(BoxError::from)
            }
        }
    };
    let target = match waited.await {
        Ok(target) => target,
        Err(source) => return Err(not_kept(restored.undone(source).await?).into()),
    };
    restored.keep().await?;
    if Level::Nodes.barred(&spec).is_none() {
        let left = timeout.saturating_sub(begin.elapsed());
        tokio::select! {
            signal = &mut signal => return Err(why(signal)),
            ready = ready::wait(&target, Level::Nodes, left, |_, _| {}) => drop(ready?),
        }
    }
    report::tell(format_args!("restored cluster {} from {}: {}", session.name, file.display(), took(begin)));
    Ok(())
}

fn why(signal: Result<Interrupted, std::io::Error>) -> BoxError {
    signal.map_or_else(BoxError::from, BoxError::from)
}

fn took(begin: Instant) -> String {
    report::seconds(hoist_phases::events::millis(begin.elapsed()))
}

/// Whether the file that was named is at fault.
pub(crate) fn is_wrong_file(error: &SnapshotError) -> bool {
    matches!(error, SnapshotError::Absent { .. } | SnapshotError::Wrong { .. } | SnapshotError::Backend(_))
}
