//! Flags over the file: the one place where it is decided who wins. Every flag is taken apart by
//! name, so that one nobody reads does not compile.

use super::document::Document;
use super::nodes::{NodeFlags, SizeFlags};
use super::origin::{Origin, Origins};
use super::{mirrors, ports};
use crate::cli::args::{NodeSizeArgs, UpArgs};

/// Puts what flags say into the file's fields, each of which they win over. What they say about
/// nodes is given back: it goes for all groups of the file.
pub(super) fn over(args: UpArgs, document: &mut Document) -> NodeFlags {
    let UpArgs {
        config: _,
        kubeadm_config,
        attach,
        nodes: count,
        node_kind: kind,
        node_image: image,
        size: NodeSizeArgs { cpus, memory, disk },
        kubernetes,
        cni,
        ip_family,
        pod_subnet,
        service_subnet,
        node_mask_size_ipv4,
        node_mask_size_ipv6,
        dns_domain,
        token,
        token_ttl,
        control_plane_endpoint,
        listen,
        port,
        registry,
        registry_port,
        mirror,
        http_proxy,
        https_proxy,
        no_proxy,
        extra_san,
        ca_cert,
        ca_key,
        durable_etcd,
        etcd_backend,
        etcd_endpoint,
        etcd_prefix,
        etcd_ca,
        etcd_cert,
        etcd_key,
        kube_proxy_mode,
        reach,
        no_roles,
        no_spread,
        skip_phase,
        wait,
        timeout,
        retain,
        progress,
        profile,
        export_on_failure,
    } = args;
    let Document { file, origins, .. } = document;
    let listed = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let network = &mut file.networking;
    let mut layer = Layer(origins);
    layer.put(&mut file.kubeadm_config, kubeadm_config, "kubeadmConfig", "--kubeadm-config");
    layer.put(&mut file.owner.attach, attach, "owner.attach", "--attach");
    layer.put(&mut file.kubernetes, kubernetes, "kubernetes", "--kubernetes");
    layer.put(&mut file.cni, cni, "cni", "--cni");
    layer.put(&mut network.ip_family, ip_family, "networking.ipFamily", "--ip-family");
    layer.put(&mut network.pod_subnet, pod_subnet, "networking.podSubnet", "--pod-subnet");
    layer.put(&mut network.service_subnet, service_subnet, "networking.serviceSubnet", "--service-subnet");
    for (field, size, name, flag) in [
        (
            &mut network.node_mask_size_ipv4,
            node_mask_size_ipv4,
            "networking.nodeMaskSizeIpv4",
            "--node-mask-size-ipv4",
        ),
        (
            &mut network.node_mask_size_ipv6,
            node_mask_size_ipv6,
            "networking.nodeMaskSizeIpv6",
            "--node-mask-size-ipv6",
        ),
    ] {
        layer.put(field, size, name, flag);
    }
    layer.put(&mut network.dns_domain, dns_domain, "networking.dnsDomain", "--dns-domain");
    layer.put(&mut file.token, token, "token", "--token");
    layer.put(&mut file.token_ttl, token_ttl, "tokenTtl", "--token-ttl");
    let endpoint = &mut file.control_plane_endpoint;
    layer.put(endpoint, control_plane_endpoint, "controlPlaneEndpoint", "--control-plane-endpoint");
    layer.put(&mut file.listen_address, listen, "listenAddress", "--listen");
    // Lists are replaced as a whole.
    let ports = listed(port).map(|ports| ports.iter().map(|text| ports::from_flag(text)).collect());
    layer.put(&mut file.ports, ports, "ports", "--port");
    let own = &mut file.registry;
    layer.put(&mut own.enabled, registry.then_some(true), "registry.enabled", "--registry");
    layer.put(&mut own.port, registry_port, "registry.port", "--registry-port");
    let mirrors = listed(mirror).map(mirrors::from_flags);
    layer.put(&mut file.images.mirrors, mirrors, "images.mirrors", "--mirror");
    let proxy = &mut file.proxy;
    layer.put(&mut proxy.http, http_proxy, "proxy.http", "--http-proxy");
    layer.put(&mut proxy.https, https_proxy, "proxy.https", "--https-proxy");
    layer.put(&mut proxy.no_proxy, listed(no_proxy), "proxy.noProxy", "--no-proxy");
    layer.put(&mut file.extra_sans, listed(extra_san), "extraSans", "--extra-san");
    layer.put(&mut file.ca.cert, ca_cert, "ca.cert", "--ca-cert");
    layer.put(&mut file.ca.key, ca_key, "ca.key", "--ca-key");
    layer.put(&mut file.etcd.durable, durable_etcd.then_some(true), "etcd.durable", "--durable-etcd");
    layer.put(&mut file.etcd.backend, etcd_backend, "etcd.backend", "--etcd-backend");
    let external = &mut file.etcd.external;
    let endpoints = listed(etcd_endpoint);
    layer.put(&mut external.endpoints, endpoints, "etcd.external.endpoints", "--etcd-endpoint");
    layer.put(&mut external.prefix, etcd_prefix, "etcd.external.prefix", "--etcd-prefix");
    layer.put(&mut external.ca, etcd_ca, "etcd.external.ca", "--etcd-ca");
    layer.put(&mut external.cert, etcd_cert, "etcd.external.cert", "--etcd-cert");
    layer.put(&mut external.key, etcd_key, "etcd.external.key", "--etcd-key");
    layer.put(&mut file.kube_proxy.mode, kube_proxy_mode, "kubeProxy.mode", "--kube-proxy-mode");
    layer.put(&mut file.reach, reach, "reach", "--reach");
    let placement = &mut file.placement;
    layer.put(&mut placement.roles, no_roles.then(Vec::new), "placement.roles", "--no-roles");
    let spread = &mut placement.spread.enabled;
    layer.put(spread, no_spread.then_some(false), "placement.spread.enabled", "--no-spread");
    layer.put(&mut file.skip_phases, listed(skip_phase), "skipPhases", "--skip-phase");
    layer.put(&mut file.wait, wait, "wait", "--wait");
    layer.put(&mut file.timeout, timeout, "timeout", "--timeout");
    layer.put(&mut file.retain, retain.then_some(true), "retain", "--retain");
    layer.put(&mut file.progress, progress, "progress", "--progress");
    layer.put(&mut file.profile, profile, "profile", "--profile");
    layer.put(&mut file.export_on_failure, export_on_failure, "exportOnFailure", "--export-on-failure");
    if count.is_some() {
        origins.set("nodes", Origin::Flag("--nodes"));
    }
    NodeFlags { count, kind, size: SizeFlags { cpus, memory, disk }, image }
}

struct Layer<'a>(&'a mut Origins);

impl Layer<'_> {
    fn put<T>(&mut self, field: &mut Option<T>, value: Option<T>, name: &str, flag: &'static str) {
        if value.is_some() {
            *field = value;
            self.0.set(name, Origin::Flag(flag));
        }
    }
}
