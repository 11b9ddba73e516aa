//! Virtual machines that don't come up, and leases that are given back, over a fake engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hoist::store::StateRoot;
use hoist_phases::engine::{Events, PhaseError};
use hoist_phases::phases::{Context, NetworkFacts, Outputs, PHASES, PhaseId, machines};
use hoist_phases::ports::{ExecOutput, KubeApi, KubeConnect, KubeError, Network, Ports};
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec, NodeKind, NodeSpec, VmSize};
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::fake_runtime::FakeRuntime;

const DNSMASQ: &str = "hoist-c-dnsmasq";

/// Machines boot without an API.
struct NoApi;

#[async_trait]
impl KubeConnect for NoApi {
    async fn connect(&self, _: &str) -> Result<Arc<dyn KubeApi>, KubeError> {
        panic!("machines need no API")
    }
}

/// A cluster of both families with one virtual machine.
fn dual_stack() -> ClusterSpec {
    let token = BootstrapToken::generate().expect("random numbers");
    let mut spec = hoist::config::defaults(ClusterName::new("c").unwrap(), token);
    spec.networking.pod_subnet = "10.244.0.0/16,fd10:244::/56".parse().unwrap();
    spec.networking.service_subnet = "10.96.0.0/12,fd10:96::/112".parse().unwrap();
    spec.nodes = vec![NodeSpec::new(2, NodeKind::Vm(VmSize::default())).unwrap()];
    spec
}

async fn engine() -> FakeRuntime {
    let engine = FakeRuntime::default();
    engine.run("c", "owner", "hoist-c-owner", Network::Own).await;
    engine.run("c", "dnsmasq", DNSMASQ, Network::Container("hoist-c-owner".to_owned())).await;
    engine
}

fn code(code: i64) -> ExecOutput {
    let stderr = if code == 0 { "" } else { "refused" };
    ExecOutput { code, stdout: String::new(), stderr: stderr.to_owned() }
}

/// Boots the machine, of which each command with one of `works` in it succeeds; that no lease of an earlier start is
/// in its way is seen to before.
async fn boot(works: &'static [&str]) -> Result<(), PhaseError> {
    let engine = engine().await;
    engine.on_exec(move |_, command, _| {
        let line = command.join(" ");
        let released = command[0] == "perl";
        code(i64::from(!released && !works.iter().any(|part| line.contains(part))))
    });
    let temp = TempDir::new()?;
    let (sender, _receiver) = unbounded_channel();
    let spec = dual_stack();
    let cx = Context {
        ports: Ports {
            runtime: Arc::new(engine),
            store: Arc::new(StateRoot::new(temp.path()).cluster(&spec.name)),
            connect: Arc::new(NoApi),
        },
        spec: Arc::new(spec),
        outputs: Arc::new(Outputs::default()),
        events: Events::new(sender),
        // Three seconds are kept for the last words.
        timeout: Duration::from_secs(5),
    };
    let api = "127.0.0.1:6443".parse()?;
    cx.outputs.network.set(NetworkFacts { registry: None, api, mtu: 1500, nofile: 1024 });
    let phase = PHASES.iter().find(|phase| phase.id == PhaseId::Machines).unwrap();
    (phase.run)(&cx).await.map(drop)
}

#[tokio::test]
async fn a_machine_is_told_by_the_stage_that_it_reached_and_its_console() {
    const LEASE: &str = "grep -qF  192.168.66.102  /run/dnsmasq.leases";
    const LEASE6: &str = "grep -qF  fd00::102  /run/dnsmasq.leases";
    const SSH: &str = "hoist-exec true";
    let cases = [
        (&[][..], "power-on (it has no DHCP lease of IPv4)"),
        (&[LEASE], "power-on (it has no DHCP lease of IPv6)"),
        (&[LEASE, LEASE6], "its DHCP lease (SSH does not answer)"),
        (&[LEASE, LEASE6, SSH], "SSH (containerd has not started)"),
    ];
    let results = futures_util::future::join_all(cases.map(|(works, _)| boot(works))).await;
    for (result, (_, reached)) in results.into_iter().zip(cases) {
        let error = result.expect_err(reached).to_string();
        let told = format!("node02: got no further than {reached}; the end of its console:\nlast words of");
        assert!(error.starts_with(&told), "{error}");
    }
}

#[tokio::test]
async fn a_removed_machine_gives_the_leases_of_all_families_back() {
    let (engine, spec) = (engine().await, dual_stack());
    engine.on_exec(|container, command, _| {
        let addresses: Vec<_> = command.iter().rev().take(2).copied().collect();
        code(i64::from(container != DNSMASQ || addresses != ["fd00::102", "192.168.66.102"]))
    });
    machines::release(&engine, &spec, &spec.nodes[0]).await.unwrap();

    engine.on_exec(|_, _, _| code(2));
    let error = machines::release(&engine, &spec, &spec.nodes[0]).await.unwrap_err().to_string();
    assert_eq!(error, "node02: giving its leases back to dnsmasq failed with exit code 2: refused");

    let container = NodeSpec::new(2, NodeKind::Container).unwrap();
    machines::release(&engine, &spec, &container).await.expect("it has no lease");
}
