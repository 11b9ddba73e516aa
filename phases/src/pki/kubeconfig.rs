use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{CertId, CommonName, Pki};
use crate::ports::FileEntry;
use crate::spec::Component;

/// The cluster's name in a kubeconfig; kubeadm's default `clusterName`.
pub const CLUSTER_NAME: &str = "kubernetes";

#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("writing a kubeconfig for {server}")]
    Serialize {
        server: String,
        #[source]
        source: serde_saphyr::ser::Error,
    },
}

/// A kubeconfig with one cluster, one user and one context. There is no field that would turn
/// the check of the server's certificate off.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Kubeconfig {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    clusters: [NamedCluster; 1],
    contexts: [NamedContext; 1],
    current_context: String,
    users: [NamedUser; 1],
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedCluster {
    name: String,
    cluster: ClusterEntry,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ClusterEntry {
    certificate_authority_data: String,
    server: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedContext {
    name: String,
    context: ContextEntry,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContextEntry {
    cluster: String,
    user: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedUser {
    name: String,
    user: UserEntry,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct UserEntry {
    client_certificate_data: String,
    client_key_data: String,
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cluster] = &self.clusters;
        f.debug_struct("Kubeconfig")
            .field("server", &cluster.cluster.server)
            .field("context", &self.current_context)
            .finish_non_exhaustive()
    }
}

/// What the entries of a kubeconfig are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryNames<'a> {
    pub cluster: &'a str,
    pub user: &'a str,
    pub context: &'a str,
}

impl Kubeconfig {
    /// A kubeconfig that reaches `server` (an `https://` URL) with the client certificate `user`,
    /// with names of the caller's choice.
    pub fn new(pki: &Pki, user: CertId, server: &str, names: EntryNames<'_>) -> Self {
        let data = |pem: &[u8]| STANDARD.encode(pem);
        Self {
            api_version: "v1".to_owned(),
            kind: "Config".to_owned(),
            clusters: [NamedCluster {
                name: names.cluster.to_owned(),
                cluster: ClusterEntry {
                    certificate_authority_data: data(pki.trusted(CertId::Ca)),
                    server: server.to_owned(),
                },
            }],
            contexts: [NamedContext {
                name: names.context.to_owned(),
                context: ContextEntry { cluster: names.cluster.to_owned(), user: names.user.to_owned() },
            }],
            current_context: names.context.to_owned(),
            users: [NamedUser {
                name: names.user.to_owned(),
                user: UserEntry {
                    client_certificate_data: data(pki.cert(user)),
                    client_key_data: data(pki.key(user)),
                },
            }],
        }
    }

    /// As [`Self::new`], with kubeadm's names: cluster `kubernetes`, the user's common name, and
    /// `USER@kubernetes` for the context.
    pub fn with_kubeadm_names(pki: &Pki, user: CertId, server: &str) -> Self {
        let user_name = match user.spec().common_name {
            CommonName::Fixed(name) => name,
            CommonName::HostName => user.spec().base,
        };
        let context = format!("{user_name}@{CLUSTER_NAME}");
        Self::new(pki, user, server, EntryNames { cluster: CLUSTER_NAME, user: user_name, context: &context })
    }

    /// As YAML. Holds a private key: files of it are 0600.
    ///
    /// # Errors
    /// When the serializer fails.
    pub fn to_yaml(&self) -> Result<String, KubeconfigError> {
        let [cluster] = &self.clusters;
        let failed = |source| KubeconfigError::Serialize { server: cluster.cluster.server.clone(), source };
        // Long base64 on one line, as every other tool writes it: line-based readers exist.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(self, options).map_err(failed)
    }
}

/// The kubeconfig files of a cluster, as YAML.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfigs {
    admin: String,
    super_admin: String,
    controller_manager: String,
    scheduler: String,
    konnectivity: String,
    steward: String,
    server: String,
}

impl fmt::Debug for Kubeconfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfigs").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Kubeconfigs {
    /// Those of the users point at `published`, where the host reaches the API port; those of the
    /// components at `port` of loopback in the shared namespace.
    ///
    /// # Errors
    /// When the serializer fails.
    pub fn new(pki: &Pki, published: SocketAddr, port: u16) -> Result<Self, KubeconfigError> {
        let server = server_url(published);
        let local = server_url(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        let render = |user, server: &str| Kubeconfig::with_kubeadm_names(pki, user, server).to_yaml();
        Ok(Self {
            admin: render(CertId::Admin, &server)?,
            super_admin: render(CertId::SuperAdmin, &server)?,
            controller_manager: render(CertId::ControllerManager, &local)?,
            scheduler: render(CertId::Scheduler, &local)?,
            konnectivity: render(CertId::KonnectivityClient, &local)?,
            steward: render(CertId::Steward, &local)?,
            server,
        })
    }

    /// For the host's user: `kubernetes-admin`, bound to cluster-admin by a ClusterRoleBinding.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// For hoist before that binding exists, and for emergencies: passes every authorizer.
    pub fn super_admin(&self) -> &str {
        &self.super_admin
    }

    pub fn controller_manager(&self) -> &str {
        &self.controller_manager
    }

    pub fn scheduler(&self) -> &str {
        &self.scheduler
    }

    /// The URL in the users' kubeconfigs.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The kubeconfig a component starts with, at kubeadm's path and mode 0600; `None` for
    /// components that are no client of the API server.
    pub fn file_for(&self, component: Component) -> Option<FileEntry> {
        let (name, content) = match component {
            Component::ControllerManager => ("controller-manager.conf", &self.controller_manager),
            Component::Scheduler => ("scheduler.conf", &self.scheduler),
            Component::Konnectivity => ("konnectivity-server.conf", &self.konnectivity),
            Component::Steward => ("steward.conf", &self.steward),
            Component::Owner
            | Component::Dnsmasq
            | Component::Etcd
            | Component::Kine
            | Component::ApiServer
            | Component::Registry => return None,
        };
        let path = format!("/etc/kubernetes/{name}");
        Some(FileEntry { path, mode: 0o600, content: content.clone().into_bytes() })
    }
}

/// A port published on a wildcard address is dialled on loopback.
fn server_url(mut at: SocketAddr) -> String {
    match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("https://{at}")
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::pki::{PkiInputs, reconcile};
    use crate::ports::Files;
    use crate::spec::networking::API_PORT;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn pki() -> Result<Pki, crate::pki::PkiError> {
        let inputs = PkiInputs {
            host_name: "hoist-t".to_owned(),
            api_server: [crate::pki::San::Dns("localhost".to_owned())].into(),
            etcd: [crate::pki::San::Dns("localhost".to_owned())].into(),
            konnectivity: [crate::pki::San::Dns("localhost".to_owned())].into(),
        };
        Ok(reconcile(&Files::new(), &inputs, datetime!(2030-01-01 12:00 UTC))?.pki)
    }

    #[test]
    fn looks_like_kubeadms() -> TestResult {
        let pki = pki()?;
        let data = |pem: &[u8]| STANDARD.encode(pem);
        let yaml = Kubeconfigs::new(&pki, ([127, 0, 0, 1], 40123).into(), API_PORT)?.admin().to_owned();
        let wanted = format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: kubernetes\n  cluster:\n    certificate-authority-data: {}\n    server: https://127.0.0.1:40123\n\
             contexts:\n\
             - name: kubernetes-admin@kubernetes\n  context:\n    cluster: kubernetes\n    user: kubernetes-admin\n\
             current-context: kubernetes-admin@kubernetes\n\
             users:\n\
             - name: kubernetes-admin\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            data(pki.cert(CertId::Ca)),
            data(pki.cert(CertId::Admin)),
            data(pki.key(CertId::Admin)),
        );
        assert_eq!(yaml, wanted);
        Ok(())
    }

    #[test]
    fn each_points_where_its_reader_can_reach() -> TestResult {
        let pki = pki()?;
        let of = |at: &str| -> Result<Kubeconfigs, Box<dyn std::error::Error>> {
            Ok(Kubeconfigs::new(&pki, at.parse()?, API_PORT)?)
        };
        let published = of("127.0.0.1:40123")?;
        for (yaml, server, user) in [
            (published.admin(), "https://127.0.0.1:40123", "kubernetes-admin"),
            (published.super_admin(), "https://127.0.0.1:40123", "kubernetes-super-admin"),
            (published.controller_manager(), "https://127.0.0.1:6443", "system:kube-controller-manager"),
            (published.scheduler(), "https://127.0.0.1:6443", "system:kube-scheduler"),
        ] {
            let read: serde_json::Value = serde_saphyr::from_str(yaml)?;
            assert_eq!(read["clusters"][0]["cluster"]["server"], server);
            assert_eq!(read["users"][0]["name"], user);
            assert_eq!(read["current-context"], format!("{user}@kubernetes"));
        }
        for (at, server) in [
            ("0.0.0.0:1", "https://127.0.0.1:1"),
            ("[::]:2", "https://[::1]:2"),
            ("[fd00::1]:3", "https://[fd00::1]:3"),
            ("10.1.2.3:4", "https://10.1.2.3:4"),
        ] {
            assert_eq!(of(at)?.server(), server);
        }
        Ok(())
    }

    #[test]
    fn names_are_the_callers_choice_whatever_yaml_makes_of_them() -> TestResult {
        let pki = pki()?;
        for name in ["hoist-one", "123", "true", "1e3", "null", "a: b #c"] {
            let names = EntryNames { cluster: name, user: name, context: name };
            let config = Kubeconfig::new(&pki, CertId::Admin, "https://localhost:1", names);
            let read: Kubeconfig = serde_saphyr::from_str(&config.to_yaml()?)?;
            assert!(read == config, "{name:?}: {}", config.to_yaml()?);
        }
        Ok(())
    }

    #[test]
    fn there_is_no_way_to_leave_the_server_unverified() -> TestResult {
        let yaml = Kubeconfigs::new(&pki()?, ([127, 0, 0, 1], 1).into(), API_PORT)?.admin().to_owned();
        let tampered = yaml.replace(
            "  cluster:\n    certificate",
            "  cluster:\n    insecure-skip-tls-verify: true\n    certificate",
        );
        assert_ne!(tampered, yaml);
        assert!(serde_saphyr::from_str::<Kubeconfig>(&tampered).is_err());
        assert!(serde_saphyr::from_str::<Kubeconfig>(&yaml).is_ok());
        Ok(())
    }

    #[test]
    fn only_clients_of_the_api_server_get_a_file() -> TestResult {
        let kubeconfigs = Kubeconfigs::new(&pki()?, ([127, 0, 0, 1], 1).into(), API_PORT)?;
        for component in Component::ALL {
            let file = kubeconfigs.file_for(component).map(|file| (file.path, file.mode));
            let name = match component {
                Component::ControllerManager => Some("controller-manager"),
                Component::Scheduler => Some("scheduler"),
                Component::Konnectivity => Some("konnectivity-server"),
                Component::Steward => Some("steward"),
                _ => None,
            };
            let wanted = name.map(|name| (format!("/etc/kubernetes/{name}.conf"), 0o600));
            assert_eq!(file, wanted, "{component}");
        }
        Ok(())
    }
}
