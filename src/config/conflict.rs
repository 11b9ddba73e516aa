//! What may change on a cluster that is there, and what needs a new one.

use std::fmt;
use std::net::SocketAddr;

use hoist_phases::spec::{
    ClusterName, ClusterSpec, Cni, Endpoint, EtcdSpec, Family, Networking, NodeKind, NodeSpec, Owner,
    PortMapping, Proxy, Registry, VmSize,
};
use serde_json::{Value, json};

use super::encryption;
use crate::digest;

/// A setting of the running cluster that `up` was asked to change and can't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub field: &'static str,
    pub present: String,
    pub wanted: String,
}

/// A cluster of that name is there with other settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub name: ClusterName,
    pub differences: Vec<Difference>,
}

const KUBERNETES: &str = "kubernetes";

const ENCRYPTION: &str = "apiServer.encryptionConfig";

impl std::error::Error for Conflict {}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster {} exists with other settings", self.name)?;
        self.differences.iter().try_for_each(|Difference { field, present, wanted }| {
            write!(f, "\n- {field}: is {present}, asked for {wanted}")
        })
    }
}

impl Conflict {
    /// The ways out that fit these differences.
    pub fn hints(&self) -> Vec<String> {
        let name = &self.name;
        let mut hints = Vec::new();
        let nodes = |difference: &Difference| difference.field == "nodes";
        let encrypts = |difference: &Difference| difference.field == ENCRYPTION;
        if self.differences.iter().any(nodes) {
            hints.push(format!(
                "`hoist node add --name {name}` and `hoist node remove --name {name}` change the nodes"
            ));
        }
        if self.differences.iter().any(encrypts) {
            hints.push(
                "keep what has written so far among the providers, behind the one that is to write (`- identity: {}` for what is in the clear); once `kubectl get RESOURCE -A -o json | kubectl replace -f -` has written it again, it can go"
                    .to_owned(),
            );
        }
        let version = self.differences.iter().find(|one| one.field == KUBERNETES);
        if let Some(Difference { present, wanted, .. }) = version {
            hints.push(format!(
                "`hoist upgrade --name {name} --kubernetes {wanted}` upgrades the control plane; to leave it as it is, say `kubernetes: {present}` or nothing"
            ));
        }
        let told = |one: &Difference| nodes(one) || encrypts(one) || one.field == KUBERNETES;
        if !self.differences.iter().all(told) {
            hints.push(format!(
                "`hoist down --name {name}` first, or start another cluster with `--name`; without flags `up` takes the settings it was made with"
            ));
        }
        hints
    }
}

/// Finds what can't be changed in place. Arguments and limits of components, extra SANs, the
/// reach, placement, the token and its lifetime can: their phases compare and redo what differs.
///
/// # Errors
/// When anything else differs.
pub fn check(present: &ClusterSpec, wanted: &ClusterSpec) -> Result<(), Conflict> {
    // Taken apart by name, so that a new field has to be thought about.
    let ClusterSpec {
        name,
        owner,
        kubernetes,
        // hoist's own business.
        held: _,
        networking,
        control_plane_endpoint,
        listen_address,
        ports,
        registry,
        proxy,
        mirrors,
        extra_sans: _,
        token: _,
        token_ttl: _,
        etcd,
        api_server,
        scheduler_config: _,
        feature_gates,
        kubelet_config,
        cni,
        kube_proxy,
        kube_proxy_config,
        reach: _,
        placement: _,
        components: _,
        nodes,
        addons: _,
        skip_phases: _,
    } = wanted;
    let mut differences = Vec::new();
    let mut compare = |field, present: String, wanted: String| {
        if present != wanted {
            differences.push(Difference { field, present, wanted });
        }
    };
    compare("owner.attach", owner_name(&present.owner), owner_name(owner));
    compare(KUBERNETES, present.kubernetes.to_string(), kubernetes.to_string());
    let Networking {
        pod_subnet: _,
        service_subnet: _,
        node_mask_size_ipv4: _,
        node_mask_size_ipv6: _,
        dns_domain: _,
        mtu: _,
        // dnsmasq alone reads them.
        dns_records: _,
    } = networking;
    let (before, after) = (&present.networking, networking);
    compare("networking.podSubnet", before.pod_subnet.to_string(), after.pod_subnet.to_string());
    compare("networking.serviceSubnet", before.service_subnet.to_string(), after.service_subnet.to_string());
    for (field, family) in
        [("networking.nodeMaskSizeIpv4", Family::Ipv4), ("networking.nodeMaskSizeIpv6", Family::Ipv6)]
    {
        let size = |networking: &Networking| networking.node_mask_size(family).to_string();
        compare(field, size(before), size(after));
    }
    compare("networking.dnsDomain", before.dns_domain.clone(), after.dns_domain.clone());
    let named =
        |endpoint: &Option<Endpoint>| endpoint.as_ref().map_or("none".to_owned(), Endpoint::to_string);
    let before = named(&present.control_plane_endpoint);
    compare("controlPlaneEndpoint", before, named(control_plane_endpoint));
    let at = |address: &Option<SocketAddr>| address.map_or("loopback".to_owned(), |at| at.to_string());
    compare("listenAddress", at(&present.listen_address), at(listen_address));
    let port = |spec: &ClusterSpec| spec.api_port().to_string();
    compare("apiServer.port", port(present), port(wanted));
    compare("etcd.backend", present.etcd.backend.to_string(), etcd.backend.to_string());
    // Its endpoints and keys may change: they are the API server's alone.
    let prefix = |etcd: &EtcdSpec| etcd.backend.external().map_or("none".to_owned(), |e| e.prefix.clone());
    compare("etcd.external.prefix", prefix(&present.etcd), prefix(etcd));
    compare("ports", port_names(&present.ports), port_names(ports));
    // Nodes know it by its port, which the owner of the namespace publishes.
    let at = |registry: &Option<Registry>| {
        registry.map_or("none".to_owned(), |registry| format!("port {}", registry.port))
    };
    compare("registry", at(&present.registry), at(registry));
    compare("etcd.durable", present.etcd.durable.to_string(), etcd.durable.to_string());
    compare("etcd.tmpfsSize", present.etcd.tmpfs_bytes.to_string(), etcd.tmpfs_bytes.to_string());
    compare("cni", cni_name(&present.cni), cni_name(cni));
    compare("kubeProxy.mode", present.kube_proxy.as_str().to_owned(), kube_proxy.as_str().to_owned());
    // What nodes have read when they joined stays with them.
    let json = |value: Value| value.to_string();
    compare("featureGates", json(json!(present.feature_gates)), json(json!(feature_gates)));
    compare("images.mirrors", json(json!(present.mirrors)), json(json!(mirrors)));
    let same = present.proxy.shown() == proxy.shown() && present.proxy != *proxy;
    let other = if same { ", with another user or password" } else { "" };
    compare("proxy", proxy_name(&present.proxy), proxy_name(proxy) + other);
    compare("kubelet.config", json(json!(present.kubelet_config)), json(json!(kubelet_config)));
    compare("kubeProxy.config", json(json!(present.kube_proxy_config)), json(json!(kube_proxy_config)));
    let mtu =
        |networking: &Networking| networking.mtu.map_or("the engine's".to_owned(), |mtu| mtu.to_string());
    compare("networking.mtu", mtu(&present.networking), mtu(networking));
    // What it says may change, as long as it reads what etcd holds.
    let (before, after) = (&present.api_server.encryption_config, &api_server.encryption_config);
    let lost = encryption::unreadable(before.as_ref(), after.as_ref());
    let lost: Vec<_> = lost.iter().map(ToString::to_string).collect();
    if !lost.is_empty() {
        compare(ENCRYPTION, lost.join(", "), "providers that can't read that".to_owned());
    }
    compare("nodes", node_names(&present.nodes), node_names(nodes));
    if differences.is_empty() { Ok(()) } else { Err(Conflict { name: name.clone(), differences }) }
}

fn port_names(ports: &[PortMapping]) -> String {
    let names: Vec<_> = ports.iter().map(|mapping| format!("{} to {mapping}", mapping.host)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn proxy_name(proxy: &Proxy) -> String {
    let said = proxy.shown().into_iter().filter(|(_, value)| !value.is_empty());
    let said: Vec<_> = said.map(|(field, value)| format!("{field} {value}")).collect();
    if said.is_empty() { "none".to_owned() } else { said.join(", ") }
}

fn owner_name(owner: &Owner) -> String {
    owner.attach().map_or_else(|| "nothing".to_owned(), |attach| attach.container.clone())
}

fn cni_name(cni: &Cni) -> String {
    match cni {
        Cni::KubeRouter => "kube-router".to_owned(),
        Cni::None => "none".to_owned(),
        // The digest tells an edited file from the one before.
        Cni::Manifest { origin, yaml } => {
            let mut digest = digest::of_bytes(yaml.as_bytes());
            digest.truncate(12);
            format!("{origin} (sha256 {digest}…)")
        }
    }
}

fn node_names(nodes: &[NodeSpec]) -> String {
    let size = |node: &NodeSpec| match node.kind {
        NodeKind::Container => String::new(),
        NodeKind::Vm(VmSize { cpus, memory_mib, disk_gib }) => {
            format!(", cpus {cpus}, memory {memory_mib}Mi, disk {disk_gib}Gi")
        }
    };
    let made = |node: &NodeSpec| {
        let image = node.image.as_ref().map(|image| format!(" of {image}"));
        let labels = node.labels.iter().map(|(key, value)| format!(" {key}={value}"));
        let taints =
            node.taints.iter().map(|taint| format!(" {}={}:{}", taint.key, taint.value, taint.effect));
        image.into_iter().chain(labels).chain(taints).collect::<String>()
    };
    let names =
        nodes.iter().map(|node| format!("{} ({}{}{})", node.name(), node.kind, made(node), size(node)));
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
