//! Certificates made.

use std::collections::BTreeSet;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use super::{CertSpec, PkiError, PkiInputs, San, SanRule};

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

/// A leaf, signed by `issuer`, whose certificate ends at `ca_end`.
pub(super) fn leaf(
    spec: &CertSpec,
    inputs: &PkiInputs,
    key: &KeyPair,
    issuer: &Issuer<'_, KeyPair>,
    (now, ca_end): (OffsetDateTime, OffsetDateTime),
) -> Result<Certificate, PkiError> {
    let sign = |source| PkiError::Sign { path: spec.id.cert_path(), source };
    let mut params = params(spec, &inputs.host_name, now, leaf_end(now, ca_end));
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
    params.signed_by(key, issuer).map_err(sign)
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
