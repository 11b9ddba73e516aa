//! `hoist snapshot`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Subcommand;
use hoist_phases::pki::CertId;
use hoist_phases::ports::{Runtime, Store as _};

use super::args::Global;
use super::session::{self, Session, SessionError};
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
#[error("the control plane isn't ready on the data of {}; they are taken back, and the cluster is as it was", path.display())]
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
    let restored = snapshot::restore(&engine, &spec, content).await?;
    let target = Target::new(&spec, engine.as_ref(), &kubeconfig)?;
    if let Err(source) = ready::wait(&target, Level::Api, timeout, |_, _| {}).await {
        restored.undo().await?;
        return Err(TakenBack { path: file.to_owned(), source: source.into() }.into());
    }
    restored.keep().await?;
    if Level::Nodes.barred(&spec).is_none() {
        ready::wait(&target, Level::Nodes, timeout.saturating_sub(begin.elapsed()), |_, _| {}).await?;
    }
    report::tell(format_args!("restored cluster {} from {}: {}", session.name, file.display(), took(begin)));
    Ok(())
}

fn took(begin: Instant) -> String {
    report::seconds(hoist_phases::events::millis(begin.elapsed()))
}

/// Whether the file that was named is at fault.
pub(crate) fn is_wrong_file(error: &SnapshotError) -> bool {
    matches!(error, SnapshotError::Absent { .. } | SnapshotError::Wrong { .. } | SnapshotError::Backend(_))
}
