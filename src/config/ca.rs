//! A certificate authority that the user brings. Whether it is one is judged by the certs phase.

use std::path::{Path, PathBuf};

use super::file::CaFile;
use crate::cli::args::UpArgs;

/// Certificate and key in PEM, as they were read.
#[derive(Clone, PartialEq, Eq)]
pub struct UsersCa {
    pub cert: Vec<u8>,
    pub key: Vec<u8>,
}

/// Without the key.
impl std::fmt::Debug for UsersCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UsersCa")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("{given} without {missing}: a CA signs with its key; give both")]
    Half { given: &'static str, missing: &'static str },
    #[error("CA file {path:?}: can't be read")]
    Read {
        path: PathBuf,
        #[source]
        source: crate::files::FileError,
    },
    #[error("CA file {0:?}: there is no such file")]
    Absent(PathBuf),
}

/// Reads what flags or file name; a flag wins. Paths of the file start at `beside`.
///
/// # Errors
/// When one of the two is missing, or can't be read.
pub(super) fn read(args: &UpArgs, file: Option<&CaFile>, beside: &Path) -> Result<Option<UsersCa>, CaError> {
    let pick = |flag: &Option<PathBuf>, field: Option<&PathBuf>| {
        flag.clone().or_else(|| field.map(|path| beside.join(path)))
    };
    let cert = pick(&args.ca_cert, file.and_then(|file| file.cert.as_ref()));
    let key = pick(&args.ca_key, file.and_then(|file| file.key.as_ref()));
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(CaError::Half { given: "--ca-cert", missing: "--ca-key" }),
        (None, Some(_)) => Err(CaError::Half { given: "--ca-key", missing: "--ca-cert" }),
        (Some(cert), Some(key)) => Ok(Some(UsersCa { cert: content(cert)?, key: content(key)? })),
    }
}

fn content(path: PathBuf) -> Result<Vec<u8>, CaError> {
    match crate::files::read(&path) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(CaError::Absent(path)),
        Err(source) => Err(CaError::Read { path, source }),
    }
}
