//! steward: hoist itself, in a container of the shared namespace, keeping what must follow the
//! nodes after `up` has returned. What it does is in `hoist`'s steward module; here is only how
//! it is started, and that it answers.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{Manifest, ManifestError};
use crate::object::Object;
use crate::phases::containers::{self, Watch, component_name};
use crate::phases::flags::Flags;
use crate::phases::{Context, apply, control_plane, images, wait};
use crate::ports::{ContainerSpec, ExecOutput, FileEntry, Program, Runtime, RuntimeError};
use crate::spec::{
    ClusterSpec, Component, Family, NodeKind, NodeSpec, Placement, PortMapping, Protocol, Reach, RoleRule,
    Spread, mapped,
};

const MANIFEST: (&str, &str) =
    ("steward/steward.yaml", include_str!("../../../manifests/steward/steward.yaml"));

/// Where health and metrics are served, on loopback of the shared namespace.
pub const PORT: u16 = 10266;

/// The program in the steward's container, in a volume of its own.
const PROGRAM: &str = "/opt/hoist/hoist";

/// Its settings, beside its kubeconfig.
pub const SETTINGS_PATH: &str = "/etc/kubernetes/steward.json";

/// Where its kubeconfig is ([`crate::pki::Kubeconfigs::file_for`]).
pub const KUBECONFIG_PATH: &str = "/etc/kubernetes/steward.conf";

/// How long it may take until it has seen the cluster once.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub(super) enum StewardError {
    #[error("settings of the steward")]
    Settings(#[source] serde_json::Error),
}

/// What the steward is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Whether it keeps routes to the nodes' pods.
    pub routes: bool,
    /// Routes lead to parts of these alone, whatever a Node says of itself.
    pub pod_subnets: Vec<PodSubnet>,
    pub roles: Vec<RoleRule>,
    /// Whether nodes outside of the cluster's own network get the role [`crate::spec::ELSEWHERE`]:
    /// machines join from there by an endpoint alone.
    pub elsewhere: bool,
    pub spread: Spread,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<Relay>,
}

/// A port of the namespace whose connections go on to nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Relay {
    pub listen: u16,
    pub protocol: Protocol,
    /// Of the nodes.
    pub port: u16,
    /// The only node; any that is Ready when absent.
    pub to: Option<IpAddr>,
    /// Whether nodes are dialled by IPv4.
    pub ipv4: bool,
    /// Whether the namespace has IPv6.
    pub ipv6: bool,
}

impl Relay {
    fn all(spec: &ClusterSpec) -> Vec<Self> {
        let networking = &spec.networking;
        let ipv4 = networking.control_plane().is_ipv4();
        let family = if ipv4 { Family::Ipv4 } else { Family::Ipv6 };
        let relay = |(listen, PortMapping { host: _, port, protocol, node }): (u16, &PortMapping)| Self {
            listen,
            protocol: *protocol,
            port: *port,
            to: node
                .and_then(|number| NodeSpec::new(number.into(), NodeKind::Container).ok())
                .map(|n| n.address(family)),
            ipv4,
            ipv6: networking.has(Family::Ipv6),
        };
        mapped(&spec.ports).map(relay).collect()
    }
}

/// A pod subnet of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSubnet {
    pub subnet: IpNet,
    /// Prefix length of the ranges that kube-controller-manager cuts from it.
    pub node_mask_size: u8,
}

impl PodSubnet {
    /// A flag of the user's for kube-controller-manager wins, as it does there.
    fn of(subnet: IpNet, spec: &ClusterSpec) -> Self {
        let (family, flag) = match subnet {
            IpNet::V4(_) => (Family::Ipv4, "node-cidr-mask-size-ipv4"),
            IpNet::V6(_) => (Family::Ipv6, "node-cidr-mask-size-ipv6"),
        };
        let flags = spec.component(Component::ControllerManager);
        let given = flags.arg(flag).or_else(|| flags.arg("node-cidr-mask-size"));
        let given = given.and_then(|size| size.parse().ok());
        Self { subnet, node_mask_size: given.unwrap_or_else(|| spec.networking.node_mask_size(family)) }
    }

    /// Whether this is a range that a node can have been given.
    pub fn gives(&self, range: &IpNet) -> bool {
        self.subnet.contains(range) && range.prefix_len() == self.node_mask_size
    }
}

impl Settings {
    pub fn of(spec: &ClusterSpec) -> Self {
        let subnets = spec.networking.pod_subnet.iter();
        let pod_subnets = subnets.map(|subnet| PodSubnet::of(subnet, spec)).collect();
        let Placement { roles, spread, policy: _ } = spec.placement.clone();
        let elsewhere = spec.control_plane_endpoint.is_some();
        let relays = Relay::all(spec);
        Self { routes: spec.reach == Reach::Routes, pod_subnets, roles, elsewhere, spread, relays }
    }
}

/// What the steward may do.
///
/// # Errors
/// When the embedded manifest is broken.
pub fn objects() -> Result<Vec<Object>, ManifestError> {
    Manifest::parse(MANIFEST.0, MANIFEST.1)?.objects()
}

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let objects = objects()?;
        // Its rights first: it would only be refused and wait before it asks again.
        let (rights, digest) = tokio::try_join!(apply::phase(cx, &objects), async {
            Ok(cx.ports.runtime.program_digest().await?)
        })?;
        let kubeconfig = cx.outputs.kubeconfigs.get()?.file_for(Component::Steward).into_iter().collect();
        let spec = container(&cx.spec, kubeconfig, cx.outputs.network.get()?.nofile, digest)?;
        let component = Component::Steward.name();
        let changed = containers::reconcile(&cx.ports.runtime, &cx.spec.name, component, spec).await?;
        if changed {
            answers(cx).await?;
        }
        Ok(if changed { Outcome::Done } else { rights })
    }
    .boxed()
}

/// Its container, with this kubeconfig and this build of the program.
///
/// # Errors
/// When its settings can't be written, which would be a fault of hoist.
pub(super) fn container(
    cluster: &ClusterSpec,
    kubeconfig: Vec<FileEntry>,
    nofile: u64,
    digest: String,
) -> Result<ContainerSpec, StewardError> {
    let settings = serde_json::to_vec(&Settings::of(cluster)).map_err(StewardError::Settings)?;
    let mut files = vec![FileEntry { path: SETTINGS_PATH.to_owned(), mode: 0o600, content: settings }];
    files.extend(kubeconfig);
    let mut spec = control_plane::container(cluster, Component::Steward, Flags::default(), files, nofile);
    // One static file needs nothing of an image.
    spec.image = images::reference(cluster, "pause");
    spec.entrypoint = vec![PROGRAM.to_owned()];
    spec.args = ["--log", "hoist=info,warn", "steward"].map(str::to_owned).to_vec();
    // Routes need this one capability, and engines give capabilities to root alone.
    spec.user = Some("0:0".to_owned());
    spec.capabilities = vec!["NET_ADMIN".to_owned()];
    spec.mounts.push(containers::private_mount(cluster, &spec.name, "/opt/hoist"));
    spec.program = Some(Program { path: PROGRAM.to_owned(), digest });
    Ok(spec)
}

/// Waits until it has seen the cluster.
async fn answers(cx: &Context) -> Result<(), PhaseError> {
    let (runtime, name) = (&cx.ports.runtime, component_name(&cx.spec, Component::Steward));
    let watch = Watch::default();
    wait::until(DEADLINE, || async {
        watch.check(runtime, &name).await?;
        Ok(match health(runtime.as_ref(), &name).await {
            Ok(output) if output.code == 0 => wait::Poll::Ready(()),
            Ok(output) => wait::Poll::Pending(output.stdout + &output.stderr),
            // It may be between two starts.
            Err(error) => wait::Poll::Pending(error.to_string()),
        })
    })
    .await
}

/// What the steward in the container `name` says of itself: exit code 0 once it has seen the cluster, and on
/// stdout what it can't do, one a line. Nothing outside the namespace reaches its port.
///
/// # Errors
/// When its container doesn't run.
pub async fn health(runtime: &dyn Runtime, name: &str) -> Result<ExecOutput, RuntimeError> {
    runtime.exec(name, &[PROGRAM, "steward", "--health"], &[]).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;
    use crate::pki::STEWARD;

    type Check = Result<(), Box<dyn std::error::Error>>;

    /// A new right has to be thought about here too.
    #[test]
    fn its_rights_are_few() -> Check {
        let objects = objects()?;
        let role = testing::find(&objects, "ClusterRole", "hoist:steward");
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        let writes: Vec<_> = rules
            .iter()
            .flat_map(|rule| {
                let verbs = rule["verbs"].as_array().into_iter().flatten();
                verbs.map(move |verb| format!("{} {}", verb.as_str().unwrap_or_default(), rule["resources"]))
            })
            .filter(|right| !right.starts_with("list ") && !right.starts_with("watch "))
            .collect();
        assert_eq!(writes, ["patch [\"nodes\"]", "create [\"pods/eviction\"]"]);
        assert!(!role.to_string().contains("secrets") && !role.to_string().contains("\"*\""));
        let binding = testing::find(&objects, "ClusterRoleBinding", "hoist:steward");
        assert_eq!(binding["subjects"][0]["name"], STEWARD);
        Ok(())
    }

    #[test]
    fn settings_are_read_back() -> Check {
        let settings = Settings::of(&testing::spec()?);
        assert_eq!(serde_json::from_slice::<Settings>(&serde_json::to_vec(&settings)?)?, settings);
        Ok(())
    }
}
