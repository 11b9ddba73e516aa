//! From flags and a configuration file to settings: a resolved cluster specification, and what
//! concerns this run alone. Nothing here talks to the engine or a cluster.

mod api_server;
mod ca;
mod check;
mod component_configs;
mod components;
mod conflict;
mod document;
mod encryption;
mod endpoint;
mod etcd;
mod file;
pub(crate) mod kubeadm;
mod layers;
mod mirrors;
mod networking;
mod node_image;
mod node_labels;
mod nodes;
mod oidc;
mod origin;
mod pem;
mod placement;
mod ports;
mod problem;
mod proxy;
mod registry;
mod resolve;
mod schema;
mod source;
pub mod units;
pub mod view;
mod wait;
mod yaml;

use std::path::PathBuf;
use std::time::Duration;

use file::AddonFile;
use hoist_phases::phases::PhaseId;
use hoist_phases::phases::addons::AddonError;
use hoist_phases::spec::{Addon, BootstrapToken, ClusterName, ClusterSpec};

use crate::cli::args::{Global, Progress, UpArgs};
use crate::cluster::ready::Level;
use crate::env;
use crate::images::Disk;

pub use ca::UsersCa;
pub use conflict::{Conflict, Difference, check as check_conflict};
pub use document::{Document, FileError, parse as parse_file, read as read_file};
pub(crate) use encryption::keys as encryption_keys;
pub use endpoint::EndpointError;
pub use file::{API_VERSION, ClusterFile, KIND};
pub use kubeadm::KubeadmError;
pub use node_image::{NodeImageError, resolve as node_image};
pub use nodes::{SizeFlags, kind as node_kind};
pub use origin::{Origin, Origins};
pub use problem::{Invalid, Problem};
pub use resolve::{defaults, name, settings};
pub use schema::schema;
pub use source::{CniSource, Source, SourceError};

/// Name of a cluster that nobody named.
pub const DEFAULT_NAME: &str = "hoist";

/// A configuration file that says what holds when nothing is said, with every field explained.
pub const EXAMPLE: &str = include_str!("example.yaml");

/// What `up` has to do.
#[derive(Debug, Clone)]
pub struct Settings {
    pub spec: ClusterSpec,
    /// Who has said what of it; what is not in here is as before, or the default.
    pub origins: Origins,
    /// What was said and is not used, a line each.
    pub notes: Vec<String>,
    /// To sign with instead of a CA of the cluster's own.
    pub ca: Option<UsersCa>,
    /// Of the user's, that images of nodes have to be made of.
    pub disks: Vec<Disk>,
    /// Phases left out of this run alone; those of every run are in the specification.
    pub skip: Vec<PhaseId>,
    pub wait: Level,
    /// For everything together, images excepted.
    pub timeout: Duration,
    pub retain: bool,
    pub progress: Progress,
    /// Where to write how the time went.
    pub profile: Option<PathBuf>,
    /// Where evidence of a failure goes.
    pub export_on_failure: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Addon(#[from] AddonError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("no random numbers for a bootstrap token")]
    Random,
}

/// The configuration file of `up`, when one is named, and the name of the cluster meant.
///
/// # Errors
/// When the file can't be used, or the name breaks the rules.
pub fn begin(global: &Global, args: &UpArgs) -> Result<(Document, ClusterName), ConfigError> {
    let mut document = args.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
    let name = name(global, Some(&document))?;
    if let Some(given) = &global.name {
        // The only setting that a variable can say; a flag wins over it.
        let by_env = std::env::var(env::HOIST_NAME).is_ok_and(|value| value == *given);
        let origin = if by_env { Origin::Env(env::HOIST_NAME) } else { Origin::Flag("--name") };
        document.origins.set("name", origin);
    }
    Ok((document, name))
}

/// Settings for `up` on top of `present`, the specification of the cluster when it is there.
///
/// # Errors
/// Everything that is wrong with the values, at once; a CNI manifest that can't be had.
pub async fn finish(
    args: UpArgs,
    mut document: Document,
    name: ClusterName,
    present: Option<ClusterSpec>,
) -> Result<Settings, ConfigError> {
    let is_new = present.is_none();
    let base = match present {
        Some(spec) => spec,
        None => defaults(name, BootstrapToken::generate().map_err(|_| ConfigError::Random)?),
    };
    let mut nodes = layers::over(args, &mut document);
    let notes = kubeadm_config(&mut document);
    let notes = document.problems.keep(notes).unwrap_or_default();
    let reach_is_open = is_new && document.file.reach.is_none();
    let disks = node_image::of_all(&mut nodes, &mut document).await;
    let disks = document.problems.keep(disks).unwrap_or_default();
    let cni = cni_of(&document);
    let cni = document.problems.keep(cni).flatten();
    let addons = addons_of(&mut document);
    oidc::resolve(&mut document);
    let ca = ca::read(&mut document);
    // Everything else is judged before anything is fetched.
    let mut settings = resolve::resolve(document, nodes, base, cni.as_ref().map(CniSource::unread))?;
    if let Some(source) = cni {
        settings.spec.cni = source.load().await?;
    }
    if let Some(addons) = addons {
        settings.spec.addons = load(addons).await?;
    }
    endpoint::resolve(&mut settings.spec).await?;
    if reach_is_open && settings.spec.control_plane_endpoint.is_none() {
        settings.spec.reach = hoist_phases::phases::cni::reach(&settings.spec.cni);
    }
    settings.notes = notes;
    settings.ca = ca;
    settings.disks = disks;
    Ok(settings)
}

fn kubeadm_config(document: &mut Document) -> Result<Vec<String>, KubeadmError> {
    let Some(path) = document.file.kubeadm_config.clone() else { return Ok(Vec::new()) };
    let path = document.base("kubeadmConfig").join(path);
    kubeadm::below(document, &path)
}

/// The addons asked for, when any are, and whether each is waited for.
fn addons_of(document: &mut Document) -> Option<Vec<(Source, bool)>> {
    let files = document.file.addons.clone()?;
    let sources = files.into_iter().enumerate().filter_map(|(index, AddonFile { manifest, wait })| {
        let source = Source::parse(&format!("addons[{index}].manifest"), &manifest, &document.beside);
        Some((document.problems.keep(source)?, wait.unwrap_or(true)))
    });
    Some(sources.collect())
}

/// # Errors
/// The first that can't be had, or is no manifest.
async fn load(addons: Vec<(Source, bool)>) -> Result<Vec<Addon>, ConfigError> {
    let loads = addons.into_iter().map(|(source, wait)| async move {
        let addon = Addon { origin: source.origin(), yaml: source.load().await?, wait };
        hoist_phases::phases::addons::objects(&addon)?;
        Ok(addon)
    });
    futures_util::future::try_join_all(loads).await
}

fn cni_of(document: &Document) -> Result<Option<CniSource>, SourceError> {
    let text = document.file.cni.as_deref();
    text.map(|text| CniSource::parse(text, document.base("cni"))).transpose()
}

/// Reads one duration of a command line.
///
/// # Errors
/// What is wrong with it.
pub fn duration(field: &str, text: &str) -> Result<Duration, Invalid> {
    units::duration(text).map_err(|rule| Invalid::one(Problem::new(field, format_args!("{text:?}"), rule)))
}

/// Reads how long something may take, from a command line.
///
/// # Errors
/// What is wrong with it; no time at all is.
pub fn time_limit(field: &str, text: &str) -> Result<Duration, Invalid> {
    resolve::time_limit(field, text).map_err(Invalid::one)
}
