use crate::spec::Component;

/// Names one certificate; the position in [`CERTS`] is the discriminant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertId {
    Ca,
    FrontProxyCa,
    EtcdCa,
    ApiServer,
    ApiServerKubeletClient,
    FrontProxyClient,
    EtcdServer,
    ApiServerEtcdClient,
    Admin,
    SuperAdmin,
    ControllerManager,
    Scheduler,
    KonnectivityServer,
    KonnectivityClient,
    Steward,
}

/// Common name of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommonName {
    Fixed(&'static str),
    /// The host name of the control plane, `hoist-NAME`; kubeadm takes the node's name.
    HostName,
}

/// What a certificate may be used for (RFC 5280, 4.2.1.3 and 4.2.1.12).
///
/// Leaves carry `digitalSignature` alone: RFC 8813 forbids the `keyEncipherment` that kubeadm also
/// sets on an elliptic-curve key, and TLS 1.2 and 1.3 with ECDHE never use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// `CA:TRUE`, `keyCertSign`, `cRLSign` and `digitalSignature`.
    Ca,
    /// Extended key usage `serverAuth`.
    Server,
    /// Extended key usage `clientAuth`.
    Client,
    /// Both. etcd's server also acts as a client of itself for its gRPC gateway.
    ServerAndClient,
}

impl Purpose {
    pub fn is_server(self) -> bool {
        matches!(self, Self::Server | Self::ServerAndClient)
    }

    pub fn is_client(self) -> bool {
        matches!(self, Self::Client | Self::ServerAndClient)
    }
}

/// Where the subject alternative names come from; see [`crate::pki::PkiInputs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SanRule {
    None,
    ApiServer,
    Etcd,
    Konnectivity,
}

/// Who holds a certificate, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The certificate alone, as a file.
    Cert(Component),
    /// Certificate and private key, as files.
    Pair(Component),
    /// Both within the component's kubeconfig.
    Kubeconfig(Component),
    /// Both within a kubeconfig of the host's user.
    Host,
}

/// One row of [`CERTS`]. Those of etcd are for a store of the cluster's own alone.
#[derive(Debug, Clone, Copy)]
pub struct CertSpec {
    pub id: CertId,
    /// Path below `pki/` without `.crt` and `.key`; kubeadm's, where kubeadm has such a file.
    pub base: &'static str,
    pub common_name: CommonName,
    pub organization: Option<&'static str>,
    /// `None`: self-signed.
    pub issuer: Option<CertId>,
    pub purpose: Purpose,
    pub sans: SanRule,
    pub used_by: &'static [Use],
}

/// Group that kubeadm binds to cluster-admin (`ClusterAdminsGroupAndClusterRoleBinding`).
pub const CLUSTER_ADMINS: &str = "kubeadm:cluster-admins";

/// Group that passes every authorizer (`SystemPrivilegedGroup`).
pub const SYSTEM_MASTERS: &str = "system:masters";

/// User of the API server towards kubelets.
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// User of the API server towards extension API servers; the only name `--requestheader-allowed-names` lets in.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// User that asks the API server whether an agent's token is good (manifests/konnectivity).
pub const KONNECTIVITY_SERVER: &str = "system:konnectivity-server";

/// User of the steward; manifests/steward says what it may do.
pub const STEWARD: &str = "hoist:steward";

/// Every certificate of a cluster, CAs first; the phase, the docs and the tests iterate this.
///
/// Left out of kubeadm's list, on purpose: `etcd/peer` (a single member dials no peer; a peer port
/// that shall be closed with TLS can take `etcd/server`, valid for both directions) and
/// `etcd/healthcheck-client` (etcd is probed through the API server's `/readyz`).
pub const CERTS: &[CertSpec] = &[
    CertSpec {
        id: CertId::Ca,
        base: "ca",
        common_name: CommonName::Fixed("kubernetes"),
        organization: None,
        issuer: None,
        purpose: Purpose::Ca,
        sans: SanRule::None,
        // The controller-manager signs the kubelets' certificates.
        used_by: &[Use::Cert(Component::ApiServer), Use::Pair(Component::ControllerManager), Use::Host],
    },
    CertSpec {
        id: CertId::FrontProxyCa,
        base: "front-proxy-ca",
        common_name: CommonName::Fixed("front-proxy-ca"),
        organization: None,
        issuer: None,
        purpose: Purpose::Ca,
        sans: SanRule::None,
        used_by: &[Use::Cert(Component::ApiServer), Use::Cert(Component::ControllerManager)],
    },
    CertSpec {
        id: CertId::EtcdCa,
        base: "etcd/ca",
        common_name: CommonName::Fixed("etcd-ca"),
        organization: None,
        issuer: None,
        purpose: Purpose::Ca,
        sans: SanRule::None,
        used_by: &[Use::Cert(Component::Etcd), Use::Cert(Component::Kine), Use::Cert(Component::ApiServer)],
    },
    CertSpec {
        id: CertId::ApiServer,
        base: "apiserver",
        common_name: CommonName::Fixed("kube-apiserver"),
        organization: None,
        issuer: Some(CertId::Ca),
        purpose: Purpose::Server,
        sans: SanRule::ApiServer,
        used_by: &[Use::Pair(Component::ApiServer)],
    },
    CertSpec {
        id: CertId::ApiServerKubeletClient,
        base: "apiserver-kubelet-client",
        common_name: CommonName::Fixed(KUBELET_CLIENT),
        // As kubeadm does from 1.33.12, 1.34.8, 1.35.5 and 1.36.1 on, whatever the version here: instead of a
        // group of administrators, a binding to system:kubelet-api-admin.
        organization: None,
        issuer: Some(CertId::Ca),
        purpose: Purpose::Client,
        sans: SanRule::None,
        used_by: &[Use::Pair(Component::ApiServer)],
    },
    CertSpec {
        id: CertId::FrontProxyClient,
        base: "front-proxy-client",
        common_name: CommonName::Fixed(FRONT_PROXY_CLIENT),
        organization: None,
        issuer: Some(CertId::FrontProxyCa),
        purpose: Purpose::Client,
        sans: SanRule::None,
        used_by: &[Use::Pair(Component::ApiServer)],
    },
    CertSpec {
        id: CertId::EtcdServer,
        base: "etcd/server",
        common_name: CommonName::HostName,
        organization: None,
        issuer: Some(CertId::EtcdCa),
        purpose: Purpose::ServerAndClient,
        sans: SanRule::Etcd,
        used_by: &[Use::Pair(Component::Etcd), Use::Pair(Component::Kine)],
    },
    CertSpec {
        id: CertId::ApiServerEtcdClient,
        base: "apiserver-etcd-client",
        common_name: CommonName::Fixed("kube-apiserver-etcd-client"),
        organization: None,
        issuer: Some(CertId::EtcdCa),
        purpose: Purpose::Client,
        sans: SanRule::None,
        used_by: &[Use::Pair(Component::ApiServer)],
    },
    user(CertId::Admin, "admin", "kubernetes-admin", Some(CLUSTER_ADMINS), &[Use::Host]),
    user(CertId::SuperAdmin, "super-admin", "kubernetes-super-admin", Some(SYSTEM_MASTERS), &[Use::Host]),
    user(
        CertId::ControllerManager,
        "controller-manager",
        "system:kube-controller-manager",
        None,
        &[Use::Kubeconfig(Component::ControllerManager)],
    ),
    user(
        CertId::Scheduler,
        "scheduler",
        "system:kube-scheduler",
        None,
        &[Use::Kubeconfig(Component::Scheduler)],
    ),
    CertSpec {
        id: CertId::KonnectivityServer,
        base: "konnectivity-server",
        common_name: CommonName::Fixed("konnectivity-server"),
        organization: None,
        issuer: Some(CertId::Ca),
        purpose: Purpose::Server,
        sans: SanRule::Konnectivity,
        used_by: &[Use::Pair(Component::Konnectivity)],
    },
    user(
        CertId::KonnectivityClient,
        "konnectivity-client",
        KONNECTIVITY_SERVER,
        None,
        &[Use::Kubeconfig(Component::Konnectivity)],
    ),
    user(CertId::Steward, "steward", STEWARD, None, &[Use::Kubeconfig(Component::Steward)]),
];

/// A client certificate that only a kubeconfig holds; kubeadm keeps no file of it, hoist does, so
/// that a kubeconfig can be rendered again for another address.
const fn user(
    id: CertId,
    base: &'static str,
    name: &'static str,
    organization: Option<&'static str>,
    used_by: &'static [Use],
) -> CertSpec {
    let common_name = CommonName::Fixed(name);
    let (issuer, purpose, sans) = (Some(CertId::Ca), Purpose::Client, SanRule::None);
    CertSpec { id, base, common_name, organization, issuer, purpose, sans, used_by }
}

impl CertSpec {
    /// Whether it is of etcd: its CA, or signed by it.
    pub fn is_of_etcd(&self) -> bool {
        self.id == CertId::EtcdCa || self.issuer == Some(CertId::EtcdCa)
    }
}

impl CertId {
    /// The row of this certificate.
    pub fn spec(self) -> &'static CertSpec {
        &CERTS[self as usize]
    }

    /// Path of the certificate in the state directory, such as `pki/etcd/server.crt`.
    pub fn cert_path(self) -> String {
        format!("pki/{}.crt", self.spec().base)
    }

    /// Path of the private key in the state directory, such as `pki/etcd/server.key`.
    pub fn key_path(self) -> String {
        format!("pki/{}.key", self.spec().base)
    }
}

impl std::fmt::Display for CertId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.spec().base)
    }
}

impl CommonName {
    /// The name for a control plane of this host name.
    pub fn resolve(self, host_name: &str) -> &str {
        match self {
            Self::Fixed(name) => name,
            Self::HostName => host_name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_where_their_id_says() {
        for (index, spec) in CERTS.iter().enumerate() {
            assert_eq!(spec.id as usize, index, "{spec:?}");
            let issued_by_a_ca =
                spec.issuer.is_none_or(|ca| (ca as usize) < index && ca.spec().purpose == Purpose::Ca);
            assert!(issued_by_a_ca, "{spec:?}");
            assert_eq!(spec.issuer.is_none(), spec.purpose == Purpose::Ca, "{spec:?}");
            assert_eq!(spec.sans != SanRule::None, spec.purpose.is_server(), "{spec:?}");
        }
    }
}
