//! `hoist kubectl`: the kubectl of the cluster's own version, taken out of its node image once
//! and kept in the cache. A kubectl on PATH is not touched.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hoist_phases::phases::images;
use hoist_phases::ports::{ContainerSpec, Network, Runtime as _, label};
use hoist_phases::spec::ClusterSpec;

use super::args::{Global, KubectlArgs};
use super::session::{self, KUBECONFIG, Session};
use crate::error::BoxError;
use crate::runtime::Engine;
use crate::{env, files};

/// Where the node image has it.
const IN_IMAGE: &str = "/usr/bin/kubectl";

/// It holds no secret, and other users may run it.
const MODE: u32 = 0o755;

/// Most bytes of it; it has some 60 MB.
const LARGEST: u64 = 512 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum KubectlError {
    #[error("no place for kubectl: neither XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    #[error("image {image} has no {IN_IMAGE}")]
    NotInImage { image: String },
    #[error("run {}", path.display())]
    Exec {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

pub(super) async fn run(global: &Global, args: KubectlArgs) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let spec = session.spec()?;
    session.kubeconfig()?;
    let path = cached(&spec)?;
    if !path.exists() {
        let engine = session::engine().await?;
        files::write(&path, &take_out(&engine, &spec).await?, MODE)?;
    }
    // Only returns when it can't be started.
    let source = std::process::Command::new(&path)
        .args(args.args)
        .env(env::KUBECONFIG, session.state.path().join(KUBECONFIG))
        .exec();
    Err(KubectlError::Exec { path, source }.into())
}

fn cached(spec: &ClusterSpec) -> Result<PathBuf, KubectlError> {
    let cache = env::value(env::XDG_CACHE_HOME).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| env::value(env::HOME).map(|home| Path::new(&home).join(".cache")));
    let cache = cache.ok_or(KubectlError::NoCache)?;
    Ok(cache.join("hoist").join(format!("kubectl-{}", spec.kubernetes)))
}

/// Reads the program through a container that is made for it and never started.
async fn take_out(engine: &Arc<Engine>, spec: &ClusterSpec) -> Result<Vec<u8>, BoxError> {
    let image = images::reference(spec, "node");
    let name = format!("hoist-{}-kubectl-{}", spec.name, std::process::id());
    let mut container = ContainerSpec::new(&name, &image, Network::None);
    container.labels.insert(label::CLUSTER.to_owned(), spec.name.to_string());
    container.labels.insert(label::ROLE.to_owned(), "kubectl".to_owned());
    engine.create(&container).await?;
    let content = engine.read_file(&name, IN_IMAGE, LARGEST).await;
    engine.remove(&name).await?;
    content?.ok_or_else(|| KubectlError::NotInImage { image }.into())
}
