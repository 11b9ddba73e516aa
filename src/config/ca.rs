//! A certificate authority that the user brings. Whether it is one is judged by the certs phase.

use std::path::PathBuf;

use super::document::Document;
use super::file::CaFile;

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
    #[error("{given}: without {missing}: a CA signs with its key; give both")]
    Half { given: &'static str, missing: &'static str },
    #[error("{field} {path:?}: can't be read")]
    Read {
        field: &'static str,
        path: PathBuf,
        #[source]
        source: crate::files::FileError,
    },
    #[error("{field} {path:?}: there is no such file")]
    Absent { field: &'static str, path: PathBuf },
}

/// Reads what flags or file name.
///
/// # Errors
/// When one of the two is missing, or can't be read.
pub(super) fn read(document: &Document) -> Result<Option<UsersCa>, CaError> {
    let CaFile { cert, key } = &document.file.ca;
    let at = |field, path: &PathBuf| document.base(field).join(path);
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(CaError::Half { given: "ca.cert", missing: "ca.key (--ca-key)" }),
        (None, Some(_)) => Err(CaError::Half { given: "ca.key", missing: "ca.cert (--ca-cert)" }),
        (Some(cert), Some(key)) => Ok(Some(UsersCa {
            cert: content("ca.cert", at("ca.cert", cert))?,
            key: content("ca.key", at("ca.key", key))?,
        })),
    }
}

fn content(field: &'static str, path: PathBuf) -> Result<Vec<u8>, CaError> {
    match crate::files::read(&path) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(CaError::Absent { field, path }),
        Err(source) => Err(CaError::Read { field, path, source }),
    }
}
