//! What a run would do, from specifications alone: nothing is asked and nothing touched.
//!
//! The things of each phase are those that the phases themselves would make, without keys: they are
//! made for the cluster as it is recorded and as it is wanted, and compared. What differs between the
//! record and the engine (a container that was removed) is the business of `hoist status`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::Serialize;

use crate::engine::PhaseError;
use crate::object::Object;
use crate::phases::network::attach;
use crate::phases::{
    PHASES, PhaseId, addons, bootstrap_config, bootstrap_rbac, cni, control_plane, coredns, etcd,
    konnectivity, kube_proxy, machines, network, placement, registry, steward,
};
use crate::pki::{CERTS, PkiInputs, SanRule, Use};
use crate::ports::ContainerSpec;
use crate::spec::{ClusterSpec, Cni, Component, Owner, PortMapping, Reach};

/// What a run would do with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Create,
    /// Made anew: a container is replaced, an object updated, a certificate reissued.
    Replace,
    Remove,
    Keep,
}

/// One thing of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// `container`, `certificate`, a kind of the API, or `node`.
    pub kind: String,
    pub name: String,
    pub change: Change,
    /// What differs, for a thing that is replaced: a flag, a name, a certificate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// What one phase would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    pub phase: PhaseId,
    /// Why the phase is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    pub items: Vec<Item>,
}

impl Step {
    pub fn changes(&self) -> bool {
        self.skipped.is_none() && self.items.iter().any(|item| item.change != Change::Keep)
    }
}

/// Things by kind and name, with the parts of each that count.
type Things = BTreeMap<(String, String), BTreeSet<String>>;

/// What making `wanted` of `present` would do, phase by phase.
///
/// # Errors
/// When a manifest or configuration of the user's can't be read.
pub fn preview(present: Option<&ClusterSpec>, wanted: &ClusterSpec) -> Result<Vec<Step>, PhaseError> {
    let mut steps = Vec::new();
    for id in PHASES.iter().map(|phase| phase.id) {
        let skipped = wanted.skip_phases.contains(&id).then(|| "left out by --skip-phase".to_owned());
        let before = present.map(|spec| things(id, spec)).transpose()?.unwrap_or_default();
        let mut items = compare(&before, &things(id, wanted)?);
        if id == PhaseId::Addons {
            // What is no longer in a manifest stays in the cluster.
            items.retain(|item| item.change != Change::Remove);
        }
        steps.push(Step { phase: id, skipped, items });
    }
    Ok(steps)
}

fn compare(before: &Things, after: &Things) -> Vec<Item> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let item = |key: &(String, String)| {
        let (change, because) = match (before.get(key), after.get(key)) {
            (None, _) => (Change::Create, Vec::new()),
            (Some(_), None) => (Change::Remove, Vec::new()),
            (Some(before), Some(after)) if before == after => (Change::Keep, Vec::new()),
            (Some(before), Some(after)) => (Change::Replace, differences(before, after)),
        };
        Item { kind: key.0.clone(), name: key.1.clone(), change, because }
    };
    keys.into_iter().map(item).collect()
}

/// Parts that came, with `+`, and that went, with `-`.
fn differences(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let went = before.difference(after).map(|part| format!("-{part}"));
    went.chain(after.difference(before).map(|part| format!("+{part}"))).collect()
}

fn things(id: PhaseId, spec: &ClusterSpec) -> Result<Things, PhaseError> {
    // Of the engine's network when nothing is said: the same on both sides.
    let mtu = spec.networking.mtu.unwrap_or_default();
    Ok(match id {
        PhaseId::Preflight | PhaseId::Kubeconfig | PhaseId::Upgrade => Things::new(),
        PhaseId::Certs => certificates(spec)?,
        PhaseId::Network => {
            let own = match &spec.owner {
                Owner::Own => [network::owner(spec), network::dnsmasq(spec)],
                Owner::Attach(_) => [attach::keeper(spec), attach::holder(spec)],
            };
            own.into_iter().map(|container| of_container(&container)).collect()
        }
        PhaseId::Etcd => match etcd::container(spec, Vec::new(), 0) {
            Some((component, container)) => keyed(spec, component, container)?,
            None => Things::new(),
        },
        PhaseId::ControlPlane => {
            let mut all = Things::new();
            for component in control_plane::COMPONENTS {
                let container = control_plane::desired(spec, component, Vec::new(), 0)?;
                all.extend(keyed(spec, component, container)?);
            }
            all
        }
        PhaseId::Machines => {
            let machines = spec.nodes.iter().map(|node| machines::machine(spec, node, mtu));
            machines.map(|container| of_container(&container)).collect()
        }
        PhaseId::BootstrapRbac => {
            let token = ("Secret".to_owned(), format!("kube-system/bootstrap-token-{}", spec.token.id()));
            let lifetime = BTreeSet::from([format!("ttl {} s", spec.token_ttl.0)]);
            of_objects(&bootstrap_rbac::roles()?).into_iter().chain([(token, lifetime)]).collect()
        }
        PhaseId::BootstrapConfig => of_objects(&bootstrap_config::objects(spec, b"")?),
        PhaseId::Placement => match &spec.placement.policy {
            Some(policy) if spec.kubernetes.has_mutating_policies() && !policy.namespaces.is_empty() => {
                of_objects(&placement::policy::objects(policy)?)
            }
            _ => Things::new(),
        },
        PhaseId::KubeProxy => of_objects(&placement::own(spec, &kube_proxy::objects(spec)?)),
        PhaseId::Cni => match &spec.cni {
            Cni::None => Things::new(),
            Cni::KubeRouter => of_objects(&placement::own(spec, &cni::kube_router(spec, mtu)?)),
            Cni::Manifest { origin, yaml } => {
                of_objects(&placement::own(spec, &cni::from_manifest(origin, yaml)?))
            }
        },
        PhaseId::CoreDns => of_objects(&placement::own(spec, &coredns::objects(spec)?)),
        PhaseId::Konnectivity if spec.reach == Reach::Konnectivity => {
            let server = konnectivity::container(spec, Vec::new(), 0);
            let mut all = keyed(spec, Component::Konnectivity, server)?;
            all.extend(of_objects(&konnectivity::objects(spec)?));
            all
        }
        PhaseId::Konnectivity => Things::new(),
        PhaseId::Registry => match spec.registry {
            Some(asked) => {
                // The port that was asked for stands for the one that the engine will give.
                let published = SocketAddr::new(PortMapping::LOOPBACK, asked.port);
                let mut all = keyed(spec, Component::Registry, registry::container(spec, 0))?;
                all.extend(of_objects(&[registry::hosting(published)?]));
                all
            }
            None => Things::new(),
        },
        PhaseId::Steward => {
            let container = steward::container(spec, Vec::new(), 0, String::new())?;
            let mut all = keyed(spec, Component::Steward, container)?;
            all.extend(of_objects(&steward::objects()?));
            all
        }
        PhaseId::Addons => {
            let mut all = Things::new();
            for addon in &spec.addons {
                for wave in addons::objects(addon)? {
                    all.extend(of_objects(&placement::own(spec, &wave)));
                }
            }
            all
        }
        PhaseId::Nodes => {
            let node = |node: &crate::spec::NodeSpec| {
                let labels = node.labels.iter().map(|(key, value)| format!("label {key}={value}"));
                let taints = node.taints.iter().map(|taint| format!("taint {}", taint.key));
                (("node".to_owned(), node.name()), labels.chain(taints).collect())
            };
            spec.nodes.iter().map(node).collect()
        }
    })
}

/// Certificates with who they are for and the names they are valid for.
fn certificates(spec: &ClusterSpec) -> Result<Things, PhaseError> {
    let inputs = PkiInputs::new(spec)?;
    let certificate = |cert: &crate::pki::CertSpec| {
        let sans = match cert.sans {
            SanRule::None => BTreeSet::new(),
            SanRule::ApiServer => inputs.api_server.clone(),
            SanRule::Etcd => inputs.etcd.clone(),
            SanRule::Konnectivity => inputs.konnectivity.clone(),
        };
        let key = ("certificate".to_owned(), cert.base.to_owned());
        (key, sans.iter().map(ToString::to_string).collect())
    };
    Ok(inputs.certs().map(certificate).collect())
}

/// A container that is made anew with the certificates it holds.
fn keyed(spec: &ClusterSpec, component: Component, container: ContainerSpec) -> Result<Things, PhaseError> {
    let holds = |cert: &&crate::pki::CertSpec| {
        let by = [Use::Cert(component), Use::Pair(component), Use::Kubeconfig(component)];
        cert.used_by.iter().any(|used| by.contains(used))
    };
    let of_certs = certificates(spec)?;
    let (key, mut parts) = of_container(&container);
    for cert in CERTS.iter().filter(holds) {
        let names = of_certs.get(&("certificate".to_owned(), cert.base.to_owned()));
        parts.extend(names.into_iter().flatten().map(|name| format!("{}.crt for {name}", cert.base)));
    }
    Ok(Things::from([(key, parts)]))
}

fn of_container(container: &ContainerSpec) -> ((String, String), BTreeSet<String>) {
    let ContainerSpec { name, image, entrypoint, args, env, files, mounts, .. } = container;
    let limits = [
        container.memory_bytes.map(|bytes| format!("memory {bytes}")),
        container.cpu_millis.map(|millis| format!("cpu {millis}m")),
    ];
    // Of what may be secret, that it differs is all that is told.
    let files = files.iter().map(|file| format!("{} ({})", file.path, digest(&file.content)));
    let env = env.iter().map(|(name, value)| format!("{name}={value}"));
    let mounts = mounts.iter().map(|mount| format!("mount {}", mount.target));
    let ports = container.publish.iter().map(|port| format!("port {} at {}", port.container, port.host));
    let parts = args.iter().chain(entrypoint).cloned().chain([format!("image {image}")]);
    let parts = parts.chain(limits.into_iter().flatten()).chain(files).chain(env).chain(mounts).chain(ports);
    (("container".to_owned(), name.clone()), parts.collect())
}

fn of_objects(objects: &[Object]) -> Things {
    let thing = |object: &Object| {
        let reference = object.reference();
        let name = match &reference.namespace {
            Some(namespace) => format!("{namespace}/{}", reference.name),
            None => reference.name.clone(),
        };
        // Signatures differ at each signing.
        let mut value = object.value().clone();
        value["metadata"]["annotations"] = serde_json::Value::Null;
        let content = format!("content {}", digest(value.to_string().as_bytes()));
        ((reference.kind.clone(), name), BTreeSet::from([content]))
    };
    objects.iter().map(thing).collect()
}

/// Enough of SHA-256 to tell two contents apart.
fn digest(content: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{NodeKind, NodeSpec, test_spec};

    type Check = Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Everything that a run would change, as `PHASE CHANGE NAME`.
    fn changes(present: &ClusterSpec, wanted: &ClusterSpec) -> Result<Vec<String>, PhaseError> {
        let steps = preview(Some(present), wanted)?;
        let lines = steps.iter().flat_map(|step| {
            let changed = step.items.iter().filter(|item| item.change != Change::Keep);
            changed.map(move |item| format!("{} {:?} {}", step.phase, item.change, item.name))
        });
        Ok(lines.collect())
    }

    #[test]
    fn an_unchanged_cluster_is_kept_as_it_is() -> Check {
        assert_eq!(changes(&test_spec(), &test_spec())?, Vec::<String>::new());
        Ok(())
    }

    #[test]
    fn kamaji_1165_one_field_redoes_what_depends_on_it_alone() -> Check {
        let present = test_spec();
        let mut sans = present.clone();
        sans.extra_sans = vec!["a.example".to_owned()];
        assert_eq!(
            changes(&present, &sans)?,
            ["certs Replace apiserver", "control-plane Replace hoist-sample-kube-apiserver"]
        );
        let mut argument = present.clone();
        for component in &mut argument.components {
            if component.component == Component::Scheduler {
                component.extra_args.insert("v".to_owned(), "4".to_owned());
            }
        }
        assert_eq!(changes(&present, &argument)?, ["control-plane Replace hoist-sample-kube-scheduler"]);
        let steps = preview(Some(&present), &argument)?;
        let because = steps.iter().flat_map(|step| &step.items).flat_map(|item| &item.because);
        assert_eq!(because.collect::<Vec<_>>(), ["+--v=4"]);
        Ok(())
    }

    #[test]
    fn nodes_come_and_go_with_their_machines() -> Check {
        let (one, mut two) = (test_spec(), test_spec());
        two.nodes.push(NodeSpec::new(2, NodeKind::Container)?);
        assert_eq!(changes(&one, &two)?, ["machines Create hoist-sample-node02", "nodes Create node02"]);
        assert_eq!(changes(&two, &one)?, ["machines Remove hoist-sample-node02", "nodes Remove node02"]);
        Ok(())
    }

    #[test]
    fn a_new_cluster_is_all_new_and_nothing_secret_is_shown() -> Check {
        let mut spec = test_spec();
        spec.skip_phases = vec![PhaseId::CoreDns];
        let steps = preview(None, &spec)?;
        assert!(steps.iter().flat_map(|step| &step.items).all(|item| item.change == Change::Create));
        let text = serde_json::to_string(&steps)?;
        assert!(!text.contains(spec.token.secret()), "{text}");
        let skipped = steps.iter().filter(|step| step.skipped.is_some()).map(|step| step.phase);
        assert_eq!(skipped.collect::<Vec<_>>(), [PhaseId::CoreDns]);
        Ok(())
    }
}
