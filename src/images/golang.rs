//! Compiles the programs of the images: the tools of one Go module, in one `go build`, so that a package
//! which many of them share is compiled once. The toolchain, its proxies and its cache are the user's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::command;
use super::error::ImageError;
use super::module;
use super::progress::Reporter;
use super::release::{self, Release};
use super::table::{GoModule, ImageSpec, Program};
use super::work::WorkDir;

/// Subject of the progress lines.
const SUBJECT: &str = "programs";

/// Flags of the linker for what belongs to no Kubernetes version.
const PLAIN_FLAGS: &str = "-s -w";

/// Flags of the linker. kubeadm and the kubelet refuse to work without a version.
pub(crate) fn linker_flags(version: &str, release: &Release) -> String {
    const VERSION: &str = "k8s.io/component-base/version";
    let (major, minor) = release::parse(version).unwrap_or_default();
    let mut flags = format!(
        "-s -w -X {VERSION}.gitVersion={version} -X {VERSION}.gitMajor={major} -X {VERSION}.gitMinor={minor} \
         -X {VERSION}.gitTreeState=clean"
    );
    for (module, variable) in [
        ("sigs.k8s.io/cri-tools", "sigs.k8s.io/cri-tools/pkg/version.Version"),
        (
            "github.com/cloudnativelabs/kube-router/v2",
            "github.com/cloudnativelabs/kube-router/v2/pkg/version.Version",
        ),
        (
            "github.com/containernetworking/plugins",
            "github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion",
        ),
    ] {
        if let Some(found) = release.module_version(module) {
            flags.push_str(&format!(" -X {variable}={found}"));
        }
    }
    flags
}

/// What to compile, and for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) version: &'a str,
    pub(crate) release: &'a Release,
    /// As Go names it, e.g. `amd64`.
    pub(crate) arch: &'a str,
    pub(crate) images: &'a [&'static ImageSpec],
}

/// Compiled programs by their names.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Of what belongs to a Kubernetes version.
    directory: PathBuf,
    /// Of the modules that don't.
    alone: BTreeMap<GoModule, PathBuf>,
}

impl Programs {
    pub(crate) fn path(&self, program: &Program) -> PathBuf {
        match program {
            Program::Tool { module, .. } => {
                self.alone.get(module).unwrap_or(&self.directory).join(program.file_name())
            }
            Program::Source { .. } => self.directory.join(program.file_name()),
            Program::Own { .. } => PathBuf::from(crate::digest::PROGRAM),
        }
    }
}

/// Compiles what the images need and the cache does not have.
pub(crate) async fn build(
    work: &WorkDir,
    reporter: Reporter<'_>,
    request: Request<'_>,
) -> Result<Programs, ImageError> {
    let flags = linker_flags(request.version, request.release);
    let family = format!("{}-{}-", request.version, request.arch);
    let directory = kept_directory(work, &request, &flags, &family, &GoModule::VERSIONED)?;
    let mut alone = BTreeMap::new();
    for module in GoModule::ALONE {
        let family = format!("{}-{}-", module_name(request.release.module_files(module).0), request.arch);
        alone.insert(module, kept_directory(work, &request, PLAIN_FLAGS, &family, &[module])?);
    }
    let programs = Programs { directory, alone };

    let mut tools: BTreeMap<GoModule, BTreeMap<&str, (&str, &Program)>> = BTreeMap::new();
    let mut sources = Vec::new();
    for spec in request.images {
        for program in spec.programs {
            if programs.path(program).exists() {
                continue;
            }
            match program {
                Program::Tool { module, package, built_as, .. } => {
                    tools.entry(*module).or_default().insert(package, (built_as, program));
                }
                Program::Source { file, .. } => sources.push((*spec, program, *file)),
                Program::Own { .. } => {}
            }
        }
    }

    for (module, tools) in tools {
        let source = module::prepare(work, request.version, request.release, module)?;
        let staging = work.scratch("programs");
        std::fs::create_dir_all(&staging).map_err(ImageError::file("create", &staging))?;
        reporter.step(
            SUBJECT,
            format!("go build of {}", list(tools.values().map(|(_, program)| program.file_name()))),
        );
        let flags = if GoModule::ALONE.contains(&module) { PLAIN_FLAGS } else { &flags };
        let mut go = go_build(&request, flags, &source);
        go.arg("-v").arg("-o").arg(format!("{}/", staging.display()));
        if !module::pinned(request.version, request.release, module) {
            // The generated module names only what it must: the rest is resolved here.
            go.arg("-mod=mod");
        }
        go.args(tools.keys());
        compile(go, reporter).await?;
        for (built_as, program) in tools.values() {
            rename(&staging.join(built_as), &programs.path(program))?;
        }
    }
    for (spec, program, file) in sources {
        reporter.step(SUBJECT, format!("go build of {}", spec.name));
        let source = work.scratch(spec.name);
        std::fs::create_dir_all(&source).map_err(ImageError::file("create", &source))?;
        crate::files::write(&source.join(file.path), file.content.as_bytes(), 0o644)?;
        let mut go = go_build(&request, PLAIN_FLAGS, &source);
        go.arg("-o").arg("program").arg(file.path);
        compile(go, reporter).await?;
        rename(&source.join("program"), &programs.path(program))?;
    }
    Ok(programs)
}

/// The last part of a module's path, such as `registry`.
fn module_name(go_mod: &str) -> &str {
    let path = go_mod.lines().find_map(|line| line.strip_prefix("module ")).unwrap_or_default();
    path.rsplit('/').next().unwrap_or(path).trim()
}

fn go_build(request: &Request<'_>, flags: &str, directory: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(directory)
        .env("CGO_ENABLED", "0")
        .env("GOOS", "linux")
        .env("GOARCH", request.arch)
        // Whoever calls this may stand in a workspace of their own.
        .env("GOWORK", "off")
        .args(["build", "-trimpath", "-ldflags", flags]);
    go
}

async fn compile(go: Command, reporter: Reporter<'_>) -> Result<(), ImageError> {
    let packages = AtomicUsize::new(0);
    command::run(
        go,
        "compile the programs of the images",
        |_| {
            packages.fetch_add(1, Ordering::Relaxed);
        },
        || {
            reporter.step(
                SUBJECT,
                format!("compiling and linking, {} packages compiled", packages.load(Ordering::Relaxed)),
            )
        },
    )
    .await
}

/// One directory for each combination of sources and flags; the ones of its family that it replaces are removed.
fn kept_directory(
    work: &WorkDir,
    request: &Request<'_>,
    flags: &str,
    family: &str,
    modules: &[GoModule],
) -> Result<PathBuf, ImageError> {
    let mut hasher = Sha256::new();
    for module in modules {
        let (go_mod, go_sum) = request.release.module_files(*module);
        hasher.update(go_mod);
        hasher.update(go_sum);
    }
    hasher.update(flags);
    let hash: String = hasher.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let all = work.kept("programs")?;
    let current = format!("{family}{hash}");
    let entries = std::fs::read_dir(&all).map_err(ImageError::file("read", &all))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(family) && *name != current {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    work.kept(&format!("programs/{current}"))
}

/// Into place only when complete: a program found there later is never half of one.
fn rename(from: &Path, to: &Path) -> Result<(), ImageError> {
    std::fs::rename(from, to).map_err(ImageError::file("move into the build cache", from))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_is_told_every_part_of_the_version() {
        let flags = linker_flags("v1.36.3", Release::of("v1.36.3"));
        for part in
            ["gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36", "BuildVersion=v", "pkg/version.Version=v"]
        {
            assert!(flags.contains(part), "{part} in {flags}");
        }
    }
}
