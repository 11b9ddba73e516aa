//! Builds images: the programs and the packages of the network image side by side, then what is built on
//! them, in the order that the table's parents and preloads give.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::context::{self, Content, Entry};
use super::engine::{self, BuildRequest};
use super::error::ImageError;
use super::golang::{self, Programs};
use super::progress::Reporter;
use super::pull::Registries;
use super::recipe::{self, LABEL_COMPONENT, LABEL_RECIPE, LABEL_VERSION};
use super::release::Release;
use super::table::{IMAGES, ImageSpec, Parent, Program, Role};
use super::work::WorkDir;
use super::{base, missing, module};

/// Builds that may run side by side: they are short, and most of each is the engine's single-threaded work.
const BUILDS: usize = 2;

/// Label of build stages whose result is copied out of them.
const STAGE_LABEL: &str = "dev.hoist.stage";

/// Age at which what killed runs have left behind is removed: nobody builds with it any more.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Variables of the user's own programs that a build step needs as well.
const PROXIES: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// What all steps of a run share.
struct Run<'a> {
    docker: &'a Docker,
    version: &'a str,
    release: &'static Release,
    work: WorkDir,
    reporter: Reporter<'a>,
    /// Ids of images that this run has made or replaced, and that nothing will need: other runs may be in
    /// the middle of theirs, so nothing else is removed.
    garbage: Mutex<Vec<String>>,
}

/// Builds the wanted images and whatever of theirs is missing below them. Returns what was built.
pub(crate) async fn run(
    docker: &Docker,
    version: &str,
    wanted: &[Role],
    cache: Option<&Path>,
    registries: &Registries,
    reporter: Reporter<'_>,
) -> Result<Vec<Role>, ImageError> {
    let work = WorkDir::open(cache).await?;
    let release = Release::of(version);
    let absent = missing(docker, version, &[]).await?;
    let pending = closure(wanted, &absent);
    let all: Vec<Role> = pending.iter().map(|spec| spec.role).collect();
    let run = Run { docker, version, release, work, reporter, garbage: Mutex::default() };

    if pending.iter().any(|spec| compiled(spec)) {
        module::resolve(&run.work, reporter, version, release).await?;
    }
    let arch = engine::architecture(docker).await?;
    let request = golang::Request { version, release, arch: &arch, images: &pending };
    let (below, above): (Vec<&ImageSpec>, Vec<&ImageSpec>) =
        pending.iter().copied().partition(|spec| !compiled(spec));
    let on_base = pending.iter().any(|spec| spec.parent == Parent::Base);
    let packages = async {
        if on_base {
            base::ensure(docker, &run.work, reporter, registries, &arch).await?;
        }
        run.images(below, &Programs::default()).await
    };
    let built = async {
        let ((), programs) = tokio::try_join!(packages, golang::build(&run.work, reporter, request))?;
        run.images(above, &programs).await
    };
    let result = built.await;
    // One image may have failed after others were built.
    for image in run.garbage.into_inner().unwrap_or_else(PoisonError::into_inner) {
        engine::remove(docker, &image).await?;
    }
    for label in [STAGE_LABEL, LABEL_RECIPE] {
        engine::prune(docker, label, ABANDONED).await?;
    }
    result.map(|()| all)
}

/// Whether an image holds, at whatever depth, a program that is compiled here.
fn compiled(spec: &ImageSpec) -> bool {
    !spec.programs.is_empty() || needs(spec).any(|role| compiled(role.spec()))
}

/// Images that must be there before another can be built.
fn needs(spec: &ImageSpec) -> impl Iterator<Item = Role> + use<> {
    let parents: &'static [Role] = match spec.parent {
        Parent::Images(roles) => roles,
        Parent::Scratch | Parent::Base => &[],
    };
    parents.iter().chain(spec.preloads).copied()
}

/// The wanted images with everything absent that they need, in the order of the table.
fn closure(wanted: &[Role], absent: &[Role]) -> Vec<&'static ImageSpec> {
    let mut chosen: Vec<Role> = Vec::new();
    let mut queue: Vec<Role> = wanted.to_vec();
    while let Some(role) = queue.pop() {
        if !chosen.contains(&role) {
            chosen.push(role);
            queue.extend(needs(role.spec()).filter(|need| absent.contains(need)));
        }
    }
    IMAGES.iter().filter(|spec| chosen.contains(&spec.role)).collect()
}

impl Run<'_> {
    /// Builds images, those first that others of them need.
    async fn images(
        &self,
        mut pending: Vec<&'static ImageSpec>,
        programs: &Programs,
    ) -> Result<(), ImageError> {
        while !pending.is_empty() {
            let (ready, later): (Vec<&ImageSpec>, Vec<&ImageSpec>) = pending
                .iter()
                .copied()
                .partition(|spec| needs(spec).all(|role| pending.iter().all(|other| other.role != role)));
            let builds = ready.into_iter().map(|spec| self.image(spec, programs));
            stream::iter(builds).buffer_unordered(BUILDS).try_collect::<Vec<_>>().await?;
            pending = later;
        }
        Ok(())
    }

    fn discard(&self, images: impl IntoIterator<Item = String>) {
        // The list is whole even if another holder panicked.
        self.garbage.lock().unwrap_or_else(PoisonError::into_inner).extend(images);
    }

    /// Builds one image whose needs are met.
    async fn image(&self, spec: &'static ImageSpec, programs: &Programs) -> Result<(), ImageError> {
        let reference = spec.role.reference(self.version);
        let mut entries: Vec<Entry> = spec
            .files
            .iter()
            .map(|file| Entry {
                path: file.path,
                content: Content::Text(file.content),
                executable: file.executable,
            })
            .collect();
        entries.extend(spec.programs.iter().map(|program: &'static Program| Entry {
            path: program.path(),
            content: Content::File(programs.path(program)),
            executable: true,
        }));
        let preloads = self.work.scratch(&format!("{}-images.tar", spec.name));
        if !spec.preloads.is_empty() {
            self.reporter.step(spec.name, "collect the images to preload");
            let references: Vec<_> = spec.preloads.iter().map(|role| role.reference(self.version)).collect();
            engine::save(self.docker, &references, &preloads).await?;
            entries.push(Entry {
                path: "images.tar",
                content: Content::File(preloads.clone()),
                executable: false,
            });
        }

        let path = self.work.scratch(&format!("{}-context.tar", spec.name));
        self.pack(path.clone(), entries).await?;
        if !spec.preloads.is_empty() {
            std::fs::remove_file(&preloads).map_err(ImageError::file("remove", &preloads))?;
        }
        let request = BuildRequest {
            reference: &reference,
            subject: spec.name,
            arguments: self.arguments(spec),
            labels: self.labels(spec)?,
        };
        let replaced = engine::inspect(self.docker, &reference).await?.and_then(|image| image.id);
        let stages = engine::build(self.docker, &path, request, self.reporter).await?;
        self.discard(stages.into_iter().chain(replaced));
        std::fs::remove_file(&path).map_err(ImageError::file("remove", &path))?;
        self.reporter.done(spec.name, format!("built {reference}"));
        Ok(())
    }

    /// Writes a context: hundreds of megabytes, so not on a thread that serves the engine's connections.
    #[expect(
        clippy::disallowed_methods,
        reason = "streamed, too large for memory, and removed within the run"
    )]
    async fn pack(&self, path: PathBuf, entries: Vec<Entry>) -> Result<(), ImageError> {
        let at = path.clone();
        let packed = tokio::task::spawn_blocking(move || {
            let file = std::fs::File::create(&at)?;
            context::write(std::io::BufWriter::new(file), &entries)?
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error)
        });
        let result = packed.await.map_err(std::io::Error::other).and_then(|result| result);
        result.map(|_| ()).map_err(ImageError::file("write build context", path))
    }

    /// The builder knows these names without an ARG where a proxy is concerned.
    fn arguments(&self, spec: &ImageSpec) -> HashMap<String, String> {
        let mut arguments: HashMap<String, String> =
            PROXIES.iter().filter_map(|name| Some(((*name).to_owned(), crate::env::value(name)?))).collect();
        match spec.parent {
            Parent::Scratch => {}
            Parent::Base => {
                arguments.insert("BASE".to_owned(), base::REFERENCE.to_owned());
            }
            Parent::Images(roles) => {
                arguments.extend(roles.iter().map(|role| (role.argument(), role.reference(self.version))));
            }
        }
        if spec.files.iter().any(|file| file.content.contains("ARG KUBERNETES_VERSION")) {
            arguments.insert("KUBERNETES_VERSION".to_owned(), self.version.to_owned());
        }
        arguments
    }

    fn labels(&self, spec: &ImageSpec) -> Result<HashMap<String, String>, ImageError> {
        Ok(HashMap::from([
            (LABEL_VERSION.to_owned(), self.version.to_owned()),
            (LABEL_RECIPE.to_owned(), recipe::digest(spec.role, self.version, self.release)?),
            (LABEL_COMPONENT.to_owned(), self.release.component_version(spec.component, self.version)),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(specs: &[&ImageSpec]) -> Vec<&'static str> {
        specs.iter().map(|spec| spec.name).collect()
    }

    #[test]
    fn what_is_absent_below_a_wanted_image_is_built_too() {
        let absent = [Role::Network, Role::Pause, Role::Etcd];
        assert_eq!(names(&closure(&[Role::Tools], &absent)), ["network", "tools"]);
        assert_eq!(names(&closure(&[Role::Node], &absent)), ["pause", "network", "node"]);
        assert_eq!(names(&closure(&[Role::Node], &[])), ["node"]);
        assert_eq!(names(&closure(&[Role::Vm], &[Role::Node])), ["node", "vm"]);
    }

    #[test]
    fn only_images_of_packages_alone_are_built_beside_the_compiler() {
        let below: Vec<_> = IMAGES.iter().filter(|spec| !compiled(spec)).collect();
        assert_eq!(names(&below), ["network", "tools"]);
    }

    #[test]
    fn every_image_can_be_built_at_some_time() {
        let mut pending: Vec<_> = IMAGES.iter().collect();
        while !pending.is_empty() {
            let before = pending.len();
            let roles: Vec<_> = pending.iter().map(|spec| spec.role).collect();
            pending.retain(|spec| needs(spec).any(|role| roles.contains(&role)));
            assert!(pending.len() < before, "{:?}", names(&pending));
        }
    }
}
