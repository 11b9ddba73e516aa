//! The Debian root file system below all images that need more than one static binary.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bollard::Docker;
use tokio::process::Command;

use super::apt::{self, Mirrors};
use super::command;
use super::engine;
use super::error::ImageError;
use super::progress::Reporter;
use super::pull::{Outcome, Registries};
use super::work::WorkDir;

/// The local name of the base, whatever it was made from.
pub(crate) const REFERENCE: &str = "localhost/hoist/base:trixie";
const UPSTREAM: &str = "docker.io/library/debian:trixie-slim";
const SUITE: &str = "trixie";
const SUBJECT: &str = "base";

/// Provides the base: the engine has it, a registry has it, or debootstrap makes it.
pub(crate) async fn ensure(
    docker: &Docker,
    work: &WorkDir,
    reporter: Reporter<'_>,
    registries: &Registries,
    arch: &str,
) -> Result<(), ImageError> {
    if engine::inspect(docker, REFERENCE).await?.is_some() {
        return Ok(());
    }
    reporter.step(SUBJECT, format!("pull {UPSTREAM}"));
    if registries.pull(docker, UPSTREAM).await == Outcome::Pulled {
        engine::tag(docker, UPSTREAM, REFERENCE).await?;
        reporter.done(SUBJECT, "pulled");
        return Ok(());
    }
    debootstrap(docker, work, reporter, arch).await
}

async fn debootstrap(
    docker: &Docker,
    work: &WorkDir,
    reporter: Reporter<'_>,
    arch: &str,
) -> Result<(), ImageError> {
    let problem = |problem| ImageError::Base { reference: UPSTREAM.to_owned(), problem };
    if !rustix::process::geteuid().is_root() {
        return Err(problem("needs root on this machine: run the build as root once, or load an archive"));
    }
    reporter.step(SUBJECT, format!("debootstrap {SUITE}"));
    let root = work.scratch("base");
    let mirrors = Mirrors::of_host();
    let mut command = contained("debootstrap").await;
    command.args(["--variant=minbase", "--include=ca-certificates"]).arg(format!("--arch={arch}"));
    command.arg(SUITE).arg(&root);
    // Without one, the tool's own default holds.
    command.args(&mirrors.main);
    let heartbeat = || reporter.step(SUBJECT, "debootstrap is still at work");
    command::run(command, "make the base image", |_| (), heartbeat).await?;

    slim(&root, &mirrors)?;
    let archive = work.scratch("base.tar");
    let mut tar = Command::new("tar");
    // The engine gives every container a /dev of its own; device nodes can't be unpacked everywhere.
    tar.args(["--numeric-owner", "--exclude=./dev/*", "-C"]).arg(&root).arg("-cf").arg(&archive).arg(".");
    command::run(tar, "pack the base image", |_| (), || ()).await?;
    engine::import(docker, &archive, REFERENCE).await?;
    for path in [&root, &archive] {
        let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        removed.map_err(ImageError::file("remove", path))?;
    }
    reporter.done(SUBJECT, "made by debootstrap");
    Ok(())
}

/// A program with mounts and processes of its own: what it mounts below the scratch directory, and
/// what it starts, ends with it even when it is killed. Plainly where that isn't permitted.
async fn contained(program: &str) -> Command {
    const OWN: [&str; 3] = ["-mpf", "--kill-child", "--mount-proc"];
    let mut command = Command::new("unshare");
    command.args(OWN);
    let mut probe = Command::new("unshare");
    probe.args(OWN).arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if probe.status().await.is_ok_and(|status| status.success()) {
        command.arg(program);
        return command;
    }
    Command::new(program)
}

/// Removes what no image needs, before it becomes a layer that all of them carry.
fn slim(root: &Path, mirrors: &Mirrors) -> Result<(), ImageError> {
    let list = root.join("etc/apt/sources.list");
    let written = std::fs::read_to_string(&list).unwrap_or_default();
    if let Some(main) = apt::first_uri(&written) {
        crate::files::write(&list, mirrors.sources_list(SUITE, &main).as_bytes(), 0o644)?;
    }
    for directory in [
        "usr/share/man",
        "usr/share/info",
        "usr/share/locale",
        "usr/share/lintian",
        "var/lib/apt/lists",
        "var/cache/apt",
        "var/log",
    ] {
        empty(&root.join(directory))?;
    }
    // Licences stay with what they cover.
    let docs = root.join("usr/share/doc");
    for package in entries(&docs)? {
        for file in entries(&package)? {
            if file.file_name().is_none_or(|name| name != "copyright") {
                remove(&file)?;
            }
        }
    }
    Ok(())
}

fn empty(directory: &Path) -> Result<(), ImageError> {
    entries(directory)?.iter().try_for_each(|path| remove(path))
}

fn remove(path: &Path) -> Result<(), ImageError> {
    let directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if directory { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.map_err(ImageError::file("remove", path))
}

/// Entries of a directory; none where it is no directory (links of one package's docs to another's).
fn entries(directory: &Path) -> Result<Vec<PathBuf>, ImageError> {
    if !directory.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(directory).map_err(ImageError::file("read", directory))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}
