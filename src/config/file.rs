//! The configuration file: its shape, and nothing about what its values mean. Fields are the
//! flags of `hoist up`, and those settings that are too long for a flag.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hoist_phases::spec::{PlacementPolicy, Spread};
use serde::Deserialize;

use crate::cli::args::Progress;

/// What `apiVersion` must say.
pub const API_VERSION: &str = "hoist.dev/v1alpha1";
/// What `kind` must say.
pub const KIND: &str = "Cluster";

/// A configuration file as written; absent fields keep their defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterFile {
    pub api_version: String,
    pub kind: String,
    pub name: Option<String>,
    pub kubernetes: Option<String>,
    #[serde(default)]
    pub owner: OwnerFile,
    #[serde(default)]
    pub networking: NetworkingFile,
    /// `HOST:PORT`
    pub control_plane_endpoint: Option<String>,
    /// `IP` or `IP:PORT`
    pub listen_address: Option<String>,
    #[serde(default)]
    pub extra_sans: Vec<String>,
    #[serde(default)]
    pub ca: CaFile,
    pub token: Option<String>,
    pub token_ttl: Option<String>,
    #[serde(default)]
    pub etcd: EtcdFile,
    #[serde(default)]
    pub api_server: ApiServerFile,
    /// `kube-router`, `none`, a path beside this file, or `URL#sha256=HEX`.
    pub cni: Option<String>,
    #[serde(default)]
    pub kube_proxy: KubeProxyFile,
    pub reach: Option<String>,
    /// By component name.
    #[serde(default)]
    pub components: BTreeMap<String, ComponentFile>,
    pub nodes: Option<Vec<NodeGroup>>,
    #[serde(default)]
    pub placement: PlacementFile,
    #[serde(default)]
    pub skip_phases: Vec<String>,
    pub wait: Option<String>,
    pub timeout: Option<String>,
    pub retain: Option<bool>,
    pub progress: Option<Progress>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnerFile {
    /// Name of a container whose network namespace is used instead of one of hoist's own.
    pub attach: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServerFile {
    #[serde(default)]
    pub admission_plugins: Vec<String>,
    /// YAML, as text.
    pub admission_config: Option<String>,
    pub audit: Option<AuditFile>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditFile {
    /// YAML, as text.
    pub policy: String,
    /// Such as `100Mi`.
    pub log_max_size: Option<String>,
    pub log_max_backups: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
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
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdFile {
    pub durable: Option<bool>,
    pub fsync: Option<bool>,
    /// Such as `1Gi`.
    pub tmpfs_size: Option<String>,
    pub quota: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeProxyFile {
    pub mode: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentFile {
    /// Flags without their dashes; they replace hoist's own of the same name.
    #[serde(default)]
    pub extra_args: BTreeMap<String, String>,
    /// Memory limit, such as `4Gi`.
    pub memory: Option<String>,
    /// CPU limit in cores, such as `2` or `500m`.
    pub cpus: Option<String>,
}

/// A CA of the user's; relative paths start at the configuration file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaFile {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// Nodes that are alike.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroup {
    pub kind: Option<String>,
    pub count: Option<u32>,
    /// Size of virtual machines.
    pub cpus: Option<u16>,
    pub memory: Option<String>,
    pub disk: Option<String>,
    /// What its machines are made from, see docs/vm-nodes.md; paths start at the configuration file.
    pub image: Option<String>,
}

/// Where pods go.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementFile {
    pub policy: Option<PlacementPolicy>,
    /// None at all for `[]`; the default when absent.
    pub roles: Option<Vec<RoleFile>>,
    pub spread: Option<Spread>,
}

/// One role and which nodes have it: those of `nodes`, `count` or `selector`, or else all.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleFile {
    pub role: String,
    pub nodes: Option<Vec<String>>,
    pub count: Option<u32>,
    pub selector: Option<BTreeMap<String, String>>,
    pub taint: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("configuration file {path}: can't be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("configuration file {path}{}: {message}", at(*.position))]
    Parse { path: PathBuf, position: Option<(u64, u64)>, message: String },
    #[error("configuration file {path}: {field} is {found:?}, must be {wanted:?}")]
    Header { path: PathBuf, field: &'static str, found: String, wanted: &'static str },
}

fn at(position: Option<(u64, u64)>) -> String {
    position.map(|(line, column)| format!(", line {line}, column {column}")).unwrap_or_default()
}

/// Reads a file; `-` is stdin.
///
/// # Errors
/// When it can't be read, isn't YAML of the expected shape, or is meant for something else.
pub fn read(path: &Path) -> Result<ClusterFile, FileError> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// As [`read`], from text; the path is for messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<ClusterFile, FileError> {
    let file: ClusterFile = serde_saphyr::from_str(text).map_err(|error| {
        let bare = error.without_snippet();
        let position = bare.location().map(|l| (l.line(), l.column()));
        FileError::Parse { path: path.to_owned(), position, message: first_line(&bare.to_string()) }
    })?;
    let headers = [("apiVersion", &file.api_version, API_VERSION), ("kind", &file.kind, KIND)];
    for (field, found, wanted) in headers {
        if found != wanted {
            return Err(FileError::Header { path: path.to_owned(), field, found: found.clone(), wanted });
        }
    }
    Ok(file)
}

/// The location is told apart from the message, once.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.split(" at line ").next().unwrap_or(line).to_owned()
}
