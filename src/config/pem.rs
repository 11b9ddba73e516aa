//! Files in PEM that a configuration names. What they are is known by parsing them, not by a word in them.

use std::path::Path;

use rustls::pki_types::pem::{PemObject as _, SectionKind};

use super::problem::Problem;

/// Largest file in bytes.
const LARGEST: usize = 1 << 20;

/// What the label of every private key ends with, encrypted ones included.
const PRIVATE: &str = "PRIVATE KEY-----";

/// Certificates, one at least, and nothing that is secret: such a file may be read by others.
///
/// # Errors
/// When the file can't be read or holds anything else.
pub(super) fn certificates(field: &str, path: &Path) -> Result<String, Problem> {
    read(field, path, only_certificates)
}

/// One private key that is not encrypted: PKCS#8, PKCS#1 or SEC1.
///
/// # Errors
/// When the file can't be read or holds no such key, or more.
pub(super) fn private_key(field: &str, path: &Path) -> Result<String, Problem> {
    read(field, path, one_key)
}

/// What is wrong with a content.
type Judge = fn(&str) -> Result<(), &'static str>;

fn read(field: &str, path: &Path, judge: Judge) -> Result<String, Problem> {
    let problem = |rule: &str| Problem::new(field, format_args!("{path:?}"), rule);
    let content = crate::files::read(path)
        .map_err(|error| problem(&format!("can't be read: {}", hoist_phases::causes(&error))))?
        .ok_or_else(|| problem("there is no such file"))?;
    let text = String::from_utf8(content).ok().filter(|text| text.len() <= LARGEST);
    // Nothing is what every rule is broken by.
    let text = text.unwrap_or_default();
    judge(&text).map_err(problem)?;
    Ok(text)
}

fn only_certificates(text: &str) -> Result<(), &'static str> {
    let kinds = kinds(text).unwrap_or_default();
    let right = !kinds.is_empty() && kinds.iter().all(|kind| *kind == SectionKind::Certificate);
    if right && !text.contains(PRIVATE) {
        Ok(())
    } else {
        Err("must hold certificates in PEM, and nothing that is secret")
    }
}

fn one_key(text: &str) -> Result<(), &'static str> {
    // RFC 7468, section 11, and OpenSSL's older form (RFC 1421, section 4.6.1.1).
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(
            "is encrypted, and nobody can be asked for its password; `openssl pkey -in FILE` writes it without",
        );
    }
    let is_key = |kind: &SectionKind| {
        matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey)
    };
    match kinds(text).unwrap_or_default().as_slice() {
        [one] if is_key(one) => Ok(()),
        _ => Err("must hold one private key in PEM: PKCS#8, PKCS#1 or SEC1"),
    }
}

/// What the sections are; `None` when one of them is no PEM. Parameters of a curve, which OpenSSL writes before
/// its key, count for nothing.
fn kinds(text: &str) -> Option<Vec<SectionKind>> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes());
    sections.map(|section| Some(section.ok()?.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(label: &str) -> String {
        format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n")
    }

    #[test]
    fn a_certificate_file_has_certificates_and_nothing_secret() {
        let cert = section("CERTIFICATE");
        for good in [cert.clone(), format!("subject=a\n{cert}{cert}")] {
            assert_eq!(only_certificates(&good), Ok(()), "{good}");
        }
        for bad in [
            String::new(),
            "CERTIFICATE-----".to_owned(),
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_owned(),
            format!("{cert}{}", section("PRIVATE KEY")),
            format!("{}{cert}", section("RSA PRIVATE KEY")),
            format!("{cert}{}", section("ENCRYPTED PRIVATE KEY")),
            format!("{cert}{}", section("CERTIFICATE REQUEST")),
        ] {
            assert!(only_certificates(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_file_has_one_key_that_is_not_encrypted() {
        let openssl = format!("{}{}", section("EC PARAMETERS"), section("EC PRIVATE KEY"));
        for good in [section("PRIVATE KEY"), section("RSA PRIVATE KEY"), section("EC PRIVATE KEY"), openssl] {
            assert_eq!(one_key(&good), Ok(()), "{good}");
        }
        let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0\n\nMAA=\n\
                     -----END RSA PRIVATE KEY-----\n";
        for (bad, word) in [
            (section("ENCRYPTED PRIVATE KEY"), "is encrypted"),
            (older.to_owned(), "is encrypted"),
            (section("CERTIFICATE"), "one private key"),
            (section("PRIVATE KEY").repeat(2), "one private key"),
            (format!("{}{}", section("PRIVATE KEY"), section("CERTIFICATE")), "one private key"),
            ("PRIVATE KEY-----".to_owned(), "one private key"),
            (String::new(), "one private key"),
        ] {
            assert!(one_key(&bad).is_err_and(|rule| rule.contains(word)), "{bad}");
        }
    }
}
