//! Images: what a cluster needs, and four ways to come by it — the engine's store, an archive, a pull of what
//! upstream publishes, a build on this machine from embedded recipes.
//!
//! An image counts as current when its recipe label is the hash of everything it would be built from, or when
//! it has no such label: then the user (or upstream) supplied it. So nothing is done twice, and a new hoist
//! replaces what an older one built. This module returns data; the command line prints it.

mod apt;
mod archive;
mod base;
mod build;
mod command;
mod context;
pub mod disk;
mod engine;
mod error;
mod golang;
mod module;
mod progress;
mod pull;
mod recipe;
mod release;
mod rows;
mod table;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use bollard::Docker;
use futures_util::{StreamExt, TryStreamExt, stream};

pub use archive::{load, save};
pub use disk::{Disk, DiskSource};
pub use error::ImageError;
pub use progress::{Listener, Progress, ProgressKind};
pub use recipe::{LABEL_COMPONENT, LABEL_RECIPE, LABEL_VERSION, RecipeFile};
pub use release::{RELEASES, Release};
pub use table::{Component, IMAGES, ImageSpec, Need, Parent, Program, REPOSITORY, Role, Upstream};

use progress::Reporter;
use pull::{Outcome, Registries};

/// Pulls that may run side by side.
const PULLS: usize = 3;

/// Resolved references by role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSet {
    version: String,
}

impl ImageSet {
    /// The set of a Kubernetes version, whether or not the engine has it.
    pub fn of(version: &str) -> Result<Self, ImageError> {
        release::parse(version)?;
        Ok(Self { version: version.to_owned() })
    }

    /// The reference to create a container from.
    pub fn reference(&self, role: Role) -> String {
        role.reference(&self.version)
    }

    /// The Kubernetes version of the set.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Where an image comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The engine had it.
    Engine,
    Archive,
    Pull,
    Build,
}

/// How [`ensure`] may come by what is missing.
#[derive(Debug, Clone)]
pub struct EnsureOptions {
    /// Images that are wanted; empty means those of [`Need::Cluster`] to [`ensure`], all to [`build`].
    pub roles: Vec<Role>,
    /// Directory with `*.tar` archives.
    pub archive_dir: Option<PathBuf>,
    /// How long a registry may take to answer; `None` turns pulls off.
    pub pull_timeout: Option<Duration>,
    /// Whether missing images may be built here.
    pub build: bool,
    /// Instead of `$XDG_CACHE_HOME/hoist/images`.
    pub cache_dir: Option<PathBuf>,
}

impl Default for EnsureOptions {
    fn default() -> Self {
        Self {
            roles: Vec::new(),
            archive_dir: None,
            pull_timeout: Some(Duration::from_secs(5)),
            build: true,
            cache_dir: None,
        }
    }
}

/// What [`ensure`] or [`build`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub images: ImageSet,
    pub resolved: Vec<Resolved>,
}

/// One image of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Resolved {
    pub name: &'static str,
    pub reference: String,
    pub source: Source,
}

/// One image as the engine has it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ImageStatus {
    #[serde(skip)]
    pub role: Role,
    pub name: &'static str,
    pub reference: String,
    pub present: bool,
    /// Who made it, if it is there.
    pub origin: Option<Origin>,
    pub size: Option<u64>,
    /// Not in need of a build: built from the current recipe, or supplied.
    pub recipe_current: bool,
    pub component_version: Option<String>,
}

/// Who made an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It carries the recipe label.
    Hoist,
    /// It doesn't: upstream, or the user.
    Supplied,
}

/// The state of every image of a version.
pub async fn list(docker: &Docker, version: &str) -> Result<Vec<ImageStatus>, ImageError> {
    release::parse(version)?;
    let statuses = IMAGES.iter().map(|spec| status(docker, spec, version));
    // In order, yet side by side.
    stream::iter(statuses).buffered(IMAGES.len()).try_collect().await
}

async fn status(docker: &Docker, spec: &'static ImageSpec, version: &str) -> Result<ImageStatus, ImageError> {
    let reference = spec.role.reference(version);
    let image = engine::inspect(docker, &reference).await?;
    let labels = image.as_ref().and_then(|image| image.config.as_ref()?.labels.clone()).unwrap_or_default();
    let origin = image.as_ref().map(|_| match labels.get(LABEL_RECIPE) {
        Some(_) => Origin::Hoist,
        None => Origin::Supplied,
    });
    let wanted = || recipe::digest(spec.role, version, Release::of(version));
    let recipe_current = match labels.get(LABEL_RECIPE) {
        Some(recipe) => *recipe == wanted()?,
        None => image.is_some(),
    };
    Ok(ImageStatus {
        role: spec.role,
        name: spec.name,
        reference,
        present: image.is_some(),
        origin,
        size: image.as_ref().and_then(|image| u64::try_from(image.size?).ok()),
        recipe_current,
        component_version: labels.get(LABEL_COMPONENT).cloned(),
    })
}

/// Roles of the images for some needs, in the order of the table.
pub fn needed(needs: &[Need]) -> Vec<Role> {
    IMAGES.iter().filter(|spec| needs.contains(&spec.need)).map(|spec| spec.role).collect()
}

/// Roles of the wanted images that are absent or out of date.
async fn missing(docker: &Docker, version: &str, wanted: &[Role]) -> Result<Vec<Role>, ImageError> {
    let statuses = list(docker, version).await?;
    Ok(statuses
        .into_iter()
        .filter(|status| !status.recipe_current)
        .map(|status| status.role)
        .filter(|role| wanted.is_empty() || wanted.contains(role))
        .collect())
}

/// Makes every image of a version present, from the first source that has it.
pub async fn ensure(
    docker: &Docker,
    version: &str,
    options: &EnsureOptions,
    progress: Listener<'_>,
) -> Result<Report, ImageError> {
    let EnsureOptions { roles, archive_dir, pull_timeout, build: may_build, cache_dir } = options;
    let images = ImageSet::of(version)?;
    let reporter = Reporter::new(progress);
    let mut sources = Sources::default();

    let wanted = if roles.is_empty() { needed(&[Need::Cluster]) } else { roles.clone() };
    let roles = &wanted;

    let mut absent = missing(docker, version, roles).await?;
    if let (false, Some(directory)) = (absent.is_empty(), archive_dir) {
        archive::load_missing(docker, version, directory, &absent, reporter).await?;
        let left = missing(docker, version, roles).await?;
        sources.record(&absent, &left, Source::Archive);
        absent = left;
    }

    let registries = Registries::new(*pull_timeout);
    if !absent.is_empty() {
        pull_missing(docker, version, &absent, &registries, reporter).await?;
        let left = missing(docker, version, roles).await?;
        sources.record(&absent, &left, Source::Pull);
        absent = left;
    }

    if !absent.is_empty() {
        if !may_build {
            let list: Vec<_> = absent.iter().map(|role| role.reference(version)).collect();
            return Err(ImageError::Missing { count: list.len(), list: list.join(", ") });
        }
        let built = build::run(docker, version, &absent, cache_dir.as_deref(), &registries, reporter).await?;
        sources.record(&built, &[], Source::Build);
    }
    Ok(sources.report(images, roles))
}

/// Builds images from their recipes even where others would do. Programs that are compiled already and
/// layers that the engine has are used again.
pub async fn build(
    docker: &Docker,
    version: &str,
    options: &EnsureOptions,
    progress: Listener<'_>,
) -> Result<Report, ImageError> {
    let images = ImageSet::of(version)?;
    let reporter = Reporter::new(progress);
    let registries = Registries::new(options.pull_timeout);
    let wanted: Vec<Role> = IMAGES
        .iter()
        .map(|spec| spec.role)
        .filter(|role| options.roles.is_empty() || options.roles.contains(role))
        .collect();
    let built =
        build::run(docker, version, &wanted, options.cache_dir.as_deref(), &registries, reporter).await?;
    let mut sources = Sources::default();
    sources.record(&built, &[], Source::Build);
    Ok(sources.report(images, &options.roles))
}

/// Pulls what upstream publishes under the names that hoist uses.
async fn pull_missing(
    docker: &Docker,
    version: &str,
    absent: &[Role],
    registries: &Registries,
    reporter: Reporter<'_>,
) -> Result<(), ImageError> {
    let release = Release::of(version);
    let mut pulls: Vec<_> = absent
        .iter()
        .filter_map(|role| Some((*role, release.upstream_reference(role.spec(), version)?)))
        .collect();
    let pull = |(role, upstream): (Role, String)| async move {
        match registries.pull(docker, &upstream).await {
            Outcome::Pulled => {
                reporter.done(role.name(), format!("pulled {upstream}"));
                engine::tag(docker, &upstream, &role.reference(version)).await
            }
            Outcome::Unavailable(reason) => {
                reporter.step(role.name(), format!("not pulled: {reason}"));
                Ok(())
            }
        }
    };
    // The first one alone: it finds out whether there is a registry at all.
    if !pulls.is_empty() {
        pull(pulls.remove(0)).await?;
    }
    stream::iter(pulls).map(pull).buffer_unordered(PULLS).try_collect().await
}

/// Collects where images came from.
#[derive(Debug, Default)]
struct Sources(Vec<(Role, Source)>);

impl Sources {
    fn record(&mut self, before: &[Role], after: &[Role], source: Source) {
        self.0.extend(before.iter().filter(|role| !after.contains(role)).map(|role| (*role, source)));
    }

    fn report(&self, images: ImageSet, wanted: &[Role]) -> Report {
        let of = |role: Role| self.0.iter().find(|(have, _)| *have == role).map(|(_, source)| *source);
        let resolved = IMAGES
            .iter()
            .filter(|spec| wanted.is_empty() || wanted.contains(&spec.role) || of(spec.role).is_some())
            .map(|spec| Resolved {
                name: spec.name,
                reference: images.reference(spec.role),
                source: of(spec.role).unwrap_or(Source::Engine),
            })
            .collect();
        Report { images, resolved }
    }
}
