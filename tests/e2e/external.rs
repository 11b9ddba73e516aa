//! A machine that hoist has not made, on another network, joins through the control plane's endpoint.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::Duration;

use bollard::models::{
    Ipam, IpamConfig, NetworkConnectRequest, NetworkCreateRequest, NetworkDisconnectRequest,
};
use hoist_phases::ports::{ContainerSpec, Mount, MountKind, Network, Runtime as _};
use serde_json::Value;

use crate::steward::places;
use crate::support::{Hoist, block, engine, exec, things, until};

/// A network of the engine with one machine in it; both go in the end.
struct Elsewhere {
    network: String,
    machine: String,
    gateway: String,
}

/// What systemd, containerd and kubelet need, as in docs/nodes.md.
const CAPABILITIES: &str = "AUDIT_CONTROL AUDIT_READ AUDIT_WRITE CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID \
     IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW SETFCAP \
     SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_NICE SYS_PTRACE";

impl Elsewhere {
    fn new() -> Self {
        let id = std::process::id();
        let net = format!("172.30.{}", id % 256);
        let network = format!("e2e-elsewhere-{id}");
        let gateway = format!("{net}.1");
        let config = IpamConfig {
            subnet: Some(format!("{net}.0/24")),
            gateway: Some(gateway.clone()),
            ..IpamConfig::default()
        };
        let request = NetworkCreateRequest {
            name: network.clone(),
            ipam: Some(Ipam { config: Some(vec![config]), ..Ipam::default() }),
            ..NetworkCreateRequest::default()
        };
        block(engine().docker().create_network(request)).expect("a network");
        Self { network, machine: format!("e2e-elsewhere-{id}-machine"), gateway }
    }

    /// Starts the machine, as its owner would: nothing of hoist's knows of it.
    fn start(&self) {
        let mut machine = ContainerSpec::new(&self.machine, "localhost/hoist/node:v1.36.3", Network::Own);
        machine.hostname = Some("elsewhere".to_owned());
        machine.capabilities = CAPABILITIES.split_whitespace().map(str::to_owned).collect();
        machine.read_only_root = false;
        machine.unconfined = true;
        let volume = |dir: &str| Mount { target: format!("/var/lib/{dir}"), kind: MountKind::Anonymous };
        let tmpfs = |target: &str| Mount {
            target: target.to_owned(),
            kind: MountKind::Tmpfs { bytes: None, exec: true },
        };
        machine.mounts = vec![volume("containerd"), volume("kubelet"), tmpfs("/run"), tmpfs("/tmp")];
        machine.stop_signal = Some("SIGRTMIN+3".to_owned());
        block(async {
            let docker = engine().docker();
            engine().create(&machine).await.expect("a machine");
            let container = self.machine.clone();
            let leave = NetworkDisconnectRequest { container: container.clone(), force: None };
            docker.disconnect_network("bridge", leave).await.expect("the default network");
            let join = NetworkConnectRequest { container, endpoint_config: None };
            docker.connect_network(&self.network, join).await.expect("the other network");
            engine().start(&self.machine).await.expect("the machine starts");
        });
        until("containerd runs", Duration::from_secs(120), || {
            let output = exec(&self.machine, &["ctr", "version"]);
            if output.code == 0 { Ok(()) } else { Err(output.stderr) }
        });
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = block(engine().remove(&self.machine));
        if let Err(error) = block(engine().docker().remove_network(&self.network)) {
            crate::support::tell(&format!("network {} is left: {error}", self.network));
        }
    }
}

#[test]
fn a_machine_of_another_network_joins_through_the_endpoint() {
    let elsewhere = Elsewhere::new();
    let hoist = Hoist::new("external");
    // Free a moment ago, and nobody else's: the network is new.
    let free = TcpListener::bind((elsewhere.gateway.as_str(), 0)).and_then(|socket| socket.local_addr());
    let endpoint = free.expect("the gateway's address is this host's").to_string();
    let up = hoist.run(&["up", "--control-plane-endpoint", &endpoint, "--listen", &elsewhere.gateway]);
    assert_eq!(up.code, Some(0), "{}", up.stderr);

    // hoist's own node knows the control plane by the endpoint, and so do pods.
    let own = format!("hoist-{}-node01", hoist.name);
    let kubelet = exec(&own, &["grep", "server:", "/etc/kubernetes/kubelet.conf"]);
    assert!(kubelet.stdout.contains(&endpoint), "{kubelet:?}");
    let slice = hoist.get(&["endpointslice", "kubernetes"]);
    assert_eq!(slice["endpoints"][0]["addresses"][0], elsewhere.gateway.as_str(), "{slice}");
    let server = hoist.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    assert_eq!(server, format!("https://{endpoint}"));

    elsewhere.start();
    let join = hoist.ok(&["join-command"]);
    assert!(join.starts_with(&format!("kubeadm join {endpoint} ")), "{join}");
    // The host's kernel is not the machine's to judge, as for hoist's own container nodes.
    let join = format!("{} --ignore-preflight-errors=SystemVerification 2>&1", join.trim());
    let joined = exec(&elsewhere.machine, &["/bin/sh", "-c", &join]);
    assert_eq!(joined.code, 0, "{}", joined.stdout);
    // A join is over once the kubelet has its certificate, a moment before it makes its Node.
    hoist.kubectl(&["wait", "--for=create", "node/elsewhere", "--timeout=120s"]);
    hoist.kubectl(&["wait", "--for=condition=Ready", "node/elsewhere", "--timeout=120s"]);

    let nodes: Value = serde_json::from_str(&hoist.ok(&["node", "list", "-o", "json"])).expect("JSON");
    let kinds: Vec<_> = nodes.as_array().expect("a list").iter().map(|node| node["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("container"), Some("external")], "{nodes}");

    // Only through its agent: the namespace has no way to that network but the host's.
    let pod = pod_on(&hoist, "elsewhere", "kube-proxy");
    let place = ["--namespace", "kube-system", pod.as_str()];
    until("its kubelet is reached", Duration::from_secs(60), || {
        let log = hoist.try_kubectl(&[&["logs"], &place[..]].concat());
        if log.code == Some(0) && !log.stdout.is_empty() { Ok(()) } else { Err(log.stdout + &log.stderr) }
    });
    // A container that is being started again has a log, and nothing to run a command in.
    until("a command runs in its pod", Duration::from_secs(60), || {
        let words = ["--", "/bin/sh", "-c", "echo $NODE_NAME"];
        let name = hoist.try_kubectl(&[&["exec"], &place[..], &words].concat());
        if name.code == Some(0) && name.stdout == "elsewhere\n" {
            Ok(())
        } else {
            Err(name.stdout + &name.stderr)
        }
    });

    dns_stays_at_home(&hoist);

    hoist.ok(&["node", "remove", "elsewhere"]);
    let left = hoist.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
    assert_eq!(left, "node01");
    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new());
    assert_eq!(exec(&elsewhere.machine, &["true"]).code, 0, "the machine is not hoist's to remove");
}

/// A scheduler that prefers to keep replicas apart would move one there as soon as it is placed anew.
fn dns_stays_at_home(hoist: &Hoist) {
    let role =
        hoist.get(&["node", "elsewhere"])["metadata"]["labels"]["node-role.kubernetes.io/elsewhere"].clone();
    assert_eq!(role, "");
    let deployment = ["deployment/coredns", "--namespace", "kube-system"];
    hoist.kubectl(&[&["rollout", "restart"], &deployment[..]].concat());
    hoist.ok(&["wait", "--for", deployment[0], "--namespace", "kube-system", "--timeout", "120s"]);
    assert_eq!(places(hoist, "kube-system", "k8s-app=kube-dns"), BTreeSet::from(["node01".to_owned()]));
    hoist.ok(&["wait", "--for", "level=dns", "--timeout", "60s"]);
    // Nor does the steward see a second node in it.
    let steward = hoist.run(&["logs", "steward"]);
    assert_eq!(steward.code, Some(0), "{}", steward.stderr);
    assert!(!(steward.stdout + &steward.stderr).contains("evicted"), "nothing is gained by it");
}

fn pod_on(hoist: &Hoist, node: &str, app: &str) -> String {
    let (label, field) = (format!("k8s-app={app}"), format!("spec.nodeName={node}"));
    let args = ["get", "pods", "--namespace", "kube-system", "-l", &label, "--field-selector", &field];
    hoist.kubectl(&[&args[..], &["-o", "jsonpath={.items[0].metadata.name}"]].concat())
}

#[test]
fn what_can_not_be_listened_on_is_refused_with_the_way_out() {
    let hoist = Hoist::new("listen");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    // An address of documentation (RFC 5737), which no host has.
    for listen in [address.as_str(), "203.0.113.7:6443"] {
        let refused = hoist.run(&["up", "--nodes", "0", "--listen", listen]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        let said = format!("listenAddress {listen}: ");
        assert!(refused.stderr.contains(&said) && refused.stderr.contains("are free"), "{}", refused.stderr);
        assert_eq!(things(&hoist.name), Vec::<String>::new(), "{listen}");
    }
}
