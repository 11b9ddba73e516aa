//! Replaces the cluster's CAs while all goes on: for a time everything trusts two of them.
//!
//! The files of the state directory say how far that has come. Below `pki/next/` are CAs that are
//! trusted and don't sign yet; below `pki/previous/` those that no longer sign and are still trusted. Every
//! step can be cut short anywhere and taken again.

use std::fmt;

use time::OffsetDateTime;

use super::{CertId, CertSpec, PkiError, PkiInputs, issue, key};
use crate::ports::Files;

const NEXT: &str = "next";
const PREVIOUS: &str = "previous";

/// There while nodes may still trust old ones that are trusted no longer.
const UNTOLD: &str = "pki/previous/untold";

/// How far a replacement has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// None is under way.
    Settled,
    /// The new ones are trusted beside those that sign.
    Announced,
    /// The new ones are being put in the place of the old ones; nothing can be issued meanwhile.
    Exchanging,
    /// The new ones sign, and the old ones are still trusted.
    Exchanged,
}

/// What is to be done to one file of the state directory.
#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    Write(String, Vec<u8>),
    Remove(String),
}

/// Without the content, which may be a key.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path, _) => write!(f, "write {path}"),
            Self::Remove(path) => write!(f, "remove {path}"),
        }
    }
}

/// Paths of the certificates that are trusted beside the one that signs.
pub(super) fn beside(id: CertId) -> [String; 2] {
    [NEXT, PREVIOUS].map(|stage| at(stage, &id.cert_path()))
}

/// Paths of all files that a replacement of these CAs may have made.
pub fn paths(cas: impl Iterator<Item = CertId>) -> Vec<String> {
    cas.flat_map(|id| [at(NEXT, &id.cert_path()), at(NEXT, &id.key_path()), at(PREVIOUS, &id.cert_path())])
        .chain([UNTOLD.to_owned()])
        .collect()
}

/// How far the files say it is.
pub fn stage(existing: &Files) -> Stage {
    let any = |stage: &str| {
        let directory = at(stage, "pki/");
        existing.keys().any(|path| path.starts_with(&directory))
    };
    match (any(NEXT), any(PREVIOUS)) {
        (false, false) => Stage::Settled,
        (true, false) => Stage::Announced,
        (true, true) => Stage::Exchanging,
        (false, true) => Stage::Exchanged,
    }
}

/// Makes a successor of each CA, for all to trust. What an earlier call has made is kept.
///
/// # Errors
/// When no key can be made.
pub fn announce(existing: &Files, inputs: &PkiInputs, now: OffsetDateTime) -> Result<Vec<Step>, PkiError> {
    let mut steps = Vec::new();
    for spec in cas(inputs) {
        let (cert, key_path) = (at(NEXT, &spec.id.cert_path()), at(NEXT, &spec.id.key_path()));
        if !existing.contains_key(&cert) {
            let key = key::generate(&key_path)?;
            let pem = issue::ca(spec, &key, now)?.pem();
            // Its key first: what everything trusts can sign, too, once it is there.
            steps.push(Step::Write(key_path, key.serialize_pem().into_bytes()));
            steps.push(Step::Write(cert, pem.into_bytes()));
        }
    }
    Ok(steps)
}

/// Puts the successors in their places. What they signed before is issued anew by [`super::reconcile()`].
pub fn exchange(existing: &Files, inputs: &PkiInputs) -> Vec<Step> {
    let (mut keep, mut put, mut tidy) = (Vec::new(), Vec::new(), Vec::new());
    for spec in cas(inputs) {
        let (cert_path, key_path) = (spec.id.cert_path(), spec.id.key_path());
        let (next_cert, next_key) = (at(NEXT, &cert_path), at(NEXT, &key_path));
        let previous = at(PREVIOUS, &cert_path);
        if let (Some(cert), Some(key)) = (existing.get(&next_cert), existing.get(&next_key)) {
            if let (Some(present), false) = (existing.get(&cert_path), existing.contains_key(&previous)) {
                keep.push(Step::Write(previous, present.clone()));
            }
            put.push(Step::Write(key_path, key.clone()));
            put.push(Step::Write(cert_path, cert.clone()));
        }
        tidy.extend([Step::Remove(next_cert), Step::Remove(next_key)]);
    }
    [keep, put, tidy].concat()
}

/// Ends the trust in the old ones. That nodes have been told is what [`end`] notes.
pub fn settle(inputs: &PkiInputs) -> Vec<Step> {
    let old = cas(inputs).map(|spec| Step::Remove(at(PREVIOUS, &spec.id.cert_path())));
    [Step::Write(UNTOLD.to_owned(), Vec::new())].into_iter().chain(old).collect()
}

/// Everybody knows.
pub fn end() -> Vec<Step> {
    vec![Step::Remove(UNTOLD.to_owned())]
}

fn cas(inputs: &PkiInputs) -> impl Iterator<Item = &'static CertSpec> {
    inputs.certs().filter(|spec| spec.issuer.is_none())
}

/// `pki/etcd/ca.crt` as `pki/next/etcd/ca.crt`.
fn at(stage: &str, path: &str) -> String {
    let rest = path.strip_prefix("pki/").unwrap_or(path);
    format!("pki/{stage}/{rest}")
}
