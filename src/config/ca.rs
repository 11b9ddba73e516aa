//! A certificate authority that the user brings. Whether it is one is judged by the certs phase.

use super::document::Document;
use super::file::CaFile;
use super::pem;
use super::problem::Problem;

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

/// Reads what flags or file name; what is wrong with them is noted.
pub(super) fn read(document: &mut Document) -> Option<UsersCa> {
    let CaFile { cert, key } = document.file.ca.clone();
    let half = |given, missing| {
        Problem::of(given, format_args!("without {missing}: a CA signs with its key; give both"))
    };
    let (cert, key) = match (cert, key) {
        (None, None) => return None,
        (Some(cert), Some(key)) => (cert, key),
        (Some(_), None) => {
            document.problems.push(half("ca.cert", "ca.key (--ca-key)"));
            return None;
        }
        (None, Some(_)) => {
            document.problems.push(half("ca.key", "ca.cert (--ca-cert)"));
            return None;
        }
    };
    let cert = pem::certificates("ca.cert", &document.base("ca.cert").join(cert));
    let key = pem::private_key("ca.key", &document.base("ca.key").join(key));
    let (cert, key) = (document.problems.keep(cert), document.problems.keep(key));
    Some(UsersCa { cert: cert?.into_bytes(), key: key?.into_bytes() })
}
