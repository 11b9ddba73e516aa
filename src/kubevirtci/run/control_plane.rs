//! The control plane in containers, by hoist's own phases, and what nodes need to know of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hoist_phases::engine::{Events, Plan, run as run_plan};
use hoist_phases::phases::network::attach;
use hoist_phases::phases::{Context, Outputs, PHASES, PhaseId, images};
use hoist_phases::pki::{CertId, Kubeconfig};
use hoist_phases::ports::{Files, Ports, Runtime as _, Store, StoreError};
use hoist_phases::spec::ClusterSpec;
use hoist_phases::spec::networking::API_PORT;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use super::super::args::RunArgs;
use super::super::provider::{self, Provider};
use super::super::{Cluster, guest, spec};
use super::push;
use crate::cluster::kube::Connector;
use crate::error::BoxError;
use crate::images::{self as image_store, EnsureOptions, IMAGES, Progress};
use crate::report::{self, Style};

/// The provider's own addons come from node01, and its nodes aren't hoist's.
const SKIPPED: [PhaseId; 5] =
    [PhaseId::Machines, PhaseId::KubeProxy, PhaseId::Cni, PhaseId::CoreDns, PhaseId::Nodes];

/// Time for the control plane, which takes seconds on an idle host.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Addresses of node01.
const NODE01: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 66, 101));
const NODE01_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x101));

/// What nodes need of the control plane.
#[derive(Clone)]
pub(super) struct ControlPlane {
    /// Where nodes reach the API server.
    pub(super) endpoint: SocketAddr,
    pub(super) token: String,
    /// `sha256:…` over the authority's public key.
    pub(super) ca_hash: String,
    /// The administrator's kubeconfig for node01.
    pub(super) admin_conf: String,
    /// Absent when node01 is the control plane.
    spec: Option<Arc<ClusterSpec>>,
}

impl ControlPlane {
    /// Keeps the API port ahead of the forwards that machines have added.
    pub(super) async fn keep_api_port(&self, cluster: &Cluster) -> Result<(), BoxError> {
        let Some(spec) = &self.spec else { return Ok(()) };
        for chain in attach::keep_api_port(cluster.engine.as_ref(), spec).await? {
            report::tell(format_args!("put the API port's rule in front again ({chain})"));
        }
        Ok(())
    }
}

/// Keys and certificates that live as long as this process: nothing of a cluster is kept on the host.
#[derive(Debug, Default)]
struct Memory(Mutex<Files>);

impl Memory {
    fn files(&self) -> std::sync::MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.files().get(path).cloned())
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), StoreError> {
        self.files().insert(path.to_owned(), content.to_vec());
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.files().remove(path);
        Ok(())
    }
}

fn cluster_spec(cluster: &Cluster, args: &RunArgs, provider: &Provider) -> Result<ClusterSpec, BoxError> {
    spec::cluster(&cluster.prefix, &cluster.container("dnsmasq"), args, provider)
}

/// Sees to it that the control plane's images are there: by a pull, or a build.
pub(super) async fn have_images(
    cluster: &Cluster,
    args: &RunArgs,
    provider: &Provider,
) -> Result<(), BoxError> {
    let spec = cluster_spec(cluster, args, provider)?;
    let needed = images::needed(&spec);
    let missing = cluster.engine.missing_images(&needed).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let version = spec.kubernetes.to_string();
    let roles = IMAGES.iter().map(|row| row.role).filter(|role| missing.contains(&role.reference(&version)));
    let options = EnsureOptions { roles: roles.collect(), ..EnsureOptions::default() };
    let tell = |Progress { subject, step, .. }: Progress| report::tell(format_args!("{subject}: {step}"));
    image_store::ensure(cluster.engine.docker(), &version, &options, &tell).await?;
    Ok(())
}

/// Starts it; ends when nodes can join.
pub(super) async fn start(
    cluster: &Cluster,
    args: &RunArgs,
    provider: &Provider,
) -> Result<ControlPlane, BoxError> {
    let spec = Arc::new(cluster_spec(cluster, args, provider)?);
    let (sender, receiver) = unbounded_channel();
    let display = report::follow(Style::Plain, receiver);
    let context = Context {
        spec: Arc::clone(&spec),
        ports: Ports {
            runtime: Arc::clone(&cluster.engine) as _,
            store: Arc::new(Memory::default()),
            connect: Arc::new(Connector),
        },
        outputs: Arc::new(Outputs::default()),
        events: Events::new(sender),
        timeout: TIMEOUT,
    };
    let plan = Plan::new(PHASES)?.skipping(&SKIPPED, "the provider's");
    let running = async { run_plan(&plan, &context).await.map_err(BoxError::from) };
    tokio::try_join!(running, push::addons(cluster, &context.spec))?;
    let pki = context.outputs.pki.get()?;
    let endpoint = spec.networking.api_endpoint();
    let server = format!("https://{endpoint}");
    let made = ControlPlane {
        endpoint,
        token: spec.token.expose().to_owned(),
        ca_hash: pki.ca_cert_hash(),
        admin_conf: Kubeconfig::with_kubeadm_names(pki, CertId::Admin, &server).to_yaml()?,
        spec: Some(spec),
    };
    drop(context);
    display.await?;
    Ok(made)
}

/// The same of a control plane on node01.
pub(super) async fn of_node01(cluster: &Cluster, args: &RunArgs) -> Result<ControlPlane, BoxError> {
    let provider = provider::from_node(cluster, args).await?;
    let hash = "openssl x509 -pubkey -noout -in /etc/kubernetes/pki/ca.crt | openssl pkey -pubin -outform der | \
                sha256sum | cut -d ' ' -f 1";
    let hash = guest::script(cluster, 1, "read the authority's hash", hash).await?;
    Ok(ControlPlane {
        endpoint: SocketAddr::new(if args.switches.single_stack { NODE01_IPV6 } else { NODE01 }, API_PORT),
        token: provider.token,
        ca_hash: format!("sha256:{}", hash.trim()),
        admin_conf: String::new(),
        spec: None,
    })
}

/// Warns when the policies in the provider's machines say something else than those that the API
/// server was started with before any machine could be asked.
pub(super) async fn compare_policies(cluster: &Cluster, args: &RunArgs) -> Result<(), BoxError> {
    let policies = spec::policies(args);
    let pairs = [
        ("/etc/kubernetes/psa.yaml", policies.admission, args.switches.enable_psa),
        ("/etc/kubernetes/audit/adv-audit.yaml", policies.audit, args.switches.enable_audit),
    ];
    for (path, ours, replaced) in pairs {
        if replaced {
            continue;
        }
        let theirs =
            guest::script(cluster, 1, "read a policy", &format!("cat {path} 2>/dev/null || true")).await?;
        let read = |text: &str| serde_saphyr::from_str::<Value>(text).ok().map(normal);
        if !theirs.trim().is_empty() && read(&theirs) != read(ours) {
            report::tell(format_args!(
                "warning: {path} of the cluster image is another policy than the API server was started with"
            ));
        }
    }
    Ok(())
}

/// A policy's stages can be left out for each rule or for all.
fn normal(mut policy: Value) -> Value {
    let rule = policy.pointer_mut("/rules/0").and_then(Value::as_object_mut);
    let stages = rule.and_then(|rule| rule.remove("omitStages"));
    if let (Some(policy), Some(stages)) = (policy.as_object_mut(), stages) {
        policy.insert("omitStages".to_owned(), stages);
    }
    policy
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn a_stage_left_out_is_left_out_wherever_that_is_said() {
        let read = |text: &str| normal(serde_saphyr::from_str::<Value>(text).unwrap());
        let by_rule = "kind: Policy\nrules:\n- level: Request\n  omitStages: [Panic]\n";
        let for_all = "kind: Policy\nomitStages: [Panic]\nrules:\n- level: Request\n";
        assert_eq!(read(by_rule), read(for_all));
        assert_ne!(read(by_rule), read("kind: Policy\nrules:\n- level: Request\n"));
        assert_eq!(
            read("kind: AdmissionConfiguration\n"),
            serde_json::json!({ "kind": "AdmissionConfiguration" })
        );
    }
}
