//! What can go wrong with images.

use std::io;
use std::path::PathBuf;

use bollard::errors::Error as EngineError;

/// Failure of an operation on images. A failed build step brings the end of its log along.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    #[error("`{version}` is no Kubernetes release (expected e.g. v1.36.3)")]
    Version { version: String },

    #[error("the sources of Kubernetes {version} can't be had; pinned are {pinned}")]
    Sources {
        version: String,
        pinned: String,
        #[source]
        source: Box<ImageError>,
    },

    #[error("ask the engine for {what}")]
    Engine {
        what: String,
        #[source]
        source: EngineError,
    },

    #[error("inspect image {reference}")]
    Inspect {
        reference: String,
        #[source]
        source: EngineError,
    },

    #[error("pull image {reference}")]
    Pull {
        reference: String,
        #[source]
        source: EngineError,
    },

    #[error("tag image {reference} as {tag}")]
    Tag {
        reference: String,
        tag: String,
        #[source]
        source: EngineError,
    },

    #[error("build image {reference}: step `{step}` failed; the end of its log:\n{log}")]
    Build {
        reference: String,
        step: String,
        log: String,
        // Boxed: every result of this module would be as large as this variant.
        #[source]
        source: Box<EngineError>,
    },

    #[error("import root file system as {reference}")]
    Import {
        reference: String,
        #[source]
        source: EngineError,
    },

    #[error("load images from {}", archive.display())]
    Load {
        archive: PathBuf,
        #[source]
        source: EngineError,
    },

    #[error("save images to {}", archive.display())]
    Save {
        archive: PathBuf,
        #[source]
        source: EngineError,
    },

    #[error("{operation} {}", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error(transparent)]
    Write(#[from] crate::files::FileError),

    #[error("start `{program}`, which is needed to {purpose}")]
    Program {
        program: String,
        purpose: &'static str,
        #[source]
        source: io::Error,
    },

    #[error("`{command}` failed ({status}); the end of its output:\n{log}")]
    Command { command: String, status: String, log: String },

    #[error("no base image: {reference} can't be pulled, and building it with debootstrap {problem}")]
    Base { reference: String, problem: &'static str },

    #[error("{count} of the images are missing and may not be built: {list}")]
    Missing { count: usize, list: String },

    #[error("disk image {} {problem}", path.display())]
    Disk { path: PathBuf, problem: &'static str },

    #[error("fetch disk image {url}")]
    Download {
        url: String,
        #[source]
        source: crate::error::BoxError,
    },

    #[error("disk image {url} has the SHA-256 {found}, not {wanted}")]
    Digest { url: String, found: String, wanted: String },

    #[error("no directory for the build cache: neither XDG_CACHE_HOME nor HOME is set")]
    NoCache,
}

impl ImageError {
    /// For `map_err` on file operations.
    pub(crate) fn file(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { operation, path, source }
    }
}
