//! The Go module that programs are built from: the pinned one, or one made on the spot for a Kubernetes
//! version that nobody pinned.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Deserialize;
use tokio::process::Command;

use super::command;
use super::error::ImageError;
use super::progress::Reporter;
use super::release::{RELEASES, Release};
use super::table::{GoModule, IMAGES, Program};
use super::work::WorkDir;
use crate::files;

const KUBERNETES: &str = "k8s.io/kubernetes";

/// Whether the sources of a module are pinned for a version.
pub(crate) fn pinned(version: &str, release: &Release, module: GoModule) -> bool {
    module != GoModule::Release || release.pins(version)
}

/// Writes a pinned module, and returns the directory of this or of a [`resolve`]d one.
pub(crate) fn prepare(
    work: &WorkDir,
    version: &str,
    release: &Release,
    module: GoModule,
) -> Result<PathBuf, ImageError> {
    if pinned(version, release, module) {
        let directory = work.scratch(&format!("module-{module:?}"));
        std::fs::create_dir_all(&directory).map_err(ImageError::file("create", &directory))?;
        let (go_mod, go_sum) = release.module_files(module);
        files::write(&directory.join("go.mod"), go_mod.as_bytes(), 0o644)?;
        files::write(&directory.join("go.sum"), go_sum.as_bytes(), 0o644)?;
        return Ok(directory);
    }
    kept(work, version)
}

/// Makes the module of a version that nobody pinned: before anything is built, since its sources may not be had.
pub(crate) async fn resolve(
    work: &WorkDir,
    reporter: Reporter<'_>,
    version: &str,
    release: &Release,
) -> Result<(), ImageError> {
    if release.pins(version) {
        return Ok(());
    }
    let directory = kept(work, version)?;
    reporter.warn(
        "programs",
        format!(
            "the sources of {version} are not pinned by this hoist: they are resolved now, with the other \
             components of {}",
            release.version
        ),
    );
    // With a go.sum in place, an earlier run has resolved everything.
    if !directory.join("go.sum").exists() {
        let upstream = download(&directory, version).await?;
        let text = generate(version, release, &upstream);
        files::write(&directory.join("go.mod"), text.as_bytes(), 0o644)?;
    }
    Ok(())
}

fn kept(work: &WorkDir, version: &str) -> Result<PathBuf, ImageError> {
    work.kept(&format!("module/{version}"))
}

/// The module file of a Kubernetes version.
async fn download(directory: &Path, version: &str) -> Result<String, ImageError> {
    #[derive(Deserialize)]
    struct Downloaded {
        #[serde(rename = "GoMod")]
        go_mod: PathBuf,
    }

    let mut go = Command::new("go");
    go.current_dir(directory)
        .env("GOWORK", "off")
        .args(["mod", "download", "-json"])
        .arg(format!("{KUBERNETES}@{version}"));
    let output = Mutex::new(String::new());
    let collect = |line: &str| {
        if let Ok(mut output) = output.lock() {
            output.push_str(line);
        }
    };
    command::run(go, "download the sources of Kubernetes", collect, || ())
        .await
        .map_err(|source| no_sources(version, source))?;
    let text = output.into_inner().unwrap_or_default();
    // The toolchain may say something of its own before the object.
    let object = text.find('{').map_or("", |start| &text[start..]);
    let found: Downloaded = serde_json::from_str(object)
        .map_err(|error| ImageError::file("read Go's answer about", KUBERNETES)(error.into()))?;
    std::fs::read_to_string(&found.go_mod).map_err(ImageError::file("read", &found.go_mod))
}

/// For a version that was never released, or that this machine's proxy doesn't serve.
fn no_sources(version: &str, source: ImageError) -> ImageError {
    let pinned: Vec<_> = RELEASES.iter().rev().map(|release| release.version).collect();
    ImageError::Sources { version: version.to_owned(), pinned: pinned.join(", "), source: Box::new(source) }
}

/// Requires Kubernetes, its staging modules and the other tools' modules; the rest follows from these.
fn generate(version: &str, release: &Release, upstream: &str) -> String {
    let mut text = String::from("module hoist.dev/images\n\n");
    for line in release.go_mod.lines().filter(|line| line.starts_with("go ")) {
        let _ = writeln!(text, "{line}\n");
    }
    // The kubelet and the apiserver are tested by upstream with this, not with our module's default.
    for line in upstream.lines().filter(|line| line.starts_with("godebug default=")) {
        let _ = writeln!(text, "{line}\n");
    }
    let _ = writeln!(text, "require (\n\t{KUBERNETES} {version}");
    let staging_version = version.replacen("v1.", "v0.", 1);
    for module in staging_modules(upstream) {
        let _ = writeln!(text, "\t{module} {staging_version}");
    }
    let packages: BTreeSet<&str> = IMAGES
        .iter()
        .flat_map(|spec| spec.programs)
        .filter_map(|program| match program {
            Program::Tool { module: GoModule::Release, package, .. } => Some(*package),
            Program::Tool { .. } | Program::Source { .. } | Program::Own { .. } => None,
        })
        .collect();
    let others: BTreeSet<_> = packages.iter().filter_map(|package| module_of(release, package)).collect();
    for (module, pinned) in others.into_iter().filter(|(module, _)| *module != KUBERNETES) {
        let _ = writeln!(text, "\t{module} {pinned}");
    }
    text.push_str(")\n\ntool (\n");
    for package in packages {
        let _ = writeln!(text, "\t{package}");
    }
    text.push_str(")\n");
    text
}

/// Modules that Kubernetes maps to directories of its own repository, as far as it uses them itself: not every
/// one of its examples is published for each release.
fn staging_modules(go_mod: &str) -> Vec<&str> {
    let required = |module: &str| {
        go_mod.lines().any(|line| {
            let mut words = line.split_whitespace().filter(|word| *word != "require");
            words.next() == Some(module) && words.next() == Some("v0.0.0")
        })
    };
    go_mod
        .lines()
        .filter_map(|line| line.split_once("=>"))
        .filter(|(_, target)| target.trim().starts_with("./staging/"))
        .filter_map(|(module, _)| module.split_whitespace().find(|word| *word != "replace"))
        .filter(|module| required(module))
        .collect()
}

/// The pinned module that a package is part of: the longest path that the package's begins with.
fn module_of(release: &Release, package: &str) -> Option<(&'static str, &'static str)> {
    release
        .go_mod
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().filter(|word| *word != "require");
            Some((words.next()?, words.next().filter(|word| word.starts_with('v'))?))
        })
        .filter(|(module, _)| {
            package.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
        .max_by_key(|(module, _)| module.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPSTREAM: &str = "module k8s.io/kubernetes\n\ngo 1.25.0\n\ngodebug default=go1.25\n\n\
        require (\n\tk8s.io/api v0.0.0\n\tk8s.io/kubelet v0.0.0 // indirect\n)\n\n\
        replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\
        \tk8s.io/kubelet => ./staging/src/k8s.io/kubelet\n\
        \tk8s.io/sample => ./staging/src/k8s.io/sample\n\texample.org/other => ../other\n)\n";

    #[test]
    fn only_staging_modules_that_are_used_are_mapped() {
        assert_eq!(staging_modules(UPSTREAM), ["k8s.io/api", "k8s.io/kubelet"]);
    }

    #[test]
    fn an_unpinned_version_takes_everything_else_from_the_pins() {
        let release = Release::of("v1.35.9");
        let text = generate("v1.35.9", release, UPSTREAM);
        for line in ["k8s.io/kubernetes v1.35.9", "k8s.io/api v0.35.9", "godebug default=go1.25"] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let etcd = release.module_version("go.etcd.io/etcd/server/v3").unwrap_or_default();
        assert!(text.contains(&format!("go.etcd.io/etcd/server/v3 {etcd}")), "{text}");
        assert!(!text.contains(release.version), "{text}");
    }

    #[test]
    fn sources_that_nobody_serves_bring_along_those_that_are_pinned() {
        let error = no_sources("v1.36.999", ImageError::NoCache);
        for part in RELEASES.iter().map(|release| release.version).chain(["v1.36.999"]) {
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn packages_belong_to_the_longest_module() {
        let module = |package| module_of(Release::of("v1.36.3"), package).map(|(module, _)| module);
        assert_eq!(module("k8s.io/kubernetes/cmd/kubelet"), Some("k8s.io/kubernetes"));
        assert_eq!(module("go.etcd.io/etcd/server/v3"), Some("go.etcd.io/etcd/server/v3"));
        assert_eq!(module("k8s.io/kubernetesx"), None);
    }
}
