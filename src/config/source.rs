//! Where manifests come from: the pod network's and addons'. A URL needs its SHA-256, so that what
//! runs in the cluster is what was looked at.

use std::path::{Path, PathBuf};

use hoist_phases::spec::Cni;

use crate::digest;
use crate::fetch::{self, FetchError};

/// A manifest that a user named, not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it was named, for messages.
    field: String,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Url { url: String, sha256: String },
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{field} {url:?}: a URL must end with #sha256= and 64 hexadecimal digits")]
    Unpinned { field: String, url: String },
    #[error("{field} {url:?}: only https URLs are fetched")]
    Scheme { field: String, url: String },
    #[error("{field} {path:?}: can't be read; name a readable file, or URL#sha256=HEX{also}")]
    Read {
        field: String,
        path: PathBuf,
        /// What else the field may say.
        also: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("{field} {url}: can't be fetched")]
    Fetch {
        field: String,
        url: String,
        #[source]
        source: Box<FetchError>,
    },
    #[error("{field} {url}: has the SHA-256 {found}, not {wanted}")]
    Digest { field: String, url: String, found: String, wanted: String },
    #[error("{field} {origin}: is not text in UTF-8")]
    Encoding { field: String, origin: String },
}

impl Source {
    /// Reads what a field says; a relative path starts at `base`.
    ///
    /// # Errors
    /// When a URL isn't pinned, or isn't https.
    pub fn parse(field: &str, text: &str, base: &Path) -> Result<Self, SourceError> {
        let field = field.to_owned();
        if !text.contains("://") {
            return Ok(Self { field, place: Place::File(base.join(text)) });
        }
        let Some((url, sha256)) = fetch::pinned(text) else {
            return Err(SourceError::Unpinned { field, url: text.to_owned() });
        };
        if !url.starts_with("https://") {
            return Err(SourceError::Scheme { field, url: url.to_owned() });
        }
        Ok(Self { field, place: Place::Url { url: url.to_owned(), sha256 } })
    }

    /// What it is called once it is read.
    pub fn origin(&self) -> String {
        match &self.place {
            Place::File(path) => path.display().to_string(),
            Place::Url { url, .. } => url.clone(),
        }
    }

    /// Reads or fetches the text.
    ///
    /// # Errors
    /// When it can't be had, or isn't what was pinned.
    pub async fn load(self) -> Result<String, SourceError> {
        let origin = self.origin();
        let Self { field, place } = self;
        let bytes = match place {
            Place::File(path) => match tokio::fs::read(&path).await {
                Ok(bytes) => bytes,
                Err(source) => {
                    let also = if field == "cni" { ", kube-router or none" } else { "" };
                    return Err(SourceError::Read { field, path, also, source });
                }
            },
            Place::Url { url, sha256 } => match fetch::get(&url).await {
                Ok(bytes) => {
                    verify(&field, &url, &bytes, sha256)?;
                    bytes
                }
                Err(source) => return Err(SourceError::Fetch { field, url, source: Box::new(source) }),
            },
        };
        String::from_utf8(bytes).map_err(|_| SourceError::Encoding { field, origin })
    }
}

/// What `--cni` or the field `cni` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CniSource {
    KubeRouter,
    None,
    Manifest(Source),
}

impl CniSource {
    /// # Errors
    /// As [`Source::parse`].
    pub fn parse(text: &str, base: &Path) -> Result<Self, SourceError> {
        match text {
            "kube-router" => Ok(Self::KubeRouter),
            "none" => Ok(Self::None),
            _ => Source::parse("cni", text, base).map(Self::Manifest),
        }
    }

    /// The CNI as far as it is known without reading: the kind of it.
    pub fn unread(&self) -> Cni {
        match self {
            Self::KubeRouter => Cni::KubeRouter,
            Self::None => Cni::None,
            Self::Manifest(source) => Cni::Manifest { origin: source.origin(), yaml: String::new() },
        }
    }

    /// # Errors
    /// As [`Source::load`].
    pub async fn load(self) -> Result<Cni, SourceError> {
        Ok(match self {
            Self::KubeRouter => Cni::KubeRouter,
            Self::None => Cni::None,
            Self::Manifest(source) => Cni::Manifest { origin: source.origin(), yaml: source.load().await? },
        })
    }
}

fn verify(field: &str, url: &str, bytes: &[u8], wanted: String) -> Result<(), SourceError> {
    let found = digest::of_bytes(bytes);
    if found == wanted {
        return Ok(());
    }
    Err(SourceError::Digest { field: field.to_owned(), url: url.to_owned(), found, wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn tells_the_sources_apart() {
        let parse = |text: &str| CniSource::parse(text, Path::new("/etc/hoist")).map_err(|e| e.to_string());
        let manifest = |place| Ok(CniSource::Manifest(Source { field: "cni".to_owned(), place }));
        assert_eq!(parse("none"), Ok(CniSource::None));
        assert_eq!(parse("a/cni.yaml"), manifest(Place::File("/etc/hoist/a/cni.yaml".into())));
        assert_eq!(parse("/cni.yaml"), manifest(Place::File("/cni.yaml".into())));
        let url = "https://example.org/cni.yaml".to_owned();
        let pinned = parse(&format!("{url}#sha256={}", EMPTY.to_uppercase()));
        assert_eq!(pinned, manifest(Place::Url { url: url.clone(), sha256: EMPTY.to_owned() }));
        for bad in [url.clone(), format!("{url}#sha256=12"), format!("http://example.org/a#sha256={EMPTY}")] {
            assert!(parse(&bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn another_content_than_the_pinned_is_refused() {
        assert!(verify("cni", "u", b"", EMPTY.to_owned()).is_ok());
        assert!(matches!(verify("cni", "u", b"x", EMPTY.to_owned()), Err(SourceError::Digest { .. })));
    }
}
