//! What hoist leaves in the cluster, compared with what the real `kubeadm init` phases lay down in
//! the same cluster for the same settings. docs/kubeadm-differences.md is the list of what may
//! differ: a difference it doesn't name fails the test, and so does a row that is no difference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use hoist::cluster::kube::Connector;
use hoist::runtime::Engine;
use hoist_phases::object::{HASH_ANNOTATION, MANAGED_BY, ObjectRef};
use hoist_phases::ports::{
    ContainerSpec, FileEntry, KubeApi, KubeConnect, Mount, MountKind, Network, Runtime, label,
};
use hoist_phases::spec::Family;
use hoist_phases::spec::networking::API_PORT;
use serde_json::{Value, json};

use crate::support::{Hoist, block, engine};

const TOKEN: &str = "abcdef.0123456789abcdef";
const NODE_IMAGE: &str = "localhost/hoist/node:v1.36.3";

/// Every kind of object that kubeadm or hoist lays down.
const KINDS: [(&str, &str); 12] = [
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("policy/v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
];

type Objects = BTreeMap<String, (ObjectRef, Value)>;

/// What a cluster's addresses are.
struct Addresses {
    control_plane: IpAddr,
    pods: &'static str,
    services: &'static str,
}

#[test]
fn objects_are_kubeadms_but_for_what_is_documented() {
    let (pods, services) = ("10.244.0.0/16", "10.96.0.0/12");
    objects_are_kubeadms("ipv4", Addresses { control_plane: Family::Ipv4.control_plane(), pods, services });
}

#[test]
fn objects_of_an_ipv6_cluster_are_kubeadms_too() {
    let (pods, services) = ("fd10:244::/56", "fd10:96::/112");
    objects_are_kubeadms("ipv6", Addresses { control_plane: Family::Ipv6.control_plane(), pods, services });
}

fn objects_are_kubeadms(family: &str, addresses: Addresses) {
    let hoist = Hoist::new(&format!("parity-{family}"));
    hoist.ok(&["up", "--nodes", "0", "--wait", "api", "--token", TOKEN, "--ip-family", family]);
    let differences = block(compare(&hoist.name, &hoist.state(), engine(), &addresses));
    hoist.ok(&["down"]);
    assert_documented(&differences);
}

async fn compare(
    name: &str,
    state: &Path,
    engine: &Engine,
    addresses: &Addresses,
) -> BTreeSet<(String, String)> {
    let kubeconfig = std::fs::read_to_string(state.join("kubeconfig-super-admin")).unwrap();
    let api = Connector.connect(&kubeconfig).await.unwrap();

    let ours = objects(&api, |_, object| object["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1).await;
    // kubeadm updates what it finds: out of the way with hoist's, so that nothing of it remains.
    for (reference, _) in ours.values() {
        api.delete(reference).await.unwrap();
    }
    run_kubeadm(engine, name, &kubeconfig, addresses).await;
    // A ServiceAccount has no field of its own that could be said to be managed.
    let written_by_kubeadm = |reference: &ObjectRef, object: &Value| {
        let fields = object["metadata"]["managedFields"].as_array();
        let by_kubeadm =
            fields.is_some_and(|fields| fields.iter().any(|field| field["manager"] == "kubeadm"));
        by_kubeadm || ours.contains_key(&reference.to_string())
    };
    let theirs = objects(&api, written_by_kubeadm).await;
    assert!(theirs.len() > 20, "kubeadm laid down only {:?}", theirs.keys());
    differences(&ours, &theirs)
}

async fn objects(api: &Arc<dyn KubeApi>, wanted: impl Fn(&ObjectRef, &Value) -> bool) -> Objects {
    let mut objects = Objects::new();
    for (api_version, kind) in KINDS {
        for object in api.list(api_version, kind, None).await.unwrap() {
            let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
            let reference = ObjectRef {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: text("namespace"),
                name: text("name").unwrap(),
            };
            if wanted(&reference, &object) {
                objects.insert(reference.to_string(), (reference, normalised(object)));
            }
        }
    }
    objects
}

/// The real kubeadm of the node image, in the cluster's own network namespace.
async fn run_kubeadm(engine: &Engine, cluster: &str, kubeconfig: &str, addresses: &Addresses) {
    let owner = format!("hoist-{cluster}-owner");
    let mut spec =
        ContainerSpec::new(format!("hoist-{cluster}-kubeadm"), NODE_IMAGE, Network::Container(owner));
    spec.entrypoint = vec!["/bin/sleep".to_owned(), "600".to_owned()];
    spec.labels.insert(label::CLUSTER.to_owned(), cluster.to_owned());
    spec.mounts.push(Mount { target: "/work".to_owned(), kind: MountKind::Anonymous });
    let mut kubeconfig: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] =
        json!(format!("https://{}", SocketAddr::new(addresses.control_plane, API_PORT)));
    for (path, text) in [("config", kubeadm_config(addresses)), ("kubeconfig", kubeconfig.to_string())] {
        spec.files.push(FileEntry { path: format!("/work/{path}"), mode: 0o600, content: text.into_bytes() });
    }
    engine.create(&spec).await.unwrap();
    engine.start(&spec.name).await.unwrap();
    for phase in ["upload-config all", "bootstrap-token", "addon all"] {
        let line =
            format!("kubeadm init phase {phase} --config /work/config --kubeconfig /work/kubeconfig 2>&1");
        let output = engine.exec(&spec.name, &["/bin/sh", "-c", &line], &[]).await.unwrap();
        assert_eq!(output.code, 0, "{line}\n{}", output.stdout);
    }
    engine.remove(&spec.name).await.unwrap();
}

/// The settings of a hoist cluster that is default but for its addresses, in kubeadm's words.
fn kubeadm_config(Addresses { control_plane, pods, services }: &Addresses) -> String {
    let documents = [
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "localAPIEndpoint": { "advertiseAddress": control_plane, "bindPort": API_PORT },
            "nodeRegistration": { "name": "cp", "criSocket": "unix:///run/containerd/containerd.sock" },
            "bootstrapTokens": [{ "token": TOKEN, "ttl": "24h" }],
        }),
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": "v1.36.3",
            "encryptionAlgorithm": "ECDSA-P256",
            "networking": { "podSubnet": pods, "serviceSubnet": services },
        }),
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
        }),
    ];
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}

/// Without what the server, time or the writer's own mark put there, and with configurations that
/// are kept as text opened.
fn normalised(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["creationTimestamp", "resourceVersion", "uid", "generation", "managedFields"] {
        metadata.remove(field);
    }
    for map in ["labels", "annotations"] {
        let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) else { continue };
        entries.retain(|key, _| {
            key != MANAGED_BY.0
                && key != HASH_ANNOTATION
                && key != "deprecated.daemonset.template.generation"
                && key != "deployment.kubernetes.io/revision"
        });
        if entries.is_empty() {
            metadata.remove(map);
        }
    }
    let secret = object["kind"] == "Secret";
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        // The signature comes from the bootstrapsigner in kubeadm's case, a moment later.
        data.retain(|key, _| !(key.starts_with("jws-kubeconfig-") || secret && key == "expiration"));
        for value in data.values_mut() {
            let opened = serde_saphyr::from_str::<Value>(value.as_str().unwrap_or_default());
            if let Some(opened) = opened.ok().filter(Value::is_object) {
                *value = opened;
            }
        }
    }
    object
}

fn differences(ours: &Objects, theirs: &Objects) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for name in ours.keys().chain(theirs.keys()) {
        let (Some((_, hoist)), Some((_, kubeadm))) = (ours.get(name), theirs.get(name)) else {
            found.insert((name.clone(), "all of it".to_owned()));
            continue;
        };
        let (hoist, kubeadm) = (leaves(hoist), leaves(kubeadm));
        for path in hoist.keys().chain(kubeadm.keys()) {
            let (wanted, have) = (kubeadm.get(path), hoist.get(path));
            // kubeadm writes out every field of its configurations, unset ones as their zero value.
            let unset = have.is_none() && wanted.is_some_and(is_zero);
            if wanted != have && !unset {
                found.insert((name.clone(), path.clone()));
            }
        }
    }
    found
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => matches!(value.as_str(), "" | "0" | "0s"),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Every scalar by its path; list items go by their name where they have one.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn walk(path: String, value: &Value, into: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (key, value) in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    walk(format!("{path}{dot}{key}"), value, into);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    let name = item["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
                    walk(format!("{path}[{name}]"), item, into);
                }
            }
            leaf => {
                into.insert(path, leaf.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(String::new(), value, &mut found);
    found
}

/// Compares with the rows `| object | field | … |` of the document.
fn assert_documented(differences: &BTreeSet<(String, String)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kubeadm-differences.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<(String, String)> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).skip(1);
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    let covers = |(object, field): &(String, String), (name, path): &(String, String)| {
        let rest = path.strip_prefix(field.as_str());
        object == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let unnamed: Vec<_> =
        differences.iter().filter(|found| !rows.iter().any(|row| covers(row, found))).collect();
    let stale: Vec<_> =
        rows.iter().filter(|row| !differences.iter().any(|found| covers(row, found))).collect();
    assert!(unnamed.is_empty(), "not in docs/kubeadm-differences.md: {unnamed:#?}");
    assert!(stale.is_empty(), "in docs/kubeadm-differences.md, but no difference: {stale:#?}");
}
