use std::collections::BTreeMap;
use std::fmt;

use super::{CERTS, CertId, Use};
use crate::ports::FileEntry;
use crate::spec::Component;

/// Where the components find their keys; kubeadm's default `certificatesDir`.
pub const CONTAINER_PKI_DIR: &str = "/etc/kubernetes/pki";

/// PEM of a certificate (or public key) and its private key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) cert: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// All keys and certificates of a cluster, made by [`super::reconcile()`].
#[derive(Clone, PartialEq, Eq)]
pub struct Pki {
    pairs: BTreeMap<CertId, Pair>,
    service_account: Pair,
    /// Of CAs that are being replaced: all that are trusted in their stead, as PEM.
    trusted: BTreeMap<CertId, Vec<u8>>,
    /// Hex of the SHA-256 over the cluster CA's SubjectPublicKeyInfo.
    ca_hash: String,
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pki").field("ca_cert_hash", &self.ca_cert_hash()).finish_non_exhaustive()
    }
}

impl Pki {
    pub(super) fn new(
        pairs: BTreeMap<CertId, Pair>,
        trusted: BTreeMap<CertId, Vec<u8>>,
        service_account: Pair,
        ca_hash: String,
    ) -> Self {
        Self { pairs, service_account, trusted, ca_hash }
    }

    /// The certificate as PEM, byte for byte as the state directory has it; empty when the cluster has
    /// no such ([`super::PkiInputs::certs`]).
    pub fn cert(&self, id: CertId) -> &[u8] {
        self.pairs.get(&id).map_or(&[], |pair| &pair.cert)
    }

    /// What is trusted as this CA, as PEM: its certificate, and while it is being replaced
    /// ([`super::rotation`]) that of the other one as well.
    pub fn trusted(&self, ca: CertId) -> &[u8] {
        self.trusted.get(&ca).map_or_else(|| self.cert(ca), Vec::as_slice)
    }

    /// The private key as PEM: hoist's own as PKCS#8, a user's CA as it came.
    pub fn key(&self, id: CertId) -> &[u8] {
        self.pairs.get(&id).map_or(&[], |pair| &pair.key)
    }

    /// Public key that service-account tokens are checked with, as SubjectPublicKeyInfo PEM.
    pub fn service_account_public(&self) -> &[u8] {
        &self.service_account.cert
    }

    /// Private key that service-account tokens are signed with, as PEM.
    pub fn service_account_key(&self) -> &[u8] {
        &self.service_account.key
    }

    /// `sha256:<hex>` of the cluster CA's public key, for `kubeadm join --discovery-token-ca-cert-hash`
    /// (RFC 7469, 2.4: over the SubjectPublicKeyInfo).
    pub fn ca_cert_hash(&self) -> String {
        format!("sha256:{}", self.ca_hash)
    }

    /// Exactly the keys that a component uses, below [`CONTAINER_PKI_DIR`]. Private keys are 0600,
    /// all else 0644. Kubeconfigs come from [`super::Kubeconfigs::file_for`].
    pub fn files_for(&self, component: Component) -> Vec<FileEntry> {
        let mut files = Vec::new();
        let mut put = |name: &str, mode, content: &[u8]| {
            files.push(FileEntry {
                path: format!("{CONTAINER_PKI_DIR}/{name}"),
                mode,
                content: content.to_vec(),
            });
        };
        for spec in CERTS.iter().filter(|spec| self.pairs.contains_key(&spec.id)) {
            let whole = spec.used_by.contains(&Use::Pair(component));
            if whole || spec.used_by.contains(&Use::Cert(component)) {
                put(&format!("{}.crt", spec.base), 0o644, self.trusted(spec.id));
            }
            if whole && spec.issuer.is_none() {
                // A signer takes one certificate and no more (kube-controller-manager 1.36).
                put(&format!("{}-signing.crt", spec.base), 0o644, self.cert(spec.id));
            }
            if whole {
                put(&format!("{}.key", spec.base), 0o600, self.key(spec.id));
            }
        }
        // Both sign: the API server through TokenRequest, the controller-manager for token Secrets.
        if matches!(component, Component::ApiServer | Component::ControllerManager) {
            put("sa.key", 0o600, self.service_account_key());
        }
        if component == Component::ApiServer {
            put("sa.pub", 0o644, self.service_account_public());
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use time::macros::datetime;

    use super::*;
    use crate::pki::{PkiInputs, reconcile};
    use crate::ports::Files;
    use crate::spec::test_spec;

    #[test]
    fn each_component_gets_the_keys_it_uses_and_no_other() -> Result<(), Box<dyn std::error::Error>> {
        let inputs = PkiInputs::new(&test_spec())?;
        let pki = reconcile(&Files::new(), &inputs, datetime!(2030-01-01 12:00 UTC))?.pki;
        let expected: [(Component, &[&str]); 10] = [
            (Component::Owner, &[]),
            (Component::Dnsmasq, &[]),
            (Component::Etcd, &["etcd/ca.crt", "etcd/server.crt", "etcd/server.key"]),
            (Component::Kine, &["etcd/ca.crt", "etcd/server.crt", "etcd/server.key"]),
            (
                Component::ApiServer,
                &[
                    "apiserver-etcd-client.crt",
                    "apiserver-etcd-client.key",
                    "apiserver-kubelet-client.crt",
                    "apiserver-kubelet-client.key",
                    "apiserver.crt",
                    "apiserver.key",
                    "ca.crt",
                    "etcd/ca.crt",
                    "front-proxy-ca.crt",
                    "front-proxy-client.crt",
                    "front-proxy-client.key",
                    "sa.key",
                    "sa.pub",
                ],
            ),
            (
                Component::ControllerManager,
                &["ca-signing.crt", "ca.crt", "ca.key", "front-proxy-ca.crt", "sa.key"],
            ),
            (Component::Scheduler, &[]),
            (Component::Konnectivity, &["konnectivity-server.crt", "konnectivity-server.key"]),
            (Component::Registry, &[]),
            (Component::Steward, &[]),
        ];
        for (component, names) in expected {
            let files = pki.files_for(component);
            let paths: BTreeSet<_> = files.iter().map(|file| file.path.clone()).collect();
            let wanted: BTreeSet<_> =
                names.iter().map(|name| format!("/etc/kubernetes/pki/{name}")).collect();
            assert_eq!(paths, wanted, "{component}");
            for file in files {
                let secret = String::from_utf8_lossy(&file.content).contains("PRIVATE KEY");
                assert_eq!(file.mode, if secret { 0o600 } else { 0o644 }, "{}", file.path);
            }
        }
        Ok(())
    }
}
