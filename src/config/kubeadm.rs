//! kubeadm's own configuration as input (kubeadm.k8s.io/v1beta3 and v1beta4): what means something
//! here becomes fields of the configuration file, below those that it and flags say; the rest is
//! named, with the reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

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
        "kubeadmConfig {path:?}: apiVersion {found:?} is not known; kubeadm.k8s.io/v1beta3 and v1beta4 are"
    )]
    Version { path: PathBuf, found: String },
    #[error("kubeadmConfig {0:?}: holds no document of kubeadm's; a ClusterConfiguration is looked for")]
    Nothing(PathBuf),
}

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
    ("ClusterConfiguration.etcd.external", "hoist runs etcd itself"),
    ("ClusterConfiguration.etcd.local.dataDir", "etcd's data is in memory, or in a volume with etcd.durable"),
    (
        "ClusterConfiguration.featureGates",
        "these are of kubeadm init; those of components are `featureGates`",
    ),
    ("ClusterConfiguration.imageRepository", "images come from `hoist images`"),
    ("InitConfiguration.certificateKey", "there is one control plane"),
    (
        "InitConfiguration.localAPIEndpoint",
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

struct Carried {
    /// As in the configuration file.
    fields: Value,
    unused: Vec<String>,
}

fn carry(path: &Path, text: &str) -> Result<Carried, KubeadmError> {
    let parse = |message: String| KubeadmError::Parse { path: path.to_owned(), message };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| parse(error.without_snippet().to_string()))?;
    let mut fields = json!({});
    let mut unused = Vec::new();
    let mut known = 0_usize;
    for mut document in documents {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        let version = document["apiVersion"].as_str().unwrap_or_default().to_owned();
        if version.starts_with("kubeadm.k8s.io/")
            && !version.ends_with("v1beta3")
            && !version.ends_with("v1beta4")
        {
            return Err(KubeadmError::Version { path: path.to_owned(), found: version });
        }
        let mut reader = Reader { document: &mut document, fields: &mut fields };
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
    if let Some(Value::String(ttl)) = reader.pull("/bootstrapTokens/0/ttl") {
        reader.put(&["tokenTtl"], json!(ttl));
    }
    // Groups and usages are what kubeadm gives by itself.
    reader.pull("/bootstrapTokens/0/groups");
    reader.pull("/bootstrapTokens/0/usages");
}

struct Reader<'a> {
    document: &'a mut Value,
    fields: &'a mut Value,
}

impl Reader<'_> {
    /// Takes a value out of the document, so that it is not named as unused.
    fn pull(&mut self, pointer: &str) -> Option<Value> {
        let (parent, name) = pointer.rsplit_once('/')?;
        self.document.pointer_mut(parent)?.as_object_mut()?.remove(name).filter(|value| !value.is_null())
    }

    fn put(&mut self, field: &[&str], value: Value) {
        *place(self.fields, field) = value;
    }

    fn take(&mut self, pointer: &str, field: &[&str]) {
        if let Some(value) = self.pull(pointer) {
            self.put(field, value);
        }
    }

    /// Arguments: a mapping in v1beta3, a list of names and values in v1beta4. Files that flags name
    /// are not in hoist's containers.
    fn args(&mut self, pointer: &str, component: &str) {
        let Some(args) = self.pull(pointer) else { return };
        let pairs: Vec<(String, String)> = match args {
            Value::Object(args) => args.into_iter().map(|(name, value)| (name, scalar(&value))).collect(),
            Value::Array(args) => args
                .iter()
                .map(|arg| (arg["name"].as_str().unwrap_or_default().to_owned(), scalar(&arg["value"])))
                .collect(),
            _ => Vec::new(),
        };
        let mut files = Map::new();
        let mut seen = BTreeSet::new();
        for (name, value) in pairs {
            // hoist has each flag once: the first is kept.
            let again = !seen.insert(name.clone());
            match (component, name.as_str()) {
                _ if again => {
                    files.insert(format!("{name} ({value})"), value.into());
                }
                _ if value.starts_with('/') => {
                    files.insert(name, value.into());
                }
                ("kube-controller-manager", "node-cidr-mask-size-ipv4") => {
                    self.number("nodeMaskSizeIpv4", &value)
                }
                ("kube-controller-manager", "node-cidr-mask-size-ipv6") => {
                    self.number("nodeMaskSizeIpv6", &value)
                }
                ("kube-apiserver", "enable-admission-plugins") => {
                    let plugins: Vec<_> = value.split(',').filter(|plugin| !plugin.is_empty()).collect();
                    self.put(&["apiServer", "admissionPlugins"], json!(plugins));
                }
                _ => self.put(&["components", component, "extraArgs", &name], value.into()),
            }
        }
        if let (false, Some((parent, name))) = (files.is_empty(), pointer.rsplit_once('/'))
            && let Some(parent) = self.document.pointer_mut(parent).and_then(Value::as_object_mut)
        {
            parent.insert(name.to_owned(), Value::Object(files));
        }
    }

    fn number(&mut self, field: &str, text: &str) {
        let value = text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
        self.put(&["networking", field], value);
    }

    /// All that is left becomes the fields of a component's configuration, but for hoist's own.
    fn rest(&mut self, component: &str, own: &[(&[&str], &str)]) {
        let mut kept = json!({});
        for (path, _) in own {
            if let Some(value) = self.pull(&format!("/{}", path.join("/"))) {
                *place(&mut kept, path) = value;
            }
        }
        let mut config = std::mem::replace(self.document, kept);
        drop_nulls(&mut config);
        if let Some(fields) = config.as_object_mut() {
            fields.retain(|name, _| !["apiVersion", "kind"].contains(&name.as_str()));
        }
        self.put(&[component, "config"], config);
    }
}

/// Where a field is, with what it is part of made on the way.
fn place<'a>(within: &'a mut Value, field: &[&str]) -> &'a mut Value {
    field.iter().fold(within, |place, name| &mut place[*name])
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
mod tests {
    use super::*;

    const V4: &str = "
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- {token: abcdef.1234567890123456, ttl: 24h0m0s, usages: [signing], groups: [g]}
localAPIEndpoint: {advertiseAddress: 10.0.0.1}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
certificatesDir: /etc/kubernetes/pki
networking: {podSubnet: 10.1.0.0/16, serviceSubnet: 10.2.0.0/16, dnsDomain: a.example}
apiServer:
  certSANs: [api.example]
  extraArgs:
  - {name: v, value: '2'}
  - {name: v, value: '3'}
  - {name: audit-policy-file, value: /etc/audit.yaml}
  - {name: enable-admission-plugins, value: 'NodeRestriction,ResourceQuota'}
  extraVolumes: [{name: audit, hostPath: /etc}]
controllerManager: {extraArgs: [{name: node-cidr-mask-size-ipv4, value: '20'}]}
proxy: {disabled: true}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 50
clusterDNS: [10.96.0.10]
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
conntrack: {maxPerCore: 0}
";

    #[test]
    fn what_means_something_is_carried_over_and_the_rest_named() -> Result<(), KubeadmError> {
        let Carried { fields, unused } = carry(Path::new("k.yaml"), V4)?;
        let wanted = json!({
            "kubernetes": "v1.36.3",
            "token": "abcdef.1234567890123456",
            "tokenTtl": "24h0m0s",
            "extraSans": ["api.example"],
            "networking": {
                "podSubnet": "10.1.0.0/16", "serviceSubnet": "10.2.0.0/16", "dnsDomain": "a.example",
                "nodeMaskSizeIpv4": 20,
            },
            "apiServer": { "admissionPlugins": ["NodeRestriction", "ResourceQuota"] },
            "components": { "kube-apiserver": { "extraArgs": { "v": "2" } } },
            "skipPhases": ["kube-proxy"],
            "kubelet": { "config": { "maxPods": 50 } },
            "kubeProxy": { "mode": "iptables", "config": { "conntrack": { "maxPerCore": 0 } } },
        });
        assert_eq!(fields, wanted);
        assert_eq!(
            unused,
            [
                "InitConfiguration.localAPIEndpoint.advertiseAddress",
                "ClusterConfiguration.apiServer.extraArgs.audit-policy-file",
                "ClusterConfiguration.apiServer.extraArgs.v (3)",
                "ClusterConfiguration.apiServer.extraVolumes",
                "ClusterConfiguration.certificatesDir",
                "KubeletConfiguration.clusterDNS",
            ]
        );
        let line = told("k.yaml", "ClusterConfiguration.certificatesDir");
        assert!(
            line.starts_with("k.yaml: ClusterConfiguration.certificatesDir has no meaning here: keys"),
            "{line}"
        );
        Ok(())
    }

    #[test]
    fn v1beta3_has_its_arguments_in_a_mapping() -> Result<(), KubeadmError> {
        let text = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nscheduler: {extraArgs: {v: 4}}\n";
        let fields = carry(Path::new("k.yaml"), text)?.fields;
        assert_eq!(fields, json!({"components": {"kube-scheduler": {"extraArgs": {"v": "4"}}}}));
        Ok(())
    }

    #[test]
    fn what_is_none_of_kubeadms_is_refused() {
        let error = |text: &str| {
            carry(Path::new("k.yaml"), text).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(error("kind: Pod\n").contains("holds no document of kubeadm's"));
        let old = "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\n";
        assert!(error(old).contains("v1beta2"), "{}", error(old));
        assert!(error("a: [").starts_with("kubeadmConfig"));
    }
}
