//! From raw flags and a raw file to settings: the one place where precedence and defaults are
//! decided. Every field is taken apart by name, so that one nobody reads does not compile.

use std::time::Duration;

use hoist_phases::phases::PhaseId;
use hoist_phases::spec::{
    ApiServerSpec, Attach, BootstrapToken, ClusterName, ClusterSpec, Cni, Component, EtcdSpec, KubeProxyMode,
    KubernetesVersion, Owner, Reach, TokenTtl,
};

use super::Settings;
use super::file::{ClusterFile, EtcdFile, KubeProxyFile, OwnerFile, PlacementFile};
use super::networking::NetworkingInput;
use super::nodes::{NodeFlags, SizeFlags};
use super::problem::{Invalid, Problem, Problems};
use super::{api_server, check, components, endpoint, networking, nodes, placement, units, wait};
use crate::cli::args::{Global, NodeSizeArgs, UpArgs};

/// Time for everything together when nothing is said: a busy two-core machine starts a cluster
/// with two nodes in a fraction of it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A value with the place it comes from, for messages.
pub(super) struct Given<T> {
    pub(super) field: &'static str,
    pub(super) value: T,
}

fn pick<T>(
    flag: Option<T>,
    flag_name: &'static str,
    file: Option<T>,
    field: &'static str,
) -> Option<Given<T>> {
    let given = |field| move |value| Given { field, value };
    flag.map(given(flag_name)).or_else(|| file.map(given(field)))
}

/// The name alone: what is known of a cluster of that name is the base of everything else.
///
/// # Errors
/// When it breaks the rules of names.
pub fn name(global: &Global, file: Option<&ClusterFile>) -> Result<ClusterName, Invalid> {
    let given = global.name.as_deref().or_else(|| file.and_then(|file| file.name.as_deref()));
    ClusterName::new(given.unwrap_or(super::DEFAULT_NAME)).map_err(|error| Invalid::one(error.into()))
}

/// Settings for `up`. What neither flag nor file says stays as it is in `base`.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn settings(
    args: UpArgs,
    file: Option<ClusterFile>,
    base: ClusterSpec,
    cni: Option<Cni>,
) -> Result<Settings, Invalid> {
    let UpArgs {
        config: _,
        attach: attach_flag,
        nodes: count,
        node_kind: kind,
        node_image: image,
        size: NodeSizeArgs { cpus, memory, disk },
        kubernetes: kubernetes_flag,
        cni: _,
        ip_family,
        pod_subnet,
        service_subnet,
        node_mask_size_ipv4,
        node_mask_size_ipv6,
        dns_domain,
        token: token_flag,
        token_ttl: token_ttl_flag,
        control_plane_endpoint: endpoint_flag,
        listen: listen_flag,
        extra_san,
        // Read by `finish`, which may touch files.
        ca_cert: _,
        ca_key: _,
        durable_etcd,
        kube_proxy_mode,
        reach: reach_flag,
        no_roles,
        no_spread,
        skip_phase,
        wait: wait_flag,
        timeout: timeout_flag,
        retain: retain_flag,
        progress: progress_flag,
    } = args;
    let ClusterFile {
        api_version: _,
        kind: _,
        name: _,
        owner: OwnerFile { attach },
        kubernetes,
        networking: network_file,
        control_plane_endpoint,
        listen_address,
        extra_sans,
        ca: _,
        token,
        token_ttl,
        etcd: EtcdFile { durable, fsync, tmpfs_size, quota },
        api_server,
        cni: _,
        kube_proxy: KubeProxyFile { mode },
        reach,
        components,
        nodes,
        placement: PlacementFile { policy, roles, spread },
        skip_phases,
        wait,
        timeout,
        retain,
        progress,
    } = file.unwrap_or_default();
    let network = NetworkingInput {
        ip_family: pick(ip_family, "--ip-family", network_file.ip_family, "networking.ipFamily"),
        pods: pick(pod_subnet, "--pod-subnet", network_file.pod_subnet, "networking.podSubnet"),
        services: pick(
            service_subnet,
            "--service-subnet",
            network_file.service_subnet,
            "networking.serviceSubnet",
        ),
        node_mask_size_ipv4: node_mask_size_ipv4.or(network_file.node_mask_size_ipv4),
        node_mask_size_ipv6: node_mask_size_ipv6.or(network_file.node_mask_size_ipv6),
        dns_domain: dns_domain.or(network_file.dns_domain),
    };

    let node_flags = NodeFlags { count, kind, size: SizeFlags { cpus, memory, disk }, image };

    let mut problems = Problems::default();
    let mut spec = base;

    if let Some(given) = pick(kubernetes_flag, "--kubernetes", kubernetes, "kubernetes") {
        set(&mut spec.kubernetes, problems.keep(KubernetesVersion::parse(&given.value)));
    }
    networking::apply(&mut spec.networking, network, &mut problems);
    if let Some(given) = pick(token_flag, "--token", token, "token") {
        set(&mut spec.token, problems.keep(BootstrapToken::parse(&given.value)));
    }
    if let Some(given) = pick(token_ttl_flag, "--token-ttl", token_ttl, "tokenTtl") {
        let ttl = problems.keep(converted(&given, units::duration));
        set(&mut spec.token_ttl, ttl.map(|ttl| TokenTtl(ttl.as_secs())));
    }
    // Lists are replaced as a whole, by whichever side names any.
    let sans = if extra_san.is_empty() { extra_sans } else { extra_san };
    if !sans.is_empty() {
        spec.extra_sans = sans;
    }
    etcd(&mut spec.etcd, durable_etcd.then_some(true).or(durable), tmpfs_size, quota, &mut problems);
    spec.etcd.fsync = fsync.or(spec.etcd.fsync);
    api_server::apply(&mut spec.api_server, api_server, &mut problems);
    if let Some(container) = attach_flag.or(attach) {
        // The name of whatever an earlier run attached to stays with it.
        let prefix = spec.owner.attach().and_then(|present| present.prefix.clone());
        spec.owner = Owner::Attach(Attach { container, prefix });
        spec.nodes.clear();
    }
    if let Some(given) = pick(kube_proxy_mode, "--kube-proxy-mode", mode, "kubeProxy.mode") {
        set(&mut spec.kube_proxy, problems.keep(proxy_mode(&given)));
    }
    let endpoint =
        pick(endpoint_flag, "--control-plane-endpoint", control_plane_endpoint, "controlPlaneEndpoint");
    let listen = pick(listen_flag, "--listen", listen_address, "listenAddress");
    let reach = pick(reach_flag, "--reach", reach, "reach");
    endpoint::apply(&mut spec, endpoint, listen, reach, &mut problems);
    set(&mut spec.cni, cni);
    components::apply(&mut spec, components, &mut problems);
    if let Some(wanted) = nodes::wanted(node_flags, nodes, &mut problems) {
        spec.nodes = nodes::keep_numbers(&spec.nodes, wanted);
    }
    if let Some(roles) = no_roles.then(Vec::new).or(roles) {
        spec.placement.roles = placement::roles::roles(roles, &mut problems);
    }
    set(&mut spec.placement.spread, spread);
    spec.placement.spread.enabled &= !no_spread;
    placement::roles::check_namespaces(&spec.placement.spread.namespaces, &mut problems);
    placement::roles::check_labels(&spec.placement.spread.labels, &mut problems);
    if let Some(policy) = policy {
        placement::policy::check(&policy, &mut problems);
        spec.placement.policy = Some(policy);
    }

    let (skip_field, skip_names) =
        if skip_phase.is_empty() { ("skipPhases", skip_phases) } else { ("--skip-phase", skip_phase) };
    let skip = skip_names.iter().filter_map(|name| problems.keep(phase(skip_field, name))).collect();
    let wait = wait::level(pick(wait_flag, "--wait", wait, "wait"), &spec, &mut problems);
    let timeout = match pick(timeout_flag, "--timeout", timeout, "timeout") {
        Some(given) => problems.keep(converted(&given, units::duration).and_then(|limit| {
            let zero = limit.is_zero().then(|| Problem::new(given.field, "0", "must be longer than nothing"));
            zero.map_or(Ok(limit), Err)
        })),
        None => Some(DEFAULT_TIMEOUT),
    };

    check::spec(&spec, &mut problems);
    problems.into_result()?;
    Ok(Settings {
        spec,
        ca: None,
        disks: Vec::new(),
        skip,
        wait,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        retain: retain_flag || retain.unwrap_or(false),
        progress: progress_flag.or(progress).unwrap_or_default(),
    })
}

/// The specification before anybody said anything.
pub fn defaults(name: ClusterName, token: BootstrapToken) -> ClusterSpec {
    ClusterSpec {
        name,
        owner: Owner::Own,
        kubernetes: KubernetesVersion::DEFAULT,
        networking: hoist_phases::spec::Networking::default(),
        control_plane_endpoint: None,
        listen_address: None,
        extra_sans: Vec::new(),
        token,
        token_ttl: TokenTtl::default(),
        etcd: EtcdSpec::default(),
        api_server: ApiServerSpec::default(),
        cni: Cni::default(),
        kube_proxy: KubeProxyMode::default(),
        reach: Reach::default(),
        placement: hoist_phases::spec::Placement::default(),
        components: Component::ALL.map(hoist_phases::spec::ComponentSpec::default_for).to_vec(),
        nodes: nodes::default(),
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Judges a text with one of [`units`]' readers.
pub(super) fn converted<T>(
    given: &Given<String>,
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<T, Problem> {
    read(&given.value).map_err(|rule| Problem::new(given.field, format_args!("{:?}", given.value), rule))
}

fn proxy_mode(given: &Given<String>) -> Result<KubeProxyMode, Problem> {
    const MODES: [KubeProxyMode; 2] = [KubeProxyMode::Nftables, KubeProxyMode::Iptables];
    let found = MODES.into_iter().find(|mode| mode.as_str() == given.value);
    found.ok_or_else(|| {
        Problem::new(given.field, format_args!("{:?}", given.value), "must be nftables or iptables")
    })
}

fn phase(field: &str, name: &str) -> Result<PhaseId, Problem> {
    PhaseId::ALL.iter().copied().find(|id| id.name() == name).ok_or_else(|| {
        let names: Vec<_> = PhaseId::ALL.iter().map(|id| id.name()).collect();
        Problem::new(field, format_args!("{name:?}"), format_args!("must be one of {}", names.join(", ")))
    })
}

fn etcd(
    spec: &mut EtcdSpec,
    durable: Option<bool>,
    tmpfs_size: Option<String>,
    quota: Option<String>,
    problems: &mut Problems,
) {
    if durable == Some(true) && !spec.durable {
        // A new cluster: the default so far is what fits into the tmpfs.
        spec.quota_bytes = EtcdSpec::DURABLE_QUOTA;
    }
    set(&mut spec.durable, durable);
    if let Some(value) = tmpfs_size {
        let given = Given { field: "etcd.tmpfsSize", value };
        set(&mut spec.tmpfs_bytes, problems.keep(converted(&given, units::bytes)));
    }
    if let Some(value) = quota {
        let given = Given { field: "etcd.quota", value };
        set(&mut spec.quota_bytes, problems.keep(converted(&given, units::bytes)));
    }
}
