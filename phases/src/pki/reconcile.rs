use std::collections::BTreeMap;
use std::fmt;

use rcgen::KeyPair;
use ring::digest;
use time::{Duration, OffsetDateTime};

use super::bundle::{Pair, Pki};
use super::x509::Parsed;
use super::{CertId, CertSpec, PkiError, PkiInputs, issue, key, rotation};
use crate::ports::Files;

/// A leaf that ends sooner than this is issued anew, if a new one would end later.
pub const RENEW_BEFORE: Duration = Duration::days(30);

/// Paths of the service-account key pair in the state directory.
pub const SA_KEY: &str = "pki/sa.key";
pub const SA_PUB: &str = "pki/sa.pub";

/// DER of a name without attributes.
const EMPTY_NAME: &[u8] = &[0x30, 0x00];

/// What became of one certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Kept,
    /// There was none.
    Issued,
    /// The one there no longer fits.
    Reissued(Reason),
}

/// Why a leaf was issued anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Unreadable,
    KeyMissing,
    KeyMismatch,
    /// Not signed by the CA that is there.
    CaChanged,
    SubjectChanged,
    UsagesChanged,
    NamesChanged,
    Expires,
    NotYetValid,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "it could not be read",
            Self::KeyMissing => "its key is missing",
            Self::KeyMismatch => "its key is another one's",
            Self::CaChanged => "its CA has changed",
            Self::SubjectChanged => "its subject has changed",
            Self::UsagesChanged => "its key usages have changed",
            Self::NamesChanged => "the names it must be valid for have changed",
            Self::Expires => "it expires soon",
            Self::NotYetValid => "it is not valid yet",
        })
    }
}

/// All certificates as they should be, and what to write for that.
#[derive(Clone)]
pub struct Reconciled {
    pub pki: Pki,
    /// New content by path in the state directory, in the order to write it: a key before its
    /// certificate, so that a run cut short leaves a leaf that is seen not to fit.
    pub write: Vec<(String, Vec<u8>)>,
    /// One a row of [`PkiInputs::certs`], in its order.
    pub actions: Vec<(CertId, Action)>,
}

impl fmt::Debug for Reconciled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.write.iter().map(|(path, _)| path).collect();
        f.debug_struct("Reconciled")
            .field("write", &paths)
            .field("actions", &self.actions)
            .finish_non_exhaustive()
    }
}

/// A certificate with its private key.
pub(super) struct Held {
    pub(super) cert: Parsed,
    pub(super) key: KeyPair,
}

/// Compares what is there with what is wanted and issues what does not fit.
///
/// `existing` are the files below `pki/` by path in the state directory. A CA that is there, the
/// user's or hoist's own, is kept whatever it says, as everything in the cluster trusts it. Keys
/// are random; all else follows from the arguments.
///
/// # Errors
/// When a CA that is there can't be used. Leaves that can't be used are issued anew instead.
pub fn reconcile(existing: &Files, inputs: &PkiInputs, now: OffsetDateTime) -> Result<Reconciled, PkiError> {
    let mut run = Run { existing, inputs, now, write: Vec::new() };
    let (mut pairs, mut trusted) = (BTreeMap::new(), BTreeMap::new());
    let mut cas: Vec<(CertId, Held)> = Vec::new();
    let mut actions = Vec::new();
    for spec in inputs.certs() {
        let (pair, action) = match spec.issuer {
            None => {
                let (held, pair, action) = run.ca(spec)?;
                let beside = rotation::beside(spec.id);
                let beside: Vec<_> = beside.iter().filter_map(|path| existing.get(path)).collect();
                if !beside.is_empty() {
                    trusted.insert(spec.id, joined(&pair.cert, &beside));
                }
                cas.push((spec.id, held));
                (pair, action)
            }
            Some(id) => match cas.iter().find(|(ca, _)| *ca == id) {
                Some((_, ca)) => run.leaf(spec, ca)?,
                // The table puts CAs first; a test of the table holds it to that.
                None => return Err(PkiError::CaKeyMissing { cert: id.cert_path(), key: id.key_path() }),
            },
        };
        pairs.insert(spec.id, pair);
        actions.push((spec.id, action));
    }
    let service_account = run.service_account()?;
    let spki = cas.first().map(|(_, ca)| ca.cert.spki.clone()).unwrap_or_default();
    let ca_hash =
        digest::digest(&digest::SHA256, &spki).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Reconciled { pki: Pki::new(pairs, trusted, service_account, ca_hash), write: run.write, actions })
}

/// Certificates in one file. One of the user's may lack the end of its last line, and two on one line are none.
fn joined(first: &[u8], others: &[&Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for pem in [first].into_iter().chain(others.iter().map(|pem| pem.as_slice())) {
        all.extend_from_slice(pem);
        if !pem.ends_with(b"\n") {
            all.push(b'\n');
        }
    }
    all
}

struct Run<'a> {
    existing: &'a Files,
    inputs: &'a PkiInputs,
    now: OffsetDateTime,
    write: Vec<(String, Vec<u8>)>,
}

impl Run<'_> {
    fn ca(&mut self, spec: &CertSpec) -> Result<(Held, Pair, Action), PkiError> {
        let (cert_path, key_path) = (spec.id.cert_path(), spec.id.key_path());
        match (self.existing.get(&cert_path), self.existing.get(&key_path)) {
            (Some(cert), Some(key)) => {
                let held = self.held_ca(&cert_path, cert, &key_path, key)?;
                Ok((held, Pair { cert: cert.clone(), key: key.clone() }, Action::Kept))
            }
            (Some(_), None) => Err(PkiError::CaKeyMissing { cert: cert_path, key: key_path }),
            (None, Some(_)) => Err(PkiError::CaCertificateMissing { cert: cert_path, key: key_path }),
            (None, None) => {
                let key = key::generate(&key_path)?;
                let pem = issue::ca(spec, &key, self.now)?.pem().into_bytes();
                let cert = Parsed::read(&cert_path, &pem)?;
                let pair = self.keep(spec, pem, &key);
                Ok((Held { cert, key }, pair, Action::Issued))
            }
        }
    }

    fn held_ca(&self, cert_path: &str, cert: &[u8], key_path: &str, key: &[u8]) -> Result<Held, PkiError> {
        let path = || cert_path.to_owned();
        let cert = Parsed::read(cert_path, cert)?;
        let key = key::read(key_path, key, Some(&cert.public))?;
        if !cert.is_ca() {
            return Err(PkiError::NotACa { path: path() });
        }
        if key.public_key_raw() != cert.public {
            return Err(PkiError::KeyMismatch { cert: path(), key: key_path.to_owned() });
        }
        if cert.not_after <= self.now {
            return Err(PkiError::CaExpired { path: path(), not_after: cert.not_after });
        }
        if cert.not_before > self.now {
            return Err(PkiError::CaNotYetValid { path: path(), not_before: cert.not_before });
        }
        if cert.subject == EMPTY_NAME {
            return Err(PkiError::CaSubject { path: path() });
        }
        Ok(Held { cert, key })
    }

    fn leaf(&mut self, spec: &CertSpec, ca: &Held) -> Result<(Pair, Action), PkiError> {
        let action = match self.existing.get(&spec.id.cert_path()) {
            None => Action::Issued,
            Some(cert) => {
                let key = self.existing.get(&spec.id.key_path());
                match (self.misfit(spec, &ca.cert, cert, key.map(Vec::as_slice)), key) {
                    (None, Some(key)) => {
                        return Ok((Pair { cert: cert.clone(), key: key.clone() }, Action::Kept));
                    }
                    (reason, _) => Action::Reissued(reason.unwrap_or(Reason::KeyMissing)),
                }
            }
        };
        let key = key::generate(&spec.id.key_path())?;
        let pem = issue::leaf(spec, self.inputs, &key, ca, self.now)?;
        Ok((self.keep(spec, pem, &key), action))
    }

    /// The first respect in which a leaf that is there is not the one wanted.
    fn misfit(&self, spec: &CertSpec, ca: &Parsed, cert: &[u8], key: Option<&[u8]>) -> Option<Reason> {
        let Ok(cert) = Parsed::read(&spec.id.cert_path(), cert) else { return Some(Reason::Unreadable) };
        let Some(key) = key else { return Some(Reason::KeyMissing) };
        let same_key = key::read(&spec.id.key_path(), key, Some(&cert.public))
            .is_ok_and(|key| key.public_key_raw() == cert.public);
        let renewable = issue::leaf_end(self.now, ca.not_after) > cert.not_after;
        let wanted_name = spec.common_name.resolve(&self.inputs.host_name);
        let checks = [
            (!same_key, Reason::KeyMismatch),
            (!cert.is_signed_by(ca), Reason::CaChanged),
            (
                cert.common_name != wanted_name || cert.organizations.iter().ne(spec.organization.iter()),
                Reason::SubjectChanged,
            ),
            (!cert.has_purpose(spec.purpose), Reason::UsagesChanged),
            (cert.sans != issue::wanted_sans(spec, self.inputs), Reason::NamesChanged),
            // Close to the CA's own end a new leaf would end no later, and each run would make one.
            (cert.not_after - self.now < RENEW_BEFORE && renewable, Reason::Expires),
            (cert.not_before > self.now, Reason::NotYetValid),
        ];
        checks.into_iter().find(|(misfit, _)| *misfit).map(|(_, reason)| reason)
    }

    fn service_account(&mut self) -> Result<Pair, PkiError> {
        let (key, pem) = match self.existing.get(SA_KEY) {
            Some(pem) => (key::read(SA_KEY, pem, None)?, pem.clone()),
            None => {
                let key = key::generate(SA_KEY)?;
                let pem = key.serialize_pem().into_bytes();
                self.write.push((SA_KEY.to_owned(), pem.clone()));
                (key, pem)
            }
        };
        let public = key.public_key_pem().into_bytes();
        if self.existing.get(SA_PUB) != Some(&public) {
            self.write.push((SA_PUB.to_owned(), public.clone()));
        }
        Ok(Pair { cert: public, key: pem })
    }

    /// Puts a new pair down for writing.
    fn keep(&mut self, spec: &CertSpec, cert: Vec<u8>, key: &KeyPair) -> Pair {
        let key = key.serialize_pem().into_bytes();
        self.write.push((spec.id.key_path(), key.clone()));
        self.write.push((spec.id.cert_path(), cert.clone()));
        Pair { cert, key }
    }
}
