//! Certificates made.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, SanType, SigningKey,
};
use time::{Duration, OffsetDateTime};

use super::reconcile::Held;
use super::{CertSpec, PkiError, PkiInputs, San, SanRule, der};

/// A node's clock may be this far behind and still take the certificates; kubeadm's `CertificateBackdate`.
pub const BACKDATE: Duration = Duration::minutes(5);

/// kubeadm's `CertificateValidityPeriod`.
pub const LEAF_LIFETIME: Duration = Duration::days(365);

/// kubeadm's `CACertificateValidityPeriod`.
pub const CA_LIFETIME: Duration = Duration::days(3650);

/// The names a row's certificate is valid for.
pub(super) fn wanted_sans(spec: &CertSpec, inputs: &PkiInputs) -> BTreeSet<San> {
    match spec.sans {
        SanRule::None => BTreeSet::new(),
        SanRule::ApiServer => inputs.api_server.clone(),
        SanRule::Konnectivity => inputs.konnectivity.clone(),
        SanRule::Etcd => inputs.etcd.clone(),
    }
}

/// The last moment of a leaf issued now: one year on, but never after its CA's.
pub(super) fn leaf_end(now: OffsetDateTime, ca_end: OffsetDateTime) -> OffsetDateTime {
    ca_end.min(now + LEAF_LIFETIME)
}

/// A self-signed CA.
pub(super) fn ca(spec: &CertSpec, key: &KeyPair, now: OffsetDateTime) -> Result<Certificate, PkiError> {
    let sign = |source| PkiError::Sign { path: spec.id.cert_path(), source };
    let mut params = params(spec, "", now, now + CA_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.self_signed(key).map_err(sign)
}

/// A leaf signed by `ca`, as PEM.
pub(super) fn leaf(
    spec: &CertSpec,
    inputs: &PkiInputs,
    key: &KeyPair,
    ca: &Held,
    now: OffsetDateTime,
) -> Result<Vec<u8>, PkiError> {
    let sign = |source| PkiError::Sign { path: spec.id.cert_path(), source };
    let mut params = params(spec, &inputs.host_name, now, leaf_end(now, ca.cert.not_after));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    if spec.purpose.is_server() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    if spec.purpose.is_client() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    }
    for san in wanted_sans(spec, inputs) {
        params.subject_alt_names.push(match san {
            San::Dns(name) => SanType::DnsName(name.try_into().map_err(sign)?),
            San::Ip(address) => SanType::IpAddress(address),
        });
    }
    let mut issuer = CertificateParams::default();
    if let Some(id) = &ca.cert.key_id {
        issuer.key_identifier_method = KeyIdMethod::PreSpecified(id.clone());
    }
    let cert = params.signed_by(key, &Issuer::from_params(&issuer, &ca.key)).map_err(sign)?;
    let cert = with_issuer(cert.der(), &ca.cert.subject, &ca.key).map_err(sign)?;
    Ok(pem(&cert))
}

/// Puts a name into a certificate as its issuer, and signs it again.
///
/// Clients compare names byte by byte, and rcgen can't repeat each that a user's CA may have:
/// it keeps one attribute of a kind, where `DC=example,DC=com` has two.
fn with_issuer(cert: &[u8], name: &[u8], key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
    // Certificate and TBSCertificate: RFC 5280, 4.1. The issuer follows version, serial and algorithm.
    let outer = der::elements(cert).unwrap_or_default();
    let [body, algorithm, _] = outer[..] else { return Err(rcgen::Error::CouldNotParseCertificate) };
    let mut fields = der::elements(body).unwrap_or_default();
    *fields.get_mut(3).ok_or(rcgen::Error::CouldNotParseCertificate)? = name;
    let body = der::element(der::SEQUENCE, &fields);
    let signature = der::element(der::BIT_STRING, &[&[0], &key.sign(&body)?]);
    Ok(der::element(der::SEQUENCE, &[&body, algorithm, &signature]))
}

/// RFC 7468.
fn pem(cert: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(cert).into_bytes();
    let lines = text.chunks(64).flat_map(|line| [line, b"\n"]);
    let begin = [&b"-----BEGIN CERTIFICATE-----\n"[..]];
    let end = [&b"-----END CERTIFICATE-----\n"[..]];
    begin.into_iter().chain(lines).chain(end).flatten().copied().collect()
}

fn params(
    spec: &CertSpec,
    host_name: &str,
    now: OffsetDateTime,
    not_after: OffsetDateTime,
) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = now - BACKDATE;
    params.not_after = not_after;
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name = DistinguishedName::new();
    if let Some(organization) = spec.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, spec.common_name.resolve(host_name));
    params
}
