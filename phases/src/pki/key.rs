//! Private keys: made, and read in every encoding a CA of the user may come in.

use rcgen::KeyPair;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::asn1_rs::{Any, FromDer, Sequence, Tag};

use super::PkiError;
use super::der::{self, element};

/// A new ECDSA P-256 key.
pub(super) fn generate(path: &str) -> Result<KeyPair, PkiError> {
    KeyPair::generate().map_err(|source| PkiError::Generate { path: path.to_owned(), source })
}

/// Reads the first private key of a PEM file: PKCS#8 (RFC 5958), PKCS#1 (RFC 8017) or SEC1 (RFC 5915).
///
/// `public` is the public point of the certificate the key belongs to. Some tools leave it out of
/// an elliptic-curve key, and ring wants it there to check that both belong together.
pub(super) fn read(path: &str, pem: &[u8], public: Option<&[u8]>) -> Result<KeyPair, PkiError> {
    let path = || path.to_owned();
    // Two ways: PKCS#8's own label (RFC 5958) and the header of old PEM (RFC 1421).
    let encrypted =
        |line: &str| line.starts_with("-----BEGIN ENCRYPTED") || line.starts_with("Proc-Type: 4,ENCRYPTED");
    if String::from_utf8_lossy(pem).lines().any(encrypted) {
        return Err(PkiError::KeyEncrypted { path: path() });
    }
    let key = match PrivateKeyDer::from_pem_slice(pem) {
        Ok(key) => key,
        Err(rustls_pki_types::pem::Error::NoItemsFound) => return Err(PkiError::NoKey { path: path() }),
        Err(source) => return Err(PkiError::Pem { path: path(), source }),
    };
    let unsupported = |source| PkiError::KeyUnsupported { path: path(), source };
    let pkcs8 = match &key {
        PrivateKeyDer::Pkcs1(rsa) => {
            pkcs8(&element(der::SEQUENCE, &[OID_RSA, &[0x05, 0x00]]), rsa.secret_pkcs1_der())
        }
        _ => match (EcKey::read(&key), &key) {
            (Some(ec), _) => {
                ec.to_pkcs8(public).ok_or_else(|| unsupported(rcgen::Error::CouldNotParseKeyPair))?
            }
            (None, PrivateKeyDer::Pkcs8(other)) => other.secret_pkcs8_der().to_vec(),
            (None, _) => return Err(unsupported(rcgen::Error::CouldNotParseKeyPair)),
        },
    };
    let pair = KeyPair::try_from(&PrivateKeyDer::Pkcs8(pkcs8.into())).map_err(|source| {
        // With a point taken from the certificate, that they do not belong together is all that is left.
        match EcKey::read(&key) {
            Some(ec) if ec.point.is_none() => {
                PkiError::KeyMismatch { cert: path().replace(".key", ".crt"), key: path() }
            }
            _ => unsupported(source),
        }
    })?;
    if pair.is_compatible(&rcgen::PKCS_ED25519) {
        return Err(unsupported(rcgen::Error::UnsupportedSignatureAlgorithm));
    }
    Ok(pair)
}

/// rsaEncryption, 1.2.840.113549.1.1.1.
const OID_RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// id-ecPublicKey, 1.2.840.10045.2.1.
const OID_EC: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// The parts of an elliptic-curve key.
struct EcKey {
    /// DER of the curve's object identifier.
    curve: Vec<u8>,
    scalar: Vec<u8>,
    /// The public point, when the file has it.
    point: Option<Vec<u8>>,
}

impl EcKey {
    /// `None` when it is a key of another kind.
    fn read(key: &PrivateKeyDer<'_>) -> Option<Self> {
        match key {
            PrivateKeyDer::Sec1(key) => Self::from_sec1(key.secret_sec1_der()),
            PrivateKeyDer::Pkcs8(key) => Self::from_pkcs8(key.secret_pkcs8_der()),
            _ => None,
        }
    }

    fn from_sec1(sec1: &[u8]) -> Option<Self> {
        let (scalar, curve, point) = ec_private_key(sec1)?;
        Some(Self { curve: curve?, scalar, point })
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let (_, outer) = Sequence::from_der(pkcs8).ok()?;
        let (rest, _version) = Any::from_der(&outer.content).ok()?;
        let (rest, algorithm) = Sequence::from_der(rest).ok()?;
        let (_, private) = Any::from_der(rest).ok()?;
        let curve = algorithm.content.strip_prefix(OID_EC)?.to_vec();
        let (scalar, _, point) = ec_private_key(private.data)?;
        Some(Self { curve, scalar, point })
    }

    fn to_pkcs8(&self, public: Option<&[u8]>) -> Option<Vec<u8>> {
        let point = self.point.as_deref().or(public)?;
        let version = element(der::INTEGER, &[&[1]]);
        let scalar = element(der::OCTET_STRING, &[&self.scalar]);
        let point = element(der::CONTEXT_1, &[&element(der::BIT_STRING, &[&[0], point])]);
        let key = element(der::SEQUENCE, &[&version, &scalar, &point]);
        Some(pkcs8(&element(der::SEQUENCE, &[OID_EC, &self.curve]), &key))
    }
}

type EcParts = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

/// Takes an ECPrivateKey (RFC 5915, 3) apart: scalar, DER of the curve, public point.
fn ec_private_key(sec1: &[u8]) -> Option<EcParts> {
    let (_, outer) = Sequence::from_der(sec1).ok()?;
    let (rest, _version) = Any::from_der(&outer.content).ok()?;
    let (mut rest, scalar) = Any::from_der(rest).ok()?;
    if scalar.tag() != Tag::OctetString {
        return None;
    }
    let (mut curve, mut point) = (None, None);
    while !rest.is_empty() {
        let (after, field) = Any::from_der(rest).ok()?;
        match field.tag().0 {
            0 => curve = Some(field.data.to_vec()),
            // A BIT STRING whose first octet counts its unused bits: none.
            1 => point = Any::from_der(field.data).ok()?.1.data.strip_prefix(&[0]).map(<[u8]>::to_vec),
            _ => return None,
        }
        rest = after;
    }
    Some((scalar.data.to_vec(), curve, point))
}

/// PrivateKeyInfo (RFC 5958, 2) around a key.
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let (version, key) = (element(der::INTEGER, &[&[0]]), element(der::OCTET_STRING, &[key]));
    element(der::SEQUENCE, &[&version, algorithm, &key])
}
