//! Rules between settings, judged on the resolved specification.

use hoist_phases::pki::San;
use hoist_phases::spec::networking::API_PORT;
use hoist_phases::spec::{Backend, ClusterSpec, Component};

use super::problem::{Problem, Problems};
use super::{mirrors, ports, registry};

/// Least tmpfs etcd starts in: it allocates two 64 MB segments of its log at once.
const MIN_TMPFS: u64 = 192 << 20;

/// A cluster without anything of the user's takes some 10 MiB, and twice that while it is compacted.
const MIN_QUOTA: u64 = 32 << 20;

/// What etcd needs beside its data.
const ETCD_HEAP: u64 = 256 << 20;

/// What the write-ahead log and a snapshot being written take of the tmpfs beside the database.
const ETCD_LOG: u64 = 128 << 20;

pub(super) fn spec(spec: &ClusterSpec, problems: &mut Problems) {
    for problem in spec.networking.problems(&[]) {
        problems.push(problem);
    }
    let (nodes, ranges) = (spec.nodes.len(), spec.networking.node_ranges());
    if u64::try_from(nodes).is_ok_and(|nodes| nodes > ranges) {
        let rule = format!(
            "the pod subnet holds the ranges of {ranges}; choose a wider networking.podSubnet, or larger node masks"
        );
        problems.push(Problem::new("nodes", nodes, rule));
    }
    for san in &spec.extra_sans {
        problems.keep(San::parse(san));
    }
    if let Some(attach) = spec.owner.attach() {
        owner(spec, &attach.container, problems);
    }
    if spec.api_port() < 1024 {
        let rule = "must be from 1024 on: the API server is not root";
        problems.push(Problem::new("apiServer.port", spec.api_port(), rule));
    }
    ports::check(spec, problems);
    registry::check(spec, problems);
    mirrors::check(spec, problems);
    etcd(spec, problems);
    authentication(spec, problems);
}

/// kube-apiserver refuses its older flags beside a file.
fn authentication(spec: &ClusterSpec, problems: &mut Problems) {
    if spec.api_server.authentication_config.is_none() {
        return;
    }
    let args = spec.component(Component::ApiServer).extra_args;
    for flag in args.keys().filter(|flag| flag.starts_with("oidc-")) {
        let rule = "the API server takes no such flag beside apiServer.authenticationConfig or apiServer.oidc, where it belongs then";
        problems.push(Problem::of(&format!("components.kube-apiserver.extraArgs.{flag}"), rule));
    }
}

/// What belongs to whoever made the container can't be asked of hoist.
fn owner(spec: &ClusterSpec, container: &str, problems: &mut Problems) {
    let mut refuse = |field: &str, rule: &str| {
        problems.push(Problem::new(field, format_args!("beside owner.attach {container}"), rule));
    };
    if !spec.nodes.is_empty() {
        refuse("nodes", "whoever made the container makes the nodes too: must be none");
    }
    if spec.listen_address.is_some() {
        refuse("listenAddress", "the container's maker has published its ports; leave it out");
    }
    if !spec.ports.is_empty() {
        refuse("ports", "the container's maker has published its ports; leave them out");
    }
    if spec.api_port() != API_PORT {
        refuse("apiServer.port", "whoever made the container leads to 6443; leave it out");
    }
    if spec.registry.is_some() {
        refuse("registry", "the container's maker has published its ports; leave it out");
    }
    if spec.control_plane_endpoint.is_some() {
        refuse("controlPlaneEndpoint", "nodes dial the address on br0; leave it out");
    }
}

fn etcd(spec: &ClusterSpec, problems: &mut Problems) {
    let mib = |bytes: u64| format!("{}Mi", bytes >> 20);
    let etcd = &spec.etcd;
    let own = etcd.backend == Backend::Etcd;
    if own && etcd.quota_bytes < MIN_QUOTA {
        let rule = format!("must be {} or more", mib(MIN_QUOTA));
        problems.push(Problem::new("etcd.quota", format_args!("{} bytes", etcd.quota_bytes), rule));
    }
    let Some(component) = etcd.backend.component().filter(|_| !etcd.durable) else { return };
    if etcd.tmpfs_bytes < MIN_TMPFS {
        let rule = format!("must be {} or more", mib(MIN_TMPFS));
        problems.push(Problem::new("etcd.tmpfsSize", mib(etcd.tmpfs_bytes), rule));
    } else if own && etcd.quota_bytes > etcd.tmpfs_bytes.saturating_sub(ETCD_LOG) {
        let most = mib(etcd.tmpfs_bytes.saturating_sub(ETCD_LOG));
        let rule = format!(
            "a full file system kills etcd, a reached quota does not: at most {most}, or a larger etcd.tmpfsSize"
        );
        problems.push(Problem::new("etcd.quota", mib(etcd.quota_bytes), rule));
    }
    let memory = spec.component(component).memory_bytes;
    let least = etcd.tmpfs_bytes.saturating_add(ETCD_HEAP);
    if memory < least {
        let rule = format!("etcd.tmpfsSize counts as its memory: must be {} or more", mib(least));
        problems.push(Problem::new(&format!("components.{component}.memory"), mib(memory), rule));
    }
}
