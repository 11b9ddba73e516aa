//! preflight: everything that would stop the bootstrap later is found before anything starts, and
//! all of it in one error.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::network::attach;
use crate::phases::{Context, control_plane, etcd, images, konnectivity, machines, steward};
use crate::ports::EngineInfo;
use crate::spec::{ClusterSpec, Component, NodeSpec, REGISTRY_PORT, mapped};

/// What the control plane takes beside etcd's tmpfs, resident, measured idle: 0.5 GiB and some air.
const CONTROL_PLANE_BYTES: u64 = 768 << 20;

/// Everything found wrong, one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct PreflightError(pub Vec<Problem>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Problem {
    #[error("images missing from the engine's store: {}", .0.join(", "))]
    Images(Vec<String>),
    #[error(transparent)]
    Networking(#[from] crate::spec::networking::NetworkingError),
    #[error(
        "port {port} of the shared namespace: both {first} and {second} want it; change one's flag {flag}"
    )]
    Port { port: u16, first: Component, second: Component, flag: &'static str },
    #[error(
        "memory: the control plane with etcd's tmpfs needs {control_plane_mib} MiB and {vms} virtual machines \
         with qemu's own {vms_mib} MiB, {} MiB in all; the engine's host has {have_mib} MiB",
        control_plane_mib + vms_mib
    )]
    Memory { control_plane_mib: u64, vms: usize, vms_mib: u64, have_mib: u64 },
}

impl PreflightError {
    /// The images that are missing, if any are.
    pub fn missing_images(&self) -> Option<&[String]> {
        self.0.iter().find_map(|problem| match problem {
            Problem::Images(images) => Some(images.as_slice()),
            _ => None,
        })
    }
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let needed = images::needed(&cx.spec);
        let (info, missing) =
            tokio::try_join!(cx.ports.runtime.info(), cx.ports.runtime.missing_images(&needed))?;
        let problems = problems(&cx.spec, &info, missing);
        if !problems.is_empty() {
            return Err(PreflightError(problems).into());
        }
        if let Some(attach) = cx.spec.owner.attach() {
            attach::check(&cx.ports.runtime, attach).await?;
        }
        cx.outputs.engine.set(info);
        Ok(Outcome::Unchanged)
    }
    .boxed()
}

fn problems(spec: &ClusterSpec, info: &EngineInfo, missing: Vec<String>) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        spec.networking.problems(&info.networks).into_iter().map(Problem::from).collect();
    if !missing.is_empty() {
        problems.push(Problem::Images(missing));
    }
    problems.extend(port_conflicts(spec));
    problems.extend(memory(spec, &spec.nodes, info));
    problems
}

/// Tells when a cluster and those of its nodes that are to run at once may take more memory than
/// the engine's host has, as far as the engine tells.
pub fn memory<'a>(
    spec: &ClusterSpec,
    nodes: impl IntoIterator<Item = &'a NodeSpec>,
    info: &EngineInfo,
) -> Option<Problem> {
    let control_plane_mib = (CONTROL_PLANE_BYTES + spec.etcd.in_memory()) >> 20;
    let sizes: Vec<u64> = nodes.into_iter().filter_map(|node| machines::memory_bytes(node.kind)).collect();
    let (vms, vms_mib) = (sizes.len(), sizes.iter().sum::<u64>() >> 20);
    let have_mib = info.memory_bytes >> 20;
    let lacks = have_mib > 0 && have_mib < control_plane_mib + vms_mib;
    lacks.then_some(Problem::Memory { control_plane_mib, vms, vms_mib, have_mib })
}

/// All components share one namespace and so one set of ports (kubevirtci#656).
fn port_conflicts(spec: &ClusterSpec) -> Vec<Problem> {
    let mut taken: BTreeMap<u16, Component> = BTreeMap::new();
    let mut problems = Vec::new();
    for (component, port, flag) in wanted_ports(spec) {
        match taken.get(&port) {
            Some(first) if *first == component => {}
            Some(first) => problems.push(Problem::Port {
                port,
                first: *first,
                second: component,
                flag: flag.unwrap_or("port"),
            }),
            None => {
                taken.insert(port, component);
            }
        }
    }
    problems
}

/// Every port that a component listens on in the shared namespace.
pub fn ports(spec: &ClusterSpec) -> BTreeSet<(Component, u16)> {
    wanted_ports(spec).into_iter().map(|(component, port, _)| (component, port)).collect()
}

/// The same, with the flag that sets each.
fn wanted_ports(spec: &ClusterSpec) -> Vec<(Component, u16, Option<&'static str>)> {
    let wanted = [
        (Component::Dnsmasq, 53, None),
        (Component::Steward, steward::PORT, None),
        (Component::Etcd, etcd::CLIENT_PORT, Some("listen-client-urls")),
        (Component::Etcd, etcd::PEER_PORT, Some("listen-peer-urls")),
        (Component::Etcd, etcd::METRICS_PORT, Some("listen-metrics-urls")),
        (Component::Kine, etcd::CLIENT_PORT, Some("listen-address")),
        (Component::ApiServer, spec.api_port(), Some("secure-port")),
        (Component::ControllerManager, control_plane::CONTROLLER_MANAGER_PORT, Some("secure-port")),
        (Component::Scheduler, control_plane::SCHEDULER_PORT, Some("secure-port")),
        (Component::Registry, REGISTRY_PORT, None),
        (Component::Konnectivity, konnectivity::AGENT_PORT, Some("agent-port")),
        (Component::Konnectivity, konnectivity::ADMIN_PORT, Some("admin-port")),
        (Component::Konnectivity, konnectivity::HEALTH_PORT, Some("health-port")),
    ];
    let mut all = Vec::new();
    for (component, default, flag) in wanted.into_iter().filter(|(component, ..)| spec.runs(*component)) {
        let given = flag.and_then(|flag| spec.component(component).arg(flag).map(str::to_owned));
        let ports = given.as_deref().map_or_else(|| BTreeSet::from([default]), ports_in);
        all.extend(ports.into_iter().map(|port| (component, port, flag)));
    }
    all.extend(mapped(&spec.ports).map(|(port, _)| (Component::Steward, port, None)));
    all
}

/// The ports of a flag that is a number or a list of URLs.
fn ports_in(value: &str) -> BTreeSet<u16> {
    value.split(',').filter_map(|part| part.rsplit(':').next()?.trim_end_matches('/').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{NodeKind, VmSize, test_spec};

    fn engine() -> EngineInfo {
        EngineInfo { memory_bytes: 8 << 30, ..EngineInfo::default() }
    }

    #[test]
    fn the_default_cluster_passes() {
        assert_eq!(problems(&test_spec(), &engine(), Vec::new()), []);
    }

    #[test]
    fn kubevirtci_656_two_components_on_one_port() {
        let mut spec = test_spec();
        for component in &mut spec.components {
            if component.component == Component::Scheduler {
                component.extra_args.insert("secure-port".into(), "10257".into());
            }
        }
        let text: Vec<_> = problems(&spec, &engine(), Vec::new()).iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            ["port 10257 of the shared namespace: both kube-controller-manager and kube-scheduler want it; \
              change one's flag secure-port"]
        );
    }

    #[test]
    fn a_component_does_not_collide_with_itself() {
        let mut spec = test_spec();
        for component in &mut spec.components {
            if component.component == Component::Etcd {
                let urls = "https://127.0.0.1:2379,https://192.168.66.2:2379";
                component.extra_args.insert("listen-client-urls".into(), urls.into());
                component.extra_args.insert("listen-metrics-urls".into(), "http://127.0.0.1:2379/".into());
            }
        }
        assert_eq!(problems(&spec, &engine(), Vec::new()), []);
    }

    #[test]
    fn everything_wrong_is_in_one_error() {
        let mut spec = test_spec();
        spec.networking.pod_subnet = spec.networking.service_subnet;
        let small = EngineInfo { memory_bytes: 1 << 30, ..EngineInfo::default() };
        let found = problems(&spec, &small, vec!["a:1".into(), "b:1".into()]);
        assert!(found.contains(&Problem::Images(vec!["a:1".into(), "b:1".into()])));
        assert!(found.iter().any(|p| matches!(p, Problem::Memory { have_mib: 1024, .. })));
        assert!(found.iter().any(|p| matches!(p, Problem::Networking(_))));
    }

    /// A cluster of two virtual machines with so much memory each.
    fn two_vms(memory_mib: u32) -> ClusterSpec {
        let mut spec = test_spec();
        let vm = NodeKind::Vm(VmSize { memory_mib, ..VmSize::default() });
        spec.nodes = (1..=2).filter_map(|number| NodeSpec::new(number, vm).ok()).collect();
        spec
    }

    #[test]
    fn memory_for_virtual_machines_is_refused_with_the_sum() {
        let spec = two_vms(4096);
        let text: Vec<_> = problems(&spec, &engine(), Vec::new()).iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "memory: the control plane with etcd's tmpfs needs 1792 MiB and 2 virtual machines with qemu's \
              own 9728 MiB, 11520 MiB in all; the engine's host has 8192 MiB"
            ]
        );
        // Of the guests alone there would be room for both, and there is for one.
        let spec = two_vms(3072);
        assert!(memory(&spec, &spec.nodes, &engine()).is_some());
        assert_eq!(memory(&spec, &spec.nodes[..1], &engine()), None);
    }
}
