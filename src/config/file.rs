//! The configuration file: its shape, and nothing about what its values mean. Fields are the
//! flags of `hoist up`, and those settings that are too long for a flag. The published JSON Schema
//! is made of these types, their comments included.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hoist_phases::spec::{PlacementPolicy, Taint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cli::args::Progress;

/// What `apiVersion` must say.
pub const API_VERSION: &str = "hoist.dev/v1alpha1";
/// What `kind` must say.
pub const KIND: &str = "Cluster";

/// Text that YAML may take for a number or a truth value when it is not quoted.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Scalar {
    Text(String),
    Number(f64),
    Truth(bool),
}

/// A configuration file as written; absent fields keep their defaults.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterFile {
    pub api_version: String,
    pub kind: String,
    pub name: Option<String>,
    pub kubernetes: Option<String>,
    /// A configuration of kubeadm's (v1beta3, v1beta4, v1), a path beside this file: what it says holds
    /// where neither flag nor file says anything.
    pub kubeadm_config: Option<PathBuf>,
    #[serde(default)]
    pub owner: OwnerFile,
    #[serde(default)]
    pub networking: NetworkingFile,
    /// `HOST:PORT`
    pub control_plane_endpoint: Option<String>,
    /// `IP` or `IP:PORT`
    pub listen_address: Option<String>,
    /// Ports of the host that lead to ports of the nodes.
    pub ports: Option<Vec<PortFile>>,
    #[serde(default)]
    pub registry: RegistryFile,
    #[serde(default)]
    pub images: ImagesFile,
    #[serde(default)]
    pub proxy: ProxyFile,
    /// Names and addresses that the API server's certificate is valid for too.
    pub extra_sans: Option<Vec<String>>,
    #[serde(default)]
    pub ca: CaFile,
    pub token: Option<String>,
    #[schemars(with = "Option<Scalar>")]
    pub token_ttl: Option<String>,
    #[serde(default)]
    pub etcd: EtcdFile,
    #[serde(default)]
    pub api_server: ApiServerFile,
    #[serde(default)]
    pub scheduler: SchedulerFile,
    /// Turned on or off in every component and on every node.
    pub feature_gates: Option<BTreeMap<String, bool>>,
    #[serde(default)]
    pub kubelet: KubeletFile,
    /// `kube-router`, `none`, a path beside this file, or `URL#sha256=HEX`.
    pub cni: Option<String>,
    #[serde(default)]
    pub kube_proxy: KubeProxyFile,
    pub reach: Option<String>,
    /// By component name.
    #[serde(default)]
    pub components: BTreeMap<String, ComponentFile>,
    pub nodes: Option<Vec<NodeGroup>>,
    /// Manifests that are part of the cluster, in order.
    pub addons: Option<Vec<AddonFile>>,
    #[serde(default)]
    pub placement: PlacementFile,
    /// Names of phases to leave out, see `hoist phase list`.
    pub skip_phases: Option<Vec<String>>,
    pub wait: Option<String>,
    #[schemars(with = "Option<Scalar>")]
    pub timeout: Option<String>,
    pub retain: Option<bool>,
    pub progress: Option<Progress>,
    /// Where to write how the time went, in Chrome's trace format, with a page of the timeline beside
    /// it; relative to the working directory.
    pub profile: Option<PathBuf>,
    /// A directory, new or empty, for what `hoist export` gathers when the run fails; relative to the
    /// working directory.
    pub export_on_failure: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnerFile {
    /// Name of a container whose network namespace is used instead of one of hoist's own.
    pub attach: Option<String>,
}

/// A registry of the cluster's own, which nodes pull from.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryFile {
    /// `true` makes one.
    pub enabled: Option<bool>,
    /// Of 127.0.0.1, to push to; 0, the default, is one of the engine's choice.
    pub port: Option<u16>,
}

/// Where images come from.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImagesFile {
    /// Where nodes ask first, by the name of the registry: URLs, in order.
    pub mirrors: Option<BTreeMap<String, Vec<String>>>,
}

/// The proxies through which nodes pull images. Nothing else goes through them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProxyFile {
    /// For `http://`: the URL of a proxy.
    pub http: Option<String>,
    /// For `https://`: the URL of a proxy.
    pub https: Option<String>,
    /// Hosts, domains and ranges that are reached directly, beside the cluster's own.
    pub no_proxy: Option<Vec<String>>,
}

/// A port of the host that leads to a port of the nodes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortFile {
    /// `IP:PORT`, or a port of 127.0.0.1; 0, the default, is one of the engine's choice.
    #[schemars(with = "Option<Scalar>")]
    pub host: Option<String>,
    /// Such as the node port of a Service.
    #[schemars(with = "Scalar")]
    pub port: String,
    /// `TCP` or `UDP`.
    pub protocol: Option<String>,
    /// The one node it leads to, such as `node01`; any that is Ready when absent.
    pub node: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServerFile {
    /// Where it listens inside the shared network namespace; on the host, `listenAddress` says where.
    pub port: Option<u16>,
    /// Besides Kubernetes' defaults and NodeRestriction.
    pub admission_plugins: Option<Vec<String>>,
    /// YAML, as text.
    pub admission_config: Option<String>,
    pub pod_security: Option<PodSecurityFile>,
    pub audit: Option<AuditFile>,
    /// An AuthenticationConfiguration, such as of OIDC: YAML, as text.
    pub authentication_config: Option<String>,
    pub oidc: Option<OidcFile>,
    /// An EncryptionConfiguration: YAML, as text.
    pub encryption_config: Option<String>,
    /// API groups, versions and resources turned on or off, such as `api/beta`.
    pub runtime_config: Option<BTreeMap<String, bool>>,
}

/// Users of an OpenID Connect provider, in short. Instead of an `authenticationConfig`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcFile {
    /// `https://` URL, as the tokens' claim `iss` has it.
    pub issuer_url: String,
    /// What the tokens' claim `aud` names.
    pub client_id: String,
    /// Claim that is the user's name, `sub` when absent.
    pub username_claim: Option<String>,
    /// `oidc:` when absent.
    pub username_prefix: Option<String>,
    /// Claim that lists the user's groups; without it there are none.
    pub groups_claim: Option<String>,
    /// `oidc:` when absent.
    pub groups_prefix: Option<String>,
    /// Certificate of the authority that the issuer's is signed by, PEM, a path beside this file: the
    /// API server's image trusts none by itself.
    pub ca: PathBuf,
}

/// What namespaces without labels of their own are held to (Pod Security Standards): `privileged`,
/// `baseline` or `restricted`. Instead of an `admissionConfig`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSecurityFile {
    pub enforce: Option<String>,
    pub audit: Option<String>,
    pub warn: Option<String>,
    /// Beside kube-system, which the cluster's own pods need.
    pub exempt_namespaces: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulerFile {
    /// A KubeSchedulerConfiguration: YAML, as text.
    pub config: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletFile {
    /// Fields of the KubeletConfiguration, over hoist's; null takes one away.
    pub config: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditFile {
    /// YAML, as text.
    pub policy: String,
    /// Such as `100Mi`.
    #[schemars(with = "Option<Scalar>")]
    pub log_max_size: Option<String>,
    pub log_max_backups: Option<u32>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkingFile {
    /// `ipv4`, `ipv6` or `dual`: default ranges of these families.
    pub ip_family: Option<String>,
    /// One range, or one of each family with a comma between.
    pub pod_subnet: Option<String>,
    pub service_subnet: Option<String>,
    pub node_mask_size_ipv4: Option<u8>,
    pub node_mask_size_ipv6: Option<u8>,
    pub dns_domain: Option<String>,
    /// Of the nodes' network, in bytes; that of the engine's network when absent.
    pub mtu: Option<u32>,
    /// Names that nodes and pods resolve, with their addresses.
    pub dns_records: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdFile {
    /// What keeps the data: `etcd` or `kine`.
    pub backend: Option<String>,
    /// An etcd that is there already, instead.
    #[serde(default)]
    pub external: ExternalEtcdFile,
    pub durable: Option<bool>,
    pub fsync: Option<bool>,
    /// Such as `1Gi`.
    #[schemars(with = "Option<Scalar>")]
    pub tmpfs_size: Option<String>,
    #[schemars(with = "Option<Scalar>")]
    pub quota: Option<String>,
}

/// An etcd of the user's; relative paths start at the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalEtcdFile {
    /// `https://HOST:PORT` each.
    pub endpoints: Option<Vec<String>>,
    /// What the cluster's keys begin with; another for each cluster in one etcd.
    pub prefix: Option<String>,
    /// What signed the servers' certificates, PEM.
    pub ca: Option<PathBuf>,
    /// A client's certificate, PEM.
    pub cert: Option<PathBuf>,
    /// Its key, PEM.
    pub key: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeProxyFile {
    pub mode: Option<String>,
    /// Fields of the KubeProxyConfiguration, over hoist's; null takes one away.
    pub config: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentFile {
    /// Flags without their dashes; they replace hoist's own of the same name, or are merged with them
    /// where they list names. One that is given more than once has a value a line.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub extra_args: BTreeMap<String, String>,
    /// Memory limit, such as `4Gi`.
    #[schemars(with = "Option<Scalar>")]
    pub memory: Option<String>,
    /// CPU limit in cores, such as `2` or `500m`.
    #[schemars(with = "Option<Scalar>")]
    pub cpus: Option<String>,
}

/// A CA of the user's; relative paths start at the configuration file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaFile {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// Nodes that are alike.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroup {
    pub kind: Option<String>,
    pub count: Option<u32>,
    /// Size of virtual machines.
    pub cpus: Option<u16>,
    #[schemars(with = "Option<Scalar>")]
    pub memory: Option<String>,
    #[schemars(with = "Option<Scalar>")]
    pub disk: Option<String>,
    /// What its machines are made from, see docs/vm-nodes.md; paths start at the configuration file.
    pub image: Option<String>,
    /// What the Nodes are labelled with as they join.
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub labels: Option<BTreeMap<String, String>>,
    /// What the Nodes are tainted with as they join.
    pub taints: Option<Vec<Taint>>,
}

/// A manifest that is part of the cluster.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddonFile {
    /// A path beside this file, or `URL#sha256=HEX`.
    pub manifest: String,
    /// Whether the next one waits until its objects are ready, and `up` too; true by itself.
    pub wait: Option<bool>,
}

/// Where pods go.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementFile {
    pub policy: Option<PlacementPolicy>,
    /// None at all for `[]`; the default when absent.
    pub roles: Option<Vec<RoleFile>>,
    #[serde(default)]
    pub spread: SpreadFile,
}

/// Which Deployments get their replicas onto different nodes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpreadFile {
    /// `false` leaves every pod where it is, those of the cluster's DNS included.
    pub enabled: Option<bool>,
    /// All Deployments of these namespaces, beside the cluster's DNS.
    pub namespaces: Option<BTreeSet<String>>,
    /// Deployments of any namespace that carry all of these labels.
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// One role and which nodes have it: those of `nodes`, `count` or `selector`, or else all.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleFile {
    pub role: String,
    pub nodes: Option<Vec<String>>,
    pub count: Option<u32>,
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub selector: Option<BTreeMap<String, String>>,
    pub taint: Option<bool>,
}
