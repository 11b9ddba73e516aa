//! From a file, with the flags put over it, to settings: the one place where defaults are decided.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hoist_phases::phases::PhaseId;
use hoist_phases::spec::{
    ApiServerSpec, Attach, BootstrapToken, ClusterName, ClusterSpec, Cni, Component, EtcdSpec, KubeProxyMode,
    KubernetesVersion, Owner, Reach, TokenTtl,
};

use super::Settings;
use super::document::Document;
use super::file::{ClusterFile, ImagesFile, KubeProxyFile, OwnerFile, PlacementFile};
use super::nodes::NodeFlags;
use super::problem::{Invalid, Problem};
use super::{
    api_server, check, component_configs, components, endpoint, etcd, layers, mirrors, networking, nodes,
    placement, ports, proxy, registry, units, wait,
};
use crate::cli::args::{Global, UpArgs};
use crate::cluster::export::vacant;

/// Time for everything together when nothing is said: a busy two-core machine starts a cluster
/// with two nodes in a fraction of it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The name alone: what is known of a cluster of that name is the base of everything else.
///
/// # Errors
/// When it breaks the rules of names.
pub fn name(global: &Global, document: Option<&Document>) -> Result<ClusterName, Invalid> {
    let given =
        global.name.as_deref().or_else(|| document.and_then(|document| document.file.name.as_deref()));
    ClusterName::new(given.unwrap_or(super::DEFAULT_NAME)).map_err(|error| Invalid::one(error.into()))
}

/// Settings for `up`. What neither flag nor file says stays as it is in `base`.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn settings(
    args: UpArgs,
    document: Option<Document>,
    base: ClusterSpec,
    cni: Option<Cni>,
) -> Result<Settings, Invalid> {
    let mut document = document.unwrap_or_default();
    let nodes = layers::over(args, &mut document);
    resolve(document, nodes, base, cni)
}

/// As [`settings`], of a file that has the flags in it. Every field is taken apart by name, so that
/// one nobody reads does not compile.
pub(super) fn resolve(
    mut document: Document,
    node_flags: NodeFlags,
    base: ClusterSpec,
    cni: Option<Cni>,
) -> Result<Settings, Invalid> {
    let keys = etcd::keys(&mut document);
    let Document { file, origins, mut problems, beside: _ } = document;
    let ClusterFile {
        api_version: _,
        kind: _,
        name: _,
        owner: OwnerFile { attach },
        kubernetes,
        networking,
        control_plane_endpoint,
        listen_address,
        ports,
        registry,
        images: ImagesFile { mirrors },
        proxy,
        extra_sans,
        // These name files, which were read before.
        ca: _,
        cni: _,
        kubeadm_config: _,
        token,
        token_ttl,
        etcd: etcd_file,
        api_server,
        scheduler,
        feature_gates,
        kubelet,
        kube_proxy: KubeProxyFile { mode, config: kube_proxy },
        reach,
        components,
        nodes,
        addons: _,
        placement: PlacementFile { policy, roles, spread },
        skip_phases,
        wait,
        timeout,
        retain,
        progress,
        profile,
        export_on_failure,
    } = file;
    let mut spec = base;

    if let Some(text) = kubernetes {
        set(&mut spec.kubernetes, problems.keep(KubernetesVersion::parse(&text)));
    }
    networking::apply(&mut spec.networking, networking, &mut problems);
    if let Some(text) = token {
        set(&mut spec.token, problems.keep(BootstrapToken::parse(&text)));
    }
    if let Some(text) = token_ttl {
        let ttl = problems.keep(converted("tokenTtl", &text, units::duration));
        set(&mut spec.token_ttl, ttl.map(|ttl| TokenTtl(ttl.as_secs())));
    }
    set(&mut spec.extra_sans, extra_sans);
    etcd::apply(&mut spec.etcd, &spec.name, etcd_file, keys, &mut problems);
    api_server::apply(&mut spec.api_server, api_server, &mut problems);
    component_configs::apply(&mut spec, scheduler, kubelet, kube_proxy, feature_gates, &mut problems);
    if let Some(container) = attach {
        // The name of whatever an earlier run attached to stays with it.
        let prefix = spec.owner.attach().and_then(|present| present.prefix.clone());
        spec.owner = Owner::Attach(Attach { container, prefix, registry: None });
        spec.nodes.clear();
    }
    if let Some(text) = mode {
        set(&mut spec.kube_proxy, problems.keep(proxy_mode(&text)));
    }
    endpoint::apply(&mut spec, control_plane_endpoint, listen_address, reach, &mut problems);
    if let Some(files) = ports {
        spec.ports = ports::mappings(files, &mut problems);
    }
    registry::apply(&mut spec.registry, registry, &mut problems);
    proxy::apply(&mut spec.proxy, proxy, &mut problems);
    if let Some(mirrors) = mirrors {
        spec.mirrors = mirrors::of(mirrors, &mut problems);
    }
    set(&mut spec.cni, cni);
    components::apply(&mut spec, components, &mut problems);
    if let Some(wanted) = nodes::wanted(node_flags, nodes, &mut problems) {
        spec.nodes = nodes::keep_numbers(&spec.nodes, wanted);
    }
    if let Some(roles) = roles {
        spec.placement.roles = placement::roles::roles(roles, &mut problems);
    }
    placement::spread(&mut spec.placement.spread, spread, &mut problems);
    if let Some(policy) = policy {
        placement::policy::check(&policy, &mut problems);
        spec.placement.policy = Some(policy);
    }

    if let Some(names) = skip_phases {
        spec.skip_phases = names.iter().filter_map(|name| problems.keep(phase(name))).collect();
    }
    let wait = wait::level(wait, &spec, &mut problems);
    let timeout = timeout.and_then(|text| problems.keep(time_limit("timeout", &text)));
    let profile = profile.filter(|path| problems.keep(trace_file(path)).is_some());
    let export_on_failure = export_on_failure.filter(|path| problems.keep(evidence(path)).is_some());

    check::spec(&spec, &mut problems);
    problems.into_result(&origins)?;
    Ok(Settings {
        spec,
        origins,
        notes: Vec::new(),
        ca: None,
        disks: Vec::new(),
        skip: Vec::new(),
        wait,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        retain: retain.unwrap_or(false),
        progress: progress.unwrap_or_default(),
        profile,
        export_on_failure,
    })
}

/// The specification before anybody said anything.
pub fn defaults(name: ClusterName, token: BootstrapToken) -> ClusterSpec {
    ClusterSpec {
        name,
        owner: Owner::Own,
        kubernetes: KubernetesVersion::DEFAULT,
        held: BTreeMap::new(),
        networking: hoist_phases::spec::Networking::default(),
        control_plane_endpoint: None,
        listen_address: None,
        ports: Vec::new(),
        registry: None,
        proxy: hoist_phases::spec::Proxy::default(),
        mirrors: BTreeMap::new(),
        extra_sans: Vec::new(),
        token,
        token_ttl: TokenTtl::default(),
        etcd: EtcdSpec::default(),
        api_server: ApiServerSpec::default(),
        scheduler_config: None,
        feature_gates: BTreeMap::new(),
        kubelet_config: serde_json::Map::new(),
        cni: Cni::default(),
        kube_proxy: KubeProxyMode::default(),
        kube_proxy_config: serde_json::Map::new(),
        reach: Reach::default(),
        placement: hoist_phases::spec::Placement::default(),
        components: Component::ALL.map(hoist_phases::spec::ComponentSpec::default_for).to_vec(),
        nodes: nodes::default(),
        addons: Vec::new(),
        skip_phases: Vec::new(),
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Judges a text with one of [`units`]' readers.
pub(super) fn converted<T>(
    field: &str,
    text: &str,
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<T, Problem> {
    read(text).map_err(|rule| Problem::new(field, format_args!("{text:?}"), rule))
}

pub(super) fn time_limit(field: &str, text: &str) -> Result<Duration, Problem> {
    let limit = converted(field, text, units::duration)?;
    match limit.is_zero() {
        true => Err(Problem::new(field, text, "must be longer than nothing")),
        false => Ok(limit),
    }
}

/// Whether evidence can go to this directory: what is there already is nobody's to mix with it.
fn evidence(path: &Path) -> Result<(), Problem> {
    let rule = "must be a directory that is new or empty";
    vacant(path).map_err(|_| Problem::new("exportOnFailure", path.display(), rule))
}

/// Whether a profile can be written there once the run is over; then it is too late to ask.
fn trace_file(path: &Path) -> Result<(), Problem> {
    let wrong = |rule| Err(Problem::new("profile", path.display(), rule));
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match path.extension() {
        _ if path.is_dir() => wrong("is a directory; name a file in it, such as up.json"),
        _ if !directory.is_dir() => wrong("its directory is not there; make it first"),
        Some(extension) if extension == "html" => {
            wrong("the page gets this name; call the trace itself by another, such as up.json")
        }
        _ => Ok(()),
    }
}

fn proxy_mode(text: &str) -> Result<KubeProxyMode, Problem> {
    const MODES: [KubeProxyMode; 2] = [KubeProxyMode::Nftables, KubeProxyMode::Iptables];
    MODES.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| {
        Problem::new("kubeProxy.mode", format_args!("{text:?}"), "must be nftables or iptables")
    })
}

fn phase(name: &str) -> Result<PhaseId, Problem> {
    PhaseId::ALL.iter().copied().find(|id| id.name() == name).ok_or_else(|| {
        let names: Vec<_> = PhaseId::ALL.iter().map(|id| id.name()).collect();
        let rule = format!("must be one of {}", names.join(", "));
        Problem::new("skipPhases", format_args!("{name:?}"), rule)
    })
}
