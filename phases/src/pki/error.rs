use rustls_pki_types::pem;
use time::OffsetDateTime;

/// Why the certificates of a cluster can't be had. `path` is relative to the state directory.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("reading {path}: not valid PEM")]
    Pem {
        path: String,
        #[source]
        source: pem::Error,
    },
    #[error("reading {path}: no certificate in it")]
    NoCertificate { path: String },
    #[error("reading {path}: {count} certificates in it; the controller-manager signs with exactly one")]
    SeveralCertificates { path: String, count: usize },
    #[error("reading {path}: certificate can't be parsed")]
    Certificate {
        path: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("using {path}: not a CA certificate (basicConstraints CA:TRUE and keyCertSign are needed)")]
    NotACa { path: String },
    #[error("using {path}: the CA expired at {not_after}; remove it with its key to have a new one made")]
    CaExpired { path: String, not_after: OffsetDateTime },
    #[error("using {path}: the CA is valid only from {not_before}; is the clock right?")]
    CaNotYetValid { path: String, not_before: OffsetDateTime },
    #[error("using {cert}: its key {key} is missing")]
    CaKeyMissing { cert: String, key: String },
    #[error(
        "using {key}: its certificate {cert} is missing; add it, or remove the key to have a new CA made"
    )]
    CaCertificateMissing { cert: String, key: String },
    #[error("using {cert}: the key in {key} is not the one it was made for")]
    KeyMismatch { cert: String, key: String },
    #[error("reading {path}: no private key in it (PKCS#1, PKCS#8 or SEC1 PEM)")]
    NoKey { path: String },
    #[error("reading {path}: the private key is encrypted; store it without a passphrase")]
    KeyEncrypted { path: String },
    #[error(
        "reading {path}: unsupported private key; RSA of 2048 to 4096 bits, ECDSA P-256 and P-384 are supported"
    )]
    KeyUnsupported {
        path: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("using {path}: its subject is empty, so that nothing it signs can name it")]
    CaSubject { path: String },
    #[error("making a key for {path}")]
    Generate {
        path: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("signing {path}")]
    Sign {
        path: String,
        #[source]
        source: rcgen::Error,
    },
}
