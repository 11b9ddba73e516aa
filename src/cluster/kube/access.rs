use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hoist_phases::ports::KubeError;
use hoist_phases::spec::BootstrapToken;
use http::Uri;
use kube::config::{AuthInfo, Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use serde_json::json;

use super::Api;

/// A connection to a listening server on this host takes milliseconds, to a remote engine some
/// hundred; a filtered port must not use up a whole deadline.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("kubeconfig can't be read")]
    Parse(#[source] KubeconfigError),
    #[error("kubeconfig has no {0}")]
    Missing(&'static str),
    #[error("kubeconfig: the certificate of the server is not to be verified, which hoist refuses")]
    Insecure,
    #[error("kubeconfig: certificate authority is no base64")]
    AuthorityBase64(#[source] base64::DecodeError),
    #[error("kubeconfig: certificate authority is no PEM")]
    AuthorityPem(#[source] pem::Error),
    #[error("kubeconfig: server address {server:?}")]
    Server {
        server: String,
        #[source]
        source: http::uri::InvalidUri,
    },
    #[error("kubeconfig: server address {0} is not https")]
    NoTls(Uri),
    #[error("credentials can't be used")]
    Credentials(#[source] serde_json::Error),
    #[error("TLS client")]
    Client(#[source] kube::Error),
}

impl From<AccessError> for KubeError {
    fn from(error: AccessError) -> Self {
        Self::Config(Box::new(error))
    }
}

/// An API server, how its certificate is verified, and who asks.
#[derive(Clone)]
pub struct Access {
    server: Uri,
    /// Certificates in DER that the server's must chain to.
    authorities: Vec<Vec<u8>>,
    identity: AuthInfo,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Access {
    /// Reads the current context of a kubeconfig that holds everything itself, as hoist's do.
    ///
    /// # Errors
    /// When something is missing or malformed, or TLS wouldn't be verified.
    pub fn from_kubeconfig(kubeconfig: &str) -> Result<Self, AccessError> {
        // kube's own loader would heed HTTPS_PROXY.
        let config = Kubeconfig::from_yaml(kubeconfig).map_err(AccessError::Parse)?;
        let current = config.current_context.ok_or(AccessError::Missing("current-context"))?;
        let context = config.contexts.into_iter().find(|c| c.name == current).and_then(|c| c.context);
        let context = context.ok_or(AccessError::Missing("context of the name of current-context"))?;
        let cluster = config.clusters.into_iter().find(|c| c.name == context.cluster).and_then(|c| c.cluster);
        let cluster = cluster.ok_or(AccessError::Missing("cluster of the current context"))?;
        let user = config.auth_infos.into_iter().find(|u| Some(&u.name) == context.user.as_ref());
        let user =
            user.and_then(|u| u.auth_info).ok_or(AccessError::Missing("user of the current context"))?;

        if cluster.insecure_skip_tls_verify.unwrap_or_default() {
            return Err(AccessError::Insecure);
        }
        let server = cluster.server.ok_or(AccessError::Missing("server"))?;
        let authority =
            cluster.certificate_authority_data.ok_or(AccessError::Missing("certificate-authority-data"))?;
        let authority = STANDARD.decode(authority.trim()).map_err(AccessError::AuthorityBase64)?;
        let authorities = CertificateDer::pem_slice_iter(&authority)
            .map(|certificate| certificate.map(|c| c.to_vec()).map_err(AccessError::AuthorityPem))
            .collect::<Result<Vec<_>, _>>()?;
        if authorities.is_empty() {
            return Err(AccessError::Missing("certificate in certificate-authority-data"));
        }
        let server: Uri = server.parse().map_err(|source| AccessError::Server { server, source })?;
        if server.scheme() != Some(&http::uri::Scheme::HTTPS) {
            return Err(AccessError::NoTls(server));
        }
        Ok(Self {
            server,
            authorities,
            identity: AuthInfo {
                client_certificate_data: user.client_certificate_data,
                client_key_data: user.client_key_data,
                token: user.token,
                ..AuthInfo::default()
            },
        })
    }

    /// The same server, asked by nobody in particular.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self { identity: AuthInfo::default(), ..self.clone() }
    }

    /// The same server, asked with a bootstrap token.
    ///
    /// # Errors
    /// Never for a valid token; the type that kube keeps secrets in is made by deserializing.
    pub fn with_token(&self, token: &BootstrapToken) -> Result<Self, AccessError> {
        self.with_identity(json!({ "token": token.expose() }))
    }

    /// The same server, asked with a client certificate and its key, both PEM.
    ///
    /// # Errors
    /// As [`Access::with_token`]; the certificate itself is looked at by [`Access::connect`].
    pub fn with_certificate(&self, certificate: &str, key: &str) -> Result<Self, AccessError> {
        self.with_identity(json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        }))
    }

    fn with_identity(&self, identity: serde_json::Value) -> Result<Self, AccessError> {
        let identity = serde_json::from_value(identity).map_err(AccessError::Credentials)?;
        Ok(Self { identity, ..self.clone() })
    }

    /// The library's own client, for watches.
    ///
    /// # Errors
    /// As [`Access::connect`].
    pub fn client(&self) -> Result<kube::Client, AccessError> {
        let mut config = kube::Config::new(self.server.clone());
        config.root_cert = Some(self.authorities.clone());
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.auth_info = self.identity.clone();
        config.default_retry = false;
        kube::Client::try_from(config).map_err(AccessError::Client)
    }

    /// Makes a client; whether a server answers is not tried. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the certificates or the key can't be used.
    pub fn connect(&self) -> Result<Api, AccessError> {
        Ok(Api::new(self.client()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    fn kubeconfig(cluster: &str) -> String {
        let authority = STANDARD.encode(AUTHORITY);
        format!(
            "{{apiVersion: v1, kind: Config, current-context: a,
              contexts: [{{name: a, context: {{cluster: c, user: u}}}}],
              users: [{{name: u, user: {{token: very-secret}}}}],
              clusters: [{{name: c, cluster: {{certificate-authority-data: {authority}, {cluster}}}}}]}}"
        )
    }

    #[test]
    fn a_kubeconfig_must_have_tls_verified() {
        let read = |cluster: &str| Access::from_kubeconfig(&kubeconfig(cluster));
        let https = "server: 'https://127.0.0.1:6443'";
        assert!(read(https).is_ok());
        let insecure = read(&format!("{https}, insecure-skip-tls-verify: true"));
        assert!(matches!(insecure, Err(AccessError::Insecure)), "{insecure:?}");
        assert!(matches!(read("server: 'http://127.0.0.1:6443'"), Err(AccessError::NoTls(_))));
        let missing = kubeconfig(https).replace("certificate-authority-data", "other");
        assert!(matches!(Access::from_kubeconfig(&missing), Err(AccessError::Missing(_))));
    }

    #[test]
    fn what_is_no_kubeconfig_is_told() {
        for (text, wanted) in [("{", "kubeconfig can't be read"), ("{}", "kubeconfig has no current-context")]
        {
            let error = Access::from_kubeconfig(text).map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(error, Err(wanted.to_owned()));
        }
    }

    #[test]
    fn debug_shows_no_credentials() -> Result<(), AccessError> {
        let access = Access::from_kubeconfig(&kubeconfig("server: 'https://127.0.0.1:6443'"))?;
        let text = format!("{access:?}");
        assert!(text.contains("127.0.0.1:6443") && !text.contains("very-secret"), "{text}");
        Ok(())
    }
}
