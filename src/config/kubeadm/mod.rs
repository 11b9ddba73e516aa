//! kubeadm's own configuration as input (kubeadm.k8s.io/v1beta3, v1beta4 and v1): what means something
//! here becomes fields of the configuration file, below those that it and flags say; the rest is
//! named, with the reason.

pub(crate) mod args;
mod reader;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use self::reader::Reader;
use super::component_configs::{KUBE_PROXY, KUBELET};
use super::document::{Document, drop_nulls};
use super::origin::Origin;

#[derive(Debug, thiserror::Error)]
pub enum KubeadmError {
    #[error("kubeadmConfig {path:?}: can't be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("kubeadmConfig {path:?}: {message}")]
    Parse { path: PathBuf, message: String },
    #[error(
        "kubeadmConfig {path:?}: apiVersion {found:?} is not known; kubeadm.k8s.io/v1beta3, v1beta4 and v1 are"
    )]
    Version { path: PathBuf, found: String },
    #[error("kubeadmConfig {path:?}: holds more than one {kind}; kubeadm takes one")]
    Twice { path: PathBuf, kind: String },
    #[error("kubeadmConfig {0:?}: holds no document of kubeadm's; a ClusterConfiguration is looked for")]
    Nothing(PathBuf),
}

/// Of the group kubeadm.k8s.io; all that is read here is the same in them but for arguments, whose
/// two spellings are told apart by their shape.
const VERSIONS: [&str; 3] = ["v1beta3", "v1beta4", "v1"];

/// Fields that mean nothing here, and why. Whatever is not read and not in here is named without.
const REASONS: &[(&str, &str)] = &[
    (
        "ClusterConfiguration.certificatesDir",
        "keys are in the state directory and in each component's container",
    ),
    (
        "ClusterConfiguration.clusterName",
        "hoist's kubeconfigs call the cluster kubernetes, and its own name is `name`",
    ),
    (
        "ClusterConfiguration.controlPlaneEndpoint",
        "needs an address to publish at: set controlPlaneEndpoint and listenAddress",
    ),
    ("ClusterConfiguration.encryptionAlgorithm", "keys are ECDSA P-256; bring a CA of another kind by `ca`"),
    (
        "ClusterConfiguration.etcd.external",
        "its files are those of a node; name copies in etcd.external of hoist's own file",
    ),
    ("ClusterConfiguration.etcd.local.dataDir", "etcd's data is in memory, or in a volume with etcd.durable"),
    (
        "ClusterConfiguration.featureGates",
        "these are of kubeadm init; those of components are `featureGates`",
    ),
    ("ClusterConfiguration.imageRepository", "images come from `hoist images`"),
    ("InitConfiguration.certificateKey", "there is one control plane"),
    (
        "InitConfiguration.localAPIEndpoint.advertiseAddress",
        "the API server's address is on the nodes' network, see docs/networking.md",
    ),
    (
        "InitConfiguration.nodeRegistration",
        "no node carries the control plane; `nodes` have labels and taints",
    ),
    ("InitConfiguration.patches", "no static pods are written; flags are components.*.extraArgs"),
    ("JoinConfiguration", "`up` joins its nodes itself, others take `hoist join-command`"),
];

/// Puts what the file says below what `document` says already. Gives what is not carried over, each
/// in one line.
///
/// # Errors
/// When it can't be read, isn't YAML, or is of another version.
pub(super) fn below(document: &mut Document, path: &Path) -> Result<Vec<String>, KubeadmError> {
    let text = super::document::text_of(path)
        .map_err(|source| KubeadmError::Read { path: path.to_owned(), source })?;
    let Carried { fields, unused } = carry(path, &text)?;
    let mut said = serde_json::to_value(&document.file).unwrap_or_default();
    drop_nulls(&mut said);
    let file = path.display().to_string();
    leaves("", &fields, &mut |field| {
        if !document.origins.has(field) {
            document.origins.set(field, Origin::Kubeadm { file: file.clone() });
        }
    });
    let mut merged = fields;
    json_patch::merge(&mut merged, &said);
    let message =
        |error: serde_json::Error| KubeadmError::Parse { path: path.to_owned(), message: error.to_string() };
    document.file = serde_json::from_value(merged).map_err(message)?;
    Ok(unused.into_iter().map(|field| told(&file, &field)).collect())
}

fn told(file: &str, field: &str) -> String {
    let within =
        |known: &str| field == known || field.strip_prefix(known).is_some_and(|rest| rest.starts_with('.'));
    match REASONS.iter().find(|(known, _)| within(known)) {
        Some((_, reason)) => format!("{file}: {field} has no meaning here: {reason}"),
        None => format!("{file}: {field} has no meaning here"),
    }
}

fn leaves(parent: &str, value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members
                .iter()
                .for_each(|(name, value)| leaves(&super::schema::member(parent, name), value, each));
        }
        _ => each(parent),
    }
}

fn message(error: &serde_saphyr::Error) -> String {
    let (place, wrong) = super::yaml::told(error);
    let place = place.map(|(line, column)| format!("line {line}, column {column}: "));
    place.unwrap_or_default() + &wrong
}

struct Carried {
    /// As in the configuration file.
    fields: Value,
    unused: Vec<String>,
}

fn carry(path: &Path, text: &str) -> Result<Carried, KubeadmError> {
    let parse = |message: String| KubeadmError::Parse { path: path.to_owned(), message };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| parse(message(&error)))?;
    let mut fields = json!({});
    let mut unused = Vec::new();
    let mut known = 0_usize;
    let mut kinds = BTreeSet::new();
    for mut document in documents {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        let version = document["apiVersion"].as_str().unwrap_or_default().to_owned();
        if version.strip_prefix("kubeadm.k8s.io/").is_some_and(|version| !VERSIONS.contains(&version)) {
            return Err(KubeadmError::Version { path: path.to_owned(), found: version });
        }
        if !kind.is_empty() && !kinds.insert(kind.clone()) {
            return Err(KubeadmError::Twice { path: path.to_owned(), kind });
        }
        unknown(&kind, &document, &mut unused);
        let mut reader = Reader::new(&mut document, &mut fields);
        match kind.as_str() {
            "ClusterConfiguration" => cluster(&mut reader),
            "InitConfiguration" => init(&mut reader),
            "KubeletConfiguration" => reader.rest("kubelet", KUBELET),
            "KubeProxyConfiguration" => {
                reader.take("/mode", &["kubeProxy", "mode"]);
                reader.rest("kubeProxy", KUBE_PROXY);
            }
            _ => {}
        }
        known += usize::from(version.starts_with("kubeadm.k8s.io/"));
        left(&kind, &document, &mut unused);
    }
    if known == 0 { Err(KubeadmError::Nothing(path.to_owned())) } else { Ok(Carried { fields, unused }) }
}

fn cluster(reader: &mut Reader<'_>) {
    for (from, to) in [
        ("/kubernetesVersion", &["kubernetes"][..]),
        ("/networking/podSubnet", &["networking", "podSubnet"]),
        ("/networking/serviceSubnet", &["networking", "serviceSubnet"]),
        ("/networking/dnsDomain", &["networking", "dnsDomain"]),
        ("/apiServer/certSANs", &["extraSans"]),
    ] {
        reader.take(from, to);
    }
    for (from, component) in [
        ("/apiServer/extraArgs", "kube-apiserver"),
        ("/controllerManager/extraArgs", "kube-controller-manager"),
        ("/scheduler/extraArgs", "kube-scheduler"),
        ("/etcd/local/extraArgs", "etcd"),
    ] {
        reader.args(from, component);
    }
    let mut skipped = Vec::new();
    for (from, phase) in [("/proxy/disabled", "kube-proxy"), ("/dns/disabled", "coredns")] {
        if reader.pull(from) == Some(Value::Bool(true)) {
            skipped.push(phase);
        }
    }
    if !skipped.is_empty() {
        reader.put(&["skipPhases"], json!(skipped));
    }
}

fn init(reader: &mut Reader<'_>) {
    reader.take("/bootstrapTokens/0/token", &["token"]);
    reader.take("/localAPIEndpoint/bindPort", &["apiServer", "port"]);
    if let Some(Value::String(ttl)) = reader.pull("/bootstrapTokens/0/ttl") {
        reader.put(&["tokenTtl"], json!(ttl));
    }
    // Groups and usages are what kubeadm gives by itself.
    reader.pull("/bootstrapTokens/0/groups");
    reader.pull("/bootstrapTokens/0/usages");
}

/// Sections of a ClusterConfiguration, of which `kubeadm config print` writes some empty.
const SECTIONS: [&str; 8] =
    ["apiServer", "controllerManager", "dns", "etcd", "featureGates", "networking", "proxy", "scheduler"];

/// Empty sections that kubeadm knows nothing of: most likely mistyped, and nothing would be left of them to tell.
fn unknown(kind: &str, document: &Value, unused: &mut Vec<String>) {
    let members = document.as_object().filter(|_| kind == "ClusterConfiguration").into_iter().flatten();
    let empty = members.filter(|(name, value)| !SECTIONS.contains(&name.as_str()) && is_empty(value));
    unused.extend(empty.map(|(name, _)| format!("{kind}.{name}")));
}

/// What nobody has taken out of a document, by its path.
fn left(kind: &str, document: &Value, unused: &mut Vec<String>) {
    let Some(members) = document.as_object() else { return };
    for (name, value) in members.iter().filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str())) {
        let field = format!("{kind}.{name}");
        match value {
            Value::Null => {}
            Value::Object(_) => left(&field, value, unused),
            Value::Array(items) if items.iter().all(is_empty) => {}
            _ => unused.push(field),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests;
