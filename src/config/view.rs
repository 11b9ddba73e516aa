//! Settings written as a configuration file again, complete, each value with its origin.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use hoist_phases::spec::{
    Addon, ApiServerSpec, AuditSpec, Backend, ClusterSpec, Cni, ComponentSpec, EtcdSpec, ExternalEtcd,
    NodeKind, NodeSpec, Placement, RoleNodes, RoleRule, Spread, VmSize,
};
use serde_json::{Map, Value};

use super::document::drop_nulls;
use super::file::{
    API_VERSION, AddonFile, ApiServerFile, AuditFile, CaFile, ClusterFile, ComponentFile, EtcdFile,
    ExternalEtcdFile, ImagesFile, KIND, KubeProxyFile, KubeletFile, NetworkingFile, NodeGroup, OwnerFile,
    PlacementFile, RoleFile, SchedulerFile, SpreadFile,
};
use super::origin::{Origin, Origins};
use super::{Settings, networking, schema};
use crate::digest;

/// One value of the settings.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Line {
    /// Its path in the configuration file.
    pub field: String,
    pub value: Value,
    pub origin: String,
}

/// The settings as a configuration file that gives the same, with each value's origin as a
/// comment. `unsaid` is whose the values are that nobody has said.
pub fn yaml(settings: &Settings, unsaid: &Origin) -> String {
    let mut text = String::new();
    let shown = Shown { origins: &settings.origins, unsaid };
    shown.write(&mut text, "", &value(settings), 0);
    text
}

/// The same in rows.
pub fn lines(settings: &Settings, unsaid: &Origin) -> Vec<Line> {
    let mut lines = Vec::new();
    let shown = Shown { origins: &settings.origins, unsaid };
    shown.rows(&mut lines, "", value(settings));
    lines
}

/// What a file begins with.
const HEADER: [&str; 3] = ["apiVersion", "kind", "name"];

struct Shown<'a> {
    origins: &'a Origins,
    unsaid: &'a Origin,
}

impl Shown<'_> {
    fn origin(&self, field: &str) -> String {
        match field {
            "apiVersion" | "kind" => String::new(),
            _ => self.origins.of(field).unwrap_or(self.unsaid).to_string(),
        }
    }

    fn write(&self, text: &mut String, parent: &str, members: &Map<String, Value>, depth: usize) {
        // What the file is comes first.
        let mut members: Vec<_> = members.iter().collect();
        members
            .sort_by_key(|(name, _)| HEADER.iter().position(|header| header == name).unwrap_or(HEADER.len()));
        for (name, value) in members {
            let field = schema::member(parent, name);
            let indent = "  ".repeat(depth);
            match value {
                Value::Object(members) if !members.is_empty() => {
                    let _ = writeln!(text, "{indent}{name}:");
                    self.write(text, &field, members, depth + 1);
                }
                value => {
                    let _ = write!(text, "{indent}{name}: {}", flow(value));
                    let origin = self.origin(&field);
                    let comment = if origin.is_empty() { origin } else { format!("  # {origin}") };
                    let _ = writeln!(text, "{comment}");
                }
            }
        }
    }

    fn rows(&self, lines: &mut Vec<Line>, parent: &str, members: Map<String, Value>) {
        for (name, value) in members {
            let field = schema::member(parent, &name);
            match value {
                Value::Object(members) if !members.is_empty() => self.rows(lines, &field, members),
                value => lines.push(Line { origin: self.origin(&field), field, value }),
            }
        }
    }
}

/// In one line: text without quotes where it is still text, the rest as JSON, which is YAML too.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if serde_saphyr::from_str(text).is_ok_and(|read: Value| read == *value) => {
            text.clone()
        }
        value => value.to_string(),
    }
}

fn value(settings: &Settings) -> Map<String, Value> {
    let mut value = serde_json::to_value(file(settings)).unwrap_or_default();
    drop_nulls(&mut value);
    let Value::Object(mut members) = value else { return Map::new() };
    // There null says something.
    let spec = &settings.spec;
    for (component, config) in [("kubelet", &spec.kubelet_config), ("kubeProxy", &spec.kube_proxy_config)] {
        if let Some(Value::Object(component)) = members.get_mut(component) {
            component.insert("config".to_owned(), Value::Object(config.clone()));
        }
    }
    members.retain(|_, value| value.as_object().is_none_or(|members| !members.is_empty()));
    members
}

fn record((name, addresses): (&String, &Vec<IpAddr>)) -> (String, Vec<String>) {
    (name.clone(), addresses.iter().map(IpAddr::to_string).collect())
}

/// The file that says all of this, but for what is secret: the token, which `hoist join-command` has,
/// what encrypts etcd's data, the keys to an etcd elsewhere, and users of proxies with their passwords.
pub fn file(settings: &Settings) -> ClusterFile {
    let Settings {
        spec,
        origins: _,
        notes: _,
        ca: _,
        disks: _,
        skip: _,
        wait,
        timeout,
        retain,
        progress,
        profile,
        export_on_failure,
    } = settings;
    let ClusterSpec {
        name,
        owner,
        kubernetes,
        // Nobody sets it.
        held: _,
        networking,
        control_plane_endpoint,
        listen_address,
        ports,
        registry,
        proxy,
        mirrors,
        extra_sans,
        token: _,
        token_ttl,
        etcd,
        api_server,
        scheduler_config,
        feature_gates,
        kubelet_config,
        cni,
        kube_proxy,
        kube_proxy_config,
        reach,
        placement,
        components,
        nodes,
        addons,
        skip_phases,
    } = spec;
    ClusterFile {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        name: Some(name.to_string()),
        kubernetes: Some(kubernetes.to_string()),
        kubeadm_config: None,
        owner: OwnerFile { attach: owner.attach().map(|attach| attach.container.clone()) },
        networking: NetworkingFile {
            ip_family: Some(networking::family_of(&networking.pod_subnet).to_owned()),
            pod_subnet: Some(networking.pod_subnet.to_string()),
            service_subnet: Some(networking.service_subnet.to_string()),
            node_mask_size_ipv4: Some(networking.node_mask_size_ipv4),
            node_mask_size_ipv6: Some(networking.node_mask_size_ipv6),
            dns_domain: Some(networking.dns_domain.clone()),
            mtu: networking.mtu,
            dns_records: Some(networking.dns_records.iter().map(record).collect()),
        },
        control_plane_endpoint: control_plane_endpoint.as_ref().map(ToString::to_string),
        listen_address: listen_address.map(|address| address.to_string()),
        ports: Some(ports.iter().map(super::ports::file).collect()),
        registry: super::registry::file(*registry),
        images: ImagesFile { mirrors: Some(mirrors.clone()) },
        proxy: super::proxy::file(proxy),
        extra_sans: Some(extra_sans.clone()),
        ca: CaFile::default(),
        token: None,
        token_ttl: Some(duration(Duration::from_secs(token_ttl.0))),
        etcd: etcd_file(etcd),
        api_server: api_server_file(api_server),
        scheduler: SchedulerFile { config: scheduler_config.clone() },
        feature_gates: Some(feature_gates.clone()),
        kubelet: KubeletFile { config: Some(kubelet_config.clone()) },
        cni: Some(cni_text(cni)),
        kube_proxy: KubeProxyFile {
            mode: Some(kube_proxy.as_str().to_owned()),
            config: Some(kube_proxy_config.clone()),
        },
        reach: Some(reach.as_str().to_owned()),
        components: components.iter().map(component).collect(),
        nodes: Some(groups(nodes)),
        addons: Some(addons.iter().map(addon).collect()),
        placement: placement_file(placement),
        skip_phases: Some(skip_phases.iter().map(|phase| phase.name().to_owned()).collect()),
        wait: Some(wait.to_string()),
        timeout: Some(duration(*timeout)),
        retain: Some(*retain),
        progress: Some(*progress),
        profile: profile.clone(),
        export_on_failure: export_on_failure.clone(),
    }
}

fn etcd_file(spec: &EtcdSpec) -> EtcdFile {
    let EtcdSpec { backend, durable, fsync, tmpfs_bytes, quota_bytes } = spec;
    if let Backend::External(ExternalEtcd { endpoints, prefix, ca: _, cert: _, key: _ }) = backend {
        let (endpoints, prefix) = (Some(endpoints.clone()), Some(prefix.clone()));
        let external = ExternalEtcdFile { endpoints, prefix, ..ExternalEtcdFile::default() };
        return EtcdFile { external, ..EtcdFile::default() };
    }
    EtcdFile {
        backend: Some(backend.name().to_owned()),
        external: ExternalEtcdFile::default(),
        durable: Some(*durable),
        fsync: *fsync,
        tmpfs_size: Some(bytes(*tmpfs_bytes)),
        quota: (*backend == Backend::Etcd).then(|| bytes(*quota_bytes)),
    }
}

fn api_server_file(spec: &ApiServerSpec) -> ApiServerFile {
    let ApiServerSpec {
        port,
        admission_plugins,
        admission_config,
        audit,
        authentication_config,
        encryption_config: _,
        runtime_config,
    } = spec;
    let audit = audit.as_ref().map(|AuditSpec { policy, log_max_size_mib, log_max_backups }| AuditFile {
        policy: policy.clone(),
        log_max_size: Some(format!("{log_max_size_mib}Mi")),
        log_max_backups: Some(*log_max_backups),
    });
    ApiServerFile {
        port: Some(*port),
        admission_plugins: Some(admission_plugins.clone()),
        admission_config: admission_config.clone(),
        pod_security: None,
        audit,
        authentication_config: authentication_config.clone(),
        oidc: None,
        encryption_config: None,
        runtime_config: Some(runtime_config.clone()),
    }
}

fn cni_text(cni: &Cni) -> String {
    match cni {
        Cni::KubeRouter => "kube-router".to_owned(),
        Cni::None => "none".to_owned(),
        Cni::Manifest { origin, yaml } => manifest(origin, yaml),
    }
}

fn addon(Addon { origin, yaml, wait }: &Addon) -> AddonFile {
    AddonFile { manifest: manifest(origin, yaml), wait: Some(*wait) }
}

/// A manifest by what it was read from.
fn manifest(origin: &str, yaml: &str) -> String {
    if !origin.contains("://") {
        return origin.to_owned();
    }
    format!("{origin}#sha256={}", digest::of_bytes(yaml.as_bytes()))
}

fn component(spec: &ComponentSpec) -> (String, ComponentFile) {
    let ComponentSpec { component, extra_args, memory_bytes, cpu_millis } = spec;
    let cpus = match cpu_millis % 1000 {
        0 => (cpu_millis / 1000).to_string(),
        _ => format!("{cpu_millis}m"),
    };
    let file = ComponentFile {
        extra_args: extra_args.clone(),
        memory: Some(bytes(*memory_bytes)),
        cpus: Some(cpus),
    };
    (component.name().to_owned(), file)
}

/// Neighbours that are alike make a group.
fn groups(nodes: &[NodeSpec]) -> Vec<NodeGroup> {
    let made = |node: &NodeSpec| (node.kind, node.image.clone(), node.labels.clone(), node.taints.clone());
    let alike = |a: &NodeSpec, b: &NodeSpec| made(a) == made(b);
    let group = |nodes: &[NodeSpec]| {
        let first = nodes.first()?;
        let size = match first.kind {
            NodeKind::Container => None,
            NodeKind::Vm(size) => Some(size),
        };
        Some(NodeGroup {
            kind: Some(first.kind.name().to_owned()),
            count: u32::try_from(nodes.len()).ok(),
            cpus: size.map(|VmSize { cpus, .. }| cpus),
            memory: size.map(|VmSize { memory_mib, .. }| bytes(u64::from(memory_mib) << 20)),
            disk: size.map(|VmSize { disk_gib, .. }| bytes(u64::from(disk_gib) << 30)),
            image: first.image.clone(),
            labels: (!first.labels.is_empty()).then(|| first.labels.clone()),
            taints: (!first.taints.is_empty()).then(|| first.taints.clone()),
        })
    };
    nodes.chunk_by(alike).filter_map(group).collect()
}

fn placement_file(placement: &Placement) -> PlacementFile {
    let Placement { roles, spread: Spread { enabled, namespaces, labels }, policy } = placement;
    let role = |RoleRule { role, nodes, taint }: &RoleRule| {
        let (mut names, mut count, mut selector) = (None, None, None);
        match nodes {
            RoleNodes::All => {}
            RoleNodes::Named(nodes) => names = Some(nodes.iter().cloned().collect()),
            RoleNodes::Count(number) => count = Some(*number),
            RoleNodes::Selected(labels) => selector = Some(labels.clone()),
        }
        RoleFile { role: role.clone(), nodes: names, count, selector, taint: Some(*taint) }
    };
    PlacementFile {
        policy: policy.clone(),
        roles: Some(roles.iter().map(role).collect()),
        spread: SpreadFile {
            enabled: Some(*enabled),
            namespaces: Some(namespaces.clone()),
            labels: Some(BTreeMap::clone(labels)),
        },
    }
}

/// With the largest unit that leaves a whole number.
fn bytes(bytes: u64) -> String {
    let units = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let fits = |shift: u32| bytes > 0 && bytes.trailing_zeros() >= shift;
    let unit = units.into_iter().find(|(_, shift)| fits(*shift));
    unit.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        0 => "0".to_owned(),
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}
