//! Certificates read back, as far as hoist compares them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{self, PemObject};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::{PkiError, Purpose, San};

/// What one certificate says.
#[derive(Debug, Clone)]
pub(super) struct Parsed {
    pub(super) der: CertificateDer<'static>,
    pub(super) subject: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    /// DER of the SubjectPublicKeyInfo.
    pub(super) spki: Vec<u8>,
    /// The key within it, without its algorithm.
    pub(super) public: Vec<u8>,
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
    pub(super) not_before: OffsetDateTime,
    pub(super) not_after: OffsetDateTime,
    pub(super) sans: BTreeSet<San>,
    usages: Usages,
    /// Subject key identifier, which what it signs names as its authority.
    pub(super) key_id: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usages {
    ca: bool,
    /// Bits of the key usage extension, `None` when there is none.
    key_usage: Option<u16>,
    server: bool,
    client: bool,
    other: bool,
}

/// Bits as x509-parser numbers them: RFC 5280's bit 0 is the lowest.
const DIGITAL_SIGNATURE: u16 = 1;
const KEY_CERT_SIGN: u16 = 1 << 5;

impl Parsed {
    /// Reads the only certificate of a PEM file.
    pub(super) fn read(path: &str, pem: &[u8]) -> Result<Self, PkiError> {
        let path = || path.to_owned();
        let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, pem::Error>>();
        let mut all = all.map_err(|source| PkiError::Pem { path: path(), source })?;
        match (all.pop(), all.len()) {
            (Some(der), 0) => {
                Self::parse(der).map_err(|source| PkiError::Certificate { path: path(), source })
            }
            (Some(_), others) => Err(PkiError::SeveralCertificates { path: path(), count: others + 1 }),
            (None, _) => Err(PkiError::NoCertificate { path: path() }),
        }
    }

    fn parse(der: CertificateDer<'static>) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let (_, cert) = X509Certificate::from_der(&der)?;
        let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned);
        let extended = cert.extended_key_usage()?.map(|e| e.value);
        let usages = Usages {
            ca: cert.is_ca(),
            key_usage: cert.key_usage()?.map(|k| k.value.flags),
            server: extended.is_some_and(|e| e.server_auth),
            client: extended.is_some_and(|e| e.client_auth),
            other: extended.is_some_and(|e| {
                e.any
                    || e.code_signing
                    || e.email_protection
                    || e.time_stamping
                    || e.ocsp_signing
                    || !e.other.is_empty()
            }),
        };
        let names =
            cert.subject_alternative_name()?.map(|s| s.value.general_names.iter().filter_map(san).collect());
        let key_id = cert.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        Ok(Self {
            subject: cert.subject().as_raw().to_vec(),
            issuer: cert.issuer().as_raw().to_vec(),
            spki: cert.public_key().raw.to_vec(),
            public: cert.public_key().subject_public_key.data.to_vec(),
            common_name: cert.subject().iter_common_name().next().map(text).transpose()?.unwrap_or_default(),
            organizations: cert.subject().iter_organization().map(text).collect::<Result<_, _>>()?,
            not_before: cert.validity().not_before.to_datetime(),
            not_after: cert.validity().not_after.to_datetime(),
            sans: names.unwrap_or_default(),
            usages,
            key_id,
            der: der.clone(),
        })
    }

    /// May sign certificates.
    pub(super) fn is_ca(&self) -> bool {
        self.usages.ca && self.usages.key_usage.is_none_or(|bits| bits & KEY_CERT_SIGN != 0)
    }

    /// Says exactly what hoist gives a leaf of this purpose.
    pub(super) fn has_purpose(&self, purpose: Purpose) -> bool {
        self.usages
            == Usages {
                ca: false,
                key_usage: Some(DIGITAL_SIGNATURE),
                server: purpose.is_server(),
                client: purpose.is_client(),
                other: false,
            }
    }

    /// Issuer name and signature are those of this CA.
    pub(super) fn is_signed_by(&self, ca: &Self) -> bool {
        let verified = || {
            let (_, cert) = X509Certificate::from_der(&self.der).ok()?;
            let (_, ca) = X509Certificate::from_der(&ca.der).ok()?;
            cert.verify_signature(Some(ca.public_key())).ok()
        };
        self.issuer == ca.subject && verified().is_some()
    }
}

/// Kinds of names that hoist never writes are kept in a form equal to none that it does.
fn san(name: &GeneralName<'_>) -> Option<San> {
    match name {
        GeneralName::DNSName(name) => Some(San::Dns((*name).to_owned())),
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(v4), _) => Some(San::Ip(IpAddr::from(v4))),
            (_, Ok(v6)) => Some(San::Ip(IpAddr::from(v6))),
            _ => None,
        },
        other => Some(San::Dns(format!("{other:?}"))),
    }
}
