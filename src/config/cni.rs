//! Where the pod network's manifest comes from. A URL needs its SHA-256, so that what runs in
//! the cluster is what was looked at.

use std::path::{Path, PathBuf};

use hoist_phases::spec::Cni;
use sha2::{Digest as _, Sha256};

use crate::fetch::{self, FetchError};

/// What a user named as CNI, not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CniSource {
    KubeRouter,
    None,
    File(PathBuf),
    Url { url: String, sha256: String },
}

#[derive(Debug, thiserror::Error)]
pub enum CniError {
    #[error("cni {url:?}: a URL must end with #sha256= and 64 hexadecimal digits")]
    Unpinned { url: String },
    #[error("cni {0:?}: only https URLs are fetched")]
    Scheme(String),
    #[error("cni {path:?}: is neither `kube-router`, `none`, a URL nor a readable file")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cni {url}: can't be fetched")]
    Fetch {
        url: String,
        #[source]
        source: FetchError,
    },
    #[error("cni {url}: has the SHA-256 {found}, not {wanted}")]
    Digest { url: String, found: String, wanted: String },
    #[error("cni {origin}: is not text in UTF-8")]
    Encoding { origin: String },
}

impl CniSource {
    /// Reads what `--cni` or the field `cni` says; a relative path starts at `base`.
    ///
    /// # Errors
    /// When a URL isn't pinned, or isn't https.
    pub fn parse(text: &str, base: &Path) -> Result<Self, CniError> {
        match text {
            "kube-router" => return Ok(Self::KubeRouter),
            "none" => return Ok(Self::None),
            _ => {}
        }
        if !text.contains("://") {
            return Ok(Self::File(base.join(text)));
        }
        let Some((url, sha256)) = fetch::pinned(text) else {
            return Err(CniError::Unpinned { url: text.to_owned() });
        };
        if !url.starts_with("https://") {
            return Err(CniError::Scheme(url.to_owned()));
        }
        Ok(Self::Url { url: url.to_owned(), sha256 })
    }

    /// The CNI as far as it is known without reading: the kind of it.
    pub fn unread(&self) -> Cni {
        match self {
            Self::KubeRouter => Cni::KubeRouter,
            Self::None => Cni::None,
            Self::File(path) => Cni::Manifest { origin: path.display().to_string(), yaml: String::new() },
            Self::Url { url, .. } => Cni::Manifest { origin: url.clone(), yaml: String::new() },
        }
    }

    /// Reads or fetches the manifest.
    ///
    /// # Errors
    /// When it can't be had, or isn't what was pinned.
    pub async fn load(self) -> Result<Cni, CniError> {
        let (origin, bytes) = match self {
            Self::KubeRouter => return Ok(Cni::KubeRouter),
            Self::None => return Ok(Cni::None),
            Self::File(path) => {
                let read = tokio::fs::read(&path).await;
                let bytes = read.map_err(|source| CniError::Read { path: path.clone(), source })?;
                (path.display().to_string(), bytes)
            }
            Self::Url { url, sha256 } => {
                let bytes = fetch::get(&url).await;
                let bytes = bytes.map_err(|source| CniError::Fetch { url: url.clone(), source })?;
                verify(&url, &bytes, sha256)?;
                (url, bytes)
            }
        };
        match String::from_utf8(bytes) {
            Ok(yaml) => Ok(Cni::Manifest { origin, yaml }),
            Err(_) => Err(CniError::Encoding { origin }),
        }
    }
}

fn verify(url: &str, bytes: &[u8], wanted: String) -> Result<(), CniError> {
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found == wanted { Ok(()) } else { Err(CniError::Digest { url: url.to_owned(), found, wanted }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn tells_the_sources_apart() {
        let parse = |text: &str| CniSource::parse(text, Path::new("/etc/hoist")).map_err(|e| e.to_string());
        assert_eq!(parse("none"), Ok(CniSource::None));
        assert_eq!(parse("a/cni.yaml"), Ok(CniSource::File("/etc/hoist/a/cni.yaml".into())));
        assert_eq!(parse("/cni.yaml"), Ok(CniSource::File("/cni.yaml".into())));
        let url = "https://example.org/cni.yaml".to_owned();
        let pinned = parse(&format!("{url}#sha256={}", EMPTY.to_uppercase()));
        assert_eq!(pinned, Ok(CniSource::Url { url: url.clone(), sha256: EMPTY.to_owned() }));
        for bad in [url.clone(), format!("{url}#sha256=12"), format!("http://example.org/a#sha256={EMPTY}")] {
            assert!(parse(&bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn another_content_than_the_pinned_is_refused() {
        assert!(verify("u", b"", EMPTY.to_owned()).is_ok());
        assert!(matches!(verify("u", b"x", EMPTY.to_owned()), Err(CniError::Digest { .. })));
    }
}
