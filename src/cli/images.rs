//! `hoist images`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use hoist_phases::spec::KubernetesVersion;

use super::args::{Format, OutputArgs};
use super::session;
use crate::error::BoxError;
use crate::images::{self, Disk, EnsureOptions, IMAGES, ImageStatus, Need, Progress, ProgressKind, Role};
use crate::report;
use crate::runtime::Engine;

#[derive(Debug, Clone, Default, Args)]
pub struct VersionArg {
    /// Kubernetes version [default: v1.36.3]
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: Option<String>,
}

/// What the images of `images ensure` are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NodeKindArg {
    Container,
    Vm,
}

#[derive(Debug, Subcommand)]
pub enum ImagesCommand {
    /// List the images a cluster needs and whether the engine has them
    List {
        #[command(flatten)]
        version: VersionArg,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Get what is missing: from the archive directory, a registry, or by building
    Ensure {
        #[command(flatten)]
        version: VersionArg,
        /// What nodes will run on: the image of virtual machines is large, and fetched for them alone
        #[arg(long, value_name = "KIND", value_enum, default_value = "container")]
        node_kind: NodeKindArg,
        /// The images that stand in for kubevirtci's own tools too
        #[arg(long)]
        kubevirtci: bool,
        /// The image of a registry too, for clusters with `--registry`
        #[arg(long)]
        registry: bool,
        /// The image of kine too, for clusters with `etcd.backend: kine`
        #[arg(long)]
        kine: bool,
        /// Directory of image archives to look into first
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
    },
    /// Build images
    Build {
        #[command(flatten)]
        version: VersionArg,
        /// Names of images, such as `node`; all when none is given
        images: Vec<String>,
    },
    /// Write the images into a directory of archives
    Save {
        #[command(flatten)]
        version: VersionArg,
        /// The directory, made when it isn't there
        dir: PathBuf,
    },
    /// Load every image archive of a directory
    Load {
        /// The directory
        dir: PathBuf,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("image {0:?}: must be one of {names}", names = IMAGES.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", "))]
pub struct UnknownImage(String);

fn version(arg: &VersionArg) -> Result<String, BoxError> {
    match &arg.kubernetes {
        Some(text) => Ok(KubernetesVersion::parse(text)?.to_string()),
        None => Ok(KubernetesVersion::DEFAULT.to_string()),
    }
}

pub(super) async fn list(arg: &VersionArg, format: Format) -> Result<(), BoxError> {
    let version = version(arg)?;
    let engine = session::engine().await?;
    let mut statuses = images::list(engine.docker(), &version).await?;
    statuses.extend(images::disk::list(engine.docker()).await?);
    report::output::formatted(format, &statuses, |statuses| {
        let rows = statuses.iter().map(row);
        report::table(["IMAGE", "STATE", "SIZE", "CONTAINS", "REFERENCE"], rows)
    })?;
    Ok(())
}

fn row(status: &ImageStatus) -> [String; 5] {
    let state = match (status.present, status.recipe_current) {
        (false, _) => "missing",
        (true, false) => "outdated",
        (true, true) => "present",
    };
    let size = status.size.map(|bytes| format!("{} MiB", bytes >> 20)).unwrap_or_default();
    let contains = status.component_version.clone().unwrap_or_default();
    [status.name.to_owned(), state.to_owned(), size, contains, status.reference.clone()]
}

pub(super) async fn ensure(
    arg: &VersionArg,
    archive_dir: Option<PathBuf>,
    kind: NodeKindArg,
    kubevirtci: bool,
    registry: bool,
    kine: bool,
) -> Result<(), BoxError> {
    let version = version(arg)?;
    let engine = session::engine().await?;
    let mut needs = vec![Need::Cluster];
    if kind == NodeKindArg::Vm {
        needs.push(Need::VmNodes);
    }
    if kubevirtci {
        needs.push(Need::Kubevirtci);
    }
    if kubevirtci || registry {
        needs.push(Need::Registry);
    }
    if kine {
        needs.push(Need::Kine);
    }
    let options = EnsureOptions { archive_dir, roles: images::needed(&needs), ..EnsureOptions::default() };
    let report = images::ensure(engine.docker(), &version, &options, &tell).await?;
    summary(&report);
    Ok(())
}

pub(super) async fn build(arg: &VersionArg, names: &[String]) -> Result<(), BoxError> {
    let version = version(arg)?;
    let roles = names.iter().map(|name| role(name)).collect::<Result<_, _>>()?;
    let engine = session::engine().await?;
    let options = EnsureOptions { roles, ..EnsureOptions::default() };
    let report = images::build(engine.docker(), &version, &options, &tell).await?;
    summary(&report);
    Ok(())
}

pub(super) async fn save(arg: &VersionArg, dir: &Path) -> Result<(), BoxError> {
    let engine = session::engine().await?;
    let path = images::save(engine.docker(), &version(arg)?, dir).await?;
    report::tell(format_args!("saved {}", path.display()));
    Ok(())
}

pub(super) async fn load(dir: &Path) -> Result<(), BoxError> {
    let engine = session::engine().await?;
    for reference in images::load(engine.docker(), dir).await? {
        report::tell(format_args!("loaded {reference}"));
    }
    Ok(())
}

fn role(name: &str) -> Result<Role, UnknownImage> {
    let spec = IMAGES.iter().find(|spec| spec.name == name);
    spec.map(|spec| spec.role).ok_or_else(|| UnknownImage(name.to_owned()))
}

fn summary(report: &images::Report) {
    let mut counts = std::collections::BTreeMap::new();
    for resolved in &report.resolved {
        let word = match resolved.source {
            images::Source::Engine => "present",
            images::Source::Archive => "loaded",
            images::Source::Pull => "pulled",
            images::Source::Build => "built",
        };
        *counts.entry(word).or_insert(0_usize) += 1;
    }
    let counts: Vec<_> = counts.into_iter().map(|(word, count)| format!("{count} {word}")).collect();
    report::tell(format_args!("images of {}: {}", report.images.version(), counts.join(", ")));
}

/// Makes the images of disks of the user's that the engine doesn't have yet.
pub(super) async fn make_disks(engine: &Engine, version: &str, disks: &[Disk]) -> Result<(), BoxError> {
    Ok(images::disk::ensure(engine.docker(), version, disks, &tell).await?)
}

/// One line a step: a build of a quarter of an hour shouldn't look like a hang.
fn tell(progress: Progress) {
    let Progress { subject, step, elapsed, kind } = progress;
    let mark = match kind {
        ProgressKind::Step => "",
        ProgressKind::Done => "done: ",
        ProgressKind::Warning => "warning: ",
    };
    let time = report::seconds(hoist_phases::events::millis(elapsed));
    report::tell(format_args!("{time:>9}  {subject:<24}  {mark}{step}"));
}
