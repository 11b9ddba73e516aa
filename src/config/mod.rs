//! From flags and a configuration file to settings: a resolved cluster specification, and what
//! concerns this run alone. Nothing here talks to the engine or a cluster.

mod api_server;
mod ca;
mod check;
mod cni;
mod components;
mod conflict;
mod endpoint;
mod file;
mod networking;
mod node_image;
mod nodes;
mod placement;
mod problem;
mod resolve;
pub mod units;
mod wait;

use std::path::Path;
use std::time::Duration;

use hoist_phases::phases::PhaseId;
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec};

use crate::cli::args::{Global, Progress, UpArgs};
use crate::cluster::ready::Level;
use crate::images::Disk;

pub use ca::{CaError, UsersCa};
pub use cni::{CniError, CniSource};
pub use conflict::{Conflict, Difference, check as check_conflict};
pub use endpoint::EndpointError;
pub use file::{API_VERSION, ClusterFile, FileError, KIND, parse as parse_file, read as read_file};
pub use node_image::{NodeImageError, resolve as node_image};
pub use nodes::{SizeFlags, kind as node_kind};
pub use problem::{Invalid, Problem};
pub use resolve::{defaults, name, settings};

/// Name of a cluster that nobody named.
pub const DEFAULT_NAME: &str = "hoist";

/// What `up` has to do.
#[derive(Debug, Clone)]
pub struct Settings {
    pub spec: ClusterSpec,
    /// To sign with instead of a CA of the cluster's own.
    pub ca: Option<UsersCa>,
    /// Of the user's, that images of nodes have to be made of.
    pub disks: Vec<Disk>,
    pub skip: Vec<PhaseId>,
    pub wait: Level,
    /// For everything together, images excepted.
    pub timeout: Duration,
    pub retain: bool,
    pub progress: Progress,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Cni(#[from] CniError),
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    NodeImage(#[from] NodeImageError),
    #[error("no random numbers for a bootstrap token")]
    Random,
}

/// The configuration file of `up`, when one is named, and the name of the cluster meant.
///
/// # Errors
/// When the file can't be used, or the name breaks the rules.
pub fn begin(global: &Global, args: &UpArgs) -> Result<(Option<ClusterFile>, ClusterName), ConfigError> {
    let file = args.config.as_deref().map(read_file).transpose()?;
    let name = name(global, file.as_ref())?;
    Ok((file, name))
}

/// Settings for `up` on top of `present`, the specification of the cluster when it is there.
///
/// # Errors
/// Everything that is wrong with the values, at once; a CNI manifest that can't be had.
pub async fn finish(
    mut args: UpArgs,
    mut file: Option<ClusterFile>,
    name: ClusterName,
    present: Option<ClusterSpec>,
) -> Result<Settings, ConfigError> {
    let disks = node_image::of_all(&mut args, file.as_mut()).await?;
    let is_new = present.is_none();
    let base = match present {
        Some(spec) => spec,
        None => defaults(name, BootstrapToken::generate().map_err(|_| ConfigError::Random)?),
    };
    let reach_is_open =
        is_new && args.reach.is_none() && file.as_ref().is_none_or(|file| file.reach.is_none());
    let cni = cni_of(&args, file.as_ref())?;
    let ca = ca::read(&args, file.as_ref().map(|file| &file.ca), beside(&args))?;
    // Everything else is judged before anything is fetched.
    let mut settings = settings(args, file, base, cni.as_ref().map(CniSource::unread))?;
    if let Some(source) = cni {
        settings.spec.cni = source.load().await?;
    }
    endpoint::resolve(&mut settings.spec).await?;
    if reach_is_open && settings.spec.control_plane_endpoint.is_none() {
        settings.spec.reach = hoist_phases::phases::cni::reach(&settings.spec.cni);
    }
    settings.ca = ca;
    settings.disks = disks;
    Ok(settings)
}

/// Where relative paths in the configuration file start.
fn beside(args: &UpArgs) -> &Path {
    args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
}

fn cni_of(args: &UpArgs, file: Option<&ClusterFile>) -> Result<Option<CniSource>, CniError> {
    if let Some(text) = &args.cni {
        return CniSource::parse(text, Path::new("")).map(Some);
    }
    let text = file.and_then(|file| file.cni.as_deref());
    text.map(|text| CniSource::parse(text, beside(args))).transpose()
}

/// Reads one duration of a command line.
///
/// # Errors
/// What is wrong with it.
pub fn duration(field: &str, text: &str) -> Result<Duration, Invalid> {
    units::duration(text).map_err(|rule| Invalid::one(Problem::new(field, format_args!("{text:?}"), rule)))
}
