//! From a [`ContainerSpec`] to the body of the engine's create request: a pure function.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountType, MountVolumeOptions, PortBinding, PortMap, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};
use hoist_phases::ports::{ContainerPort, ContainerSpec, MountKind, Network};

use super::archive::Owner;
use super::info::Facts;
use super::limits::Limits;
use super::volumes::volume_labels;

/// Processes of a component: far above what any needs (an API server under load has some hundred
/// threads), far below what hurts the host.
const PIDS: i64 = 4096;

/// Processes of a node, whose pods are charged to it.
const NODE_PIDS: i64 = 32768;

/// Processes of one user on the whole host, not of one container: room for many clusters.
const PODMAN_NPROC: i64 = 16384;

/// Log files are rotated, so that no component can fill the host's disk.
const LOG_SIZE: &str = "16m";
const LOG_FILES: &str = "2";

/// Ids of the containers whose namespaces are shared.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    pub(super) network: Option<String>,
    pub(super) pid: Option<String>,
}

pub(super) fn create_body(
    spec: &ContainerSpec,
    owner: Owner,
    facts: &Facts,
    limits: Limits,
    shared: &Shared,
) -> ContainerCreateBody {
    let ports = spec.publish.iter().map(|port| format!("{}/{}", port.container, port.protocol.lower()));
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        hostname: spec.hostname.clone(),
        user: spec.user.clone(),
        entrypoint: filled(&spec.entrypoint),
        cmd: filled(&spec.args),
        env: Some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        labels: Some(spec.labels.clone().into_iter().collect()),
        exposed_ports: filled(&ports.collect::<Vec<_>>()),
        stop_signal: spec.stop_signal.clone(),
        host_config: Some(HostConfig {
            port_bindings: (!spec.publish.is_empty())
                .then(|| spec.publish.iter().map(binding).collect::<PortMap>()),
            ulimits: limit_of_files(spec.nofile, limits.nofile).map(|limit| ulimits(limit, facts)),
            devices: (spec.unconfined && limits.drops_device_rules).then(|| vec![device(KMSG)]),
            ..host_config(spec, owner, facts, shared)
        }),
        ..ContainerCreateBody::default()
    }
}

fn host_config(spec: &ContainerSpec, owner: Owner, facts: &Facts, shared: &Shared) -> HostConfig {
    let memory = spec.memory_bytes.map(signed);
    let cpus = spec.cpu_millis.map(|millis| i64::from(millis) * 1_000_000);
    let most = (facts.cpus > 0).then(|| i64::from(facts.cpus) * 1_000_000_000);
    HostConfig {
        network_mode: Some(match &spec.network {
            Network::Own => "default".to_owned(),
            Network::None => "none".to_owned(),
            Network::Container(name) => format!("container:{}", shared.network.as_ref().unwrap_or(name)),
        }),
        pid_mode: spec
            .pid_of
            .as_ref()
            .map(|name| format!("container:{}", shared.pid.as_ref().unwrap_or(name))),
        cgroupns_mode: spec.unconfined.then_some(HostConfigCgroupnsModeEnum::PRIVATE),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: filled(&spec.capabilities),
        security_opt: Some(security_options(spec, facts)),
        // Empty lists, not absent ones: absent means the engine's own masks.
        masked_paths: spec.unconfined.then(Vec::new),
        readonly_paths: spec.unconfined.then(Vec::new),
        device_cgroup_rules: device_rules(spec),
        readonly_rootfs: Some(spec.read_only_root),
        sysctls: (!spec.sysctls.is_empty()).then(|| spec.sysctls.clone().into_iter().collect()),
        mounts: filled(&spec.mounts.iter().filter_map(|m| mount(m, spec)).collect::<Vec<_>>()),
        tmpfs: filled_map(tmpfs(spec, owner, facts)),
        memory,
        // The sum of both: no swap on top. Without swap accounting the engine refuses or ignores it.
        memory_swap: memory.filter(|_| facts.swap_limit),
        nano_cpus: cpus.map(|wanted| most.map_or(wanted, |most| wanted.min(most))),
        pids_limit: Some(if spec.unconfined { NODE_PIDS } else { PIDS }),
        // Not `unless-stopped`: after a restart of the engine that would bring containers back in
        // any order, into a namespace without its bridge. Then `hoist up` mends the cluster. A
        // component that crashes exits with a failure and is started again within 100 ms.
        restart_policy: spec.restart.then_some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::ON_FAILURE),
            maximum_retry_count: Some(0),
        }),
        log_config: Some(log_config(facts)),
        ..HostConfig::default()
    }
}

/// The one device beyond an engine's own that a node can't do without: the kubelet reads it.
const KMSG: &str = "/dev/kmsg";

fn device(path: &str) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(path.to_owned()),
        path_in_container: Some(path.to_owned()),
        cgroup_permissions: Some("rwm".to_owned()),
    }
}

fn device_rules(spec: &ContainerSpec) -> Option<Vec<String>> {
    if spec.unconfined {
        return Some(vec!["a *:* rwm".to_owned()]);
    }
    filled(&spec.devices.iter().map(|d| format!("c {}:{} rwm", d.major, d.minor)).collect::<Vec<_>>())
}

/// Podman doesn't take the lists of masked paths; it has an option of its own.
fn security_options(spec: &ContainerSpec, facts: &Facts) -> Vec<String> {
    let options: &[&str] = match (spec.unconfined, facts.podman) {
        (false, _) if spec.apparmor_unconfined => &["no-new-privileges", "apparmor=unconfined"],
        (false, _) => &["no-new-privileges"],
        (true, false) => &["seccomp=unconfined", "apparmor=unconfined"],
        (true, true) => &["seccomp=unconfined", "apparmor=unconfined", "unmask=ALL"],
    };
    options.iter().map(|option| (*option).to_owned()).collect()
}

/// Podman keeps one file and knows no `max-file`.
fn log_config(facts: &Facts) -> HostConfigLogConfig {
    let mut config = HashMap::from([("max-size".to_owned(), LOG_SIZE.to_owned())]);
    if !facts.podman {
        config.insert("max-file".to_owned(), LOG_FILES.to_owned());
    }
    HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(config) }
}

/// An empty port lets the engine choose one.
fn binding(port: &ContainerPort) -> (String, Option<Vec<PortBinding>>) {
    let (ip, number) = (port.host.ip().to_string(), port.host.port());
    let host_port = if number == 0 { String::new() } else { number.to_string() };
    let binding = PortBinding { host_ip: Some(ip), host_port: Some(host_port) };
    (format!("{}/{}", port.container, port.protocol.lower()), Some(vec![binding]))
}

fn mount(mount: &hoist_phases::ports::Mount, spec: &ContainerSpec) -> Option<Mount> {
    let source = match &mount.kind {
        MountKind::Volume(name) | MountKind::TmpfsVolume { name, .. } => Some(name.clone()),
        MountKind::Anonymous => None,
        MountKind::Tmpfs { .. } => return None,
    };
    // A named volume has got its labels when it was made.
    let volume_options = source
        .is_none()
        .then(|| MountVolumeOptions { labels: Some(volume_labels(spec)), ..MountVolumeOptions::default() });
    Some(Mount {
        target: Some(mount.target.clone()),
        source,
        typ: Some(MountType::VOLUME),
        volume_options,
        ..Mount::default()
    })
}

/// /tmp is everybody's, anything else the user's own. Podman can't give a tmpfs to a user.
fn tmpfs(spec: &ContainerSpec, owner: Owner, facts: &Facts) -> HashMap<String, String> {
    let options = |mount: &hoist_phases::ports::Mount| {
        let MountKind::Tmpfs { bytes, exec } = mount.kind else { return None };
        let exec = if exec { "exec" } else { "noexec" };
        let shared = matches!(mount.target.as_str(), "/tmp" | "/var/tmp");
        let access = match (shared, owner.is_root()) {
            (false, true) => "mode=0755".to_owned(),
            (false, false) if !facts.podman => format!("mode=0755,uid={},gid={}", owner.uid, owner.gid),
            _ => "mode=1777".to_owned(),
        };
        let size = bytes.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
        Some((mount.target.clone(), format!("rw,nosuid,nodev,{exec},{access}{size}")))
    };
    spec.mounts.iter().filter_map(options).collect()
}

/// What is wanted, but no more than the engine can give, where that is known.
fn limit_of_files(wanted: Option<u64>, most: Option<u64>) -> Option<u64> {
    wanted.into_iter().chain(most).min()
}

/// Once one limit is given, Podman sets that of processes by itself, to more than an engine without
/// CAP_SYS_RESOURCE may.
pub(super) fn ulimits(nofile: u64, facts: &Facts) -> Vec<ResourcesUlimits> {
    let limit = |name: &str, value: i64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(value),
        hard: Some(value),
    };
    let mut limits = vec![limit("nofile", signed(nofile))];
    if facts.podman {
        limits.push(limit("nproc", PODMAN_NPROC));
    }
    limits
}

fn filled<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

fn filled_map(map: HashMap<String, String>) -> Option<HashMap<String, String>> {
    (!map.is_empty()).then_some(map)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
