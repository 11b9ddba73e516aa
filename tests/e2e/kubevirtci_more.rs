//! More of `hoist kubevirtci`: other numbers of nodes, other networks, the provider's own control
//! plane. Minutes each where machines are emulated, so not part of the usual run.

use std::process::{Command, Stdio};

use crate::support::{Kubevirtci, PODS, has_role, until};

/// The one node is both.
fn is_everything(cluster: &Kubevirtci) {
    cluster.label_workers("node-role.kubernetes.io/control-plane");
    let nodes = cluster.nodes(1);
    assert!(has_role(&nodes[0], "control-plane") && has_role(&nodes[0], "worker"), "{nodes:?}");
    assert!(!nodes[0]["spec"]["taints"].to_string().contains("node-role"), "{nodes:?}");
}

fn static_pods(cluster: &Kubevirtci) -> String {
    cluster.value(&["pods", "-n", "kube-system", "-l", "tier=control-plane"], "{.items[*].metadata.name}")
}

#[test]
fn one_node_and_the_control_plane_in_containers() {
    let cluster = Kubevirtci::new("one");
    cluster.up(&["--nodes=1", "--control-plane=containers", "--flannel"]);
    cluster.fetch_kubeconfig("https://192.168.66.2:6443", None);
    is_everything(&cluster);
    assert_eq!(static_pods(&cluster), "");
    assert_eq!(cluster.ok(&["ssh", "node01", "--", "hostname"]), "node01\n");
    cluster.node_port_answers();
    cluster.rm_leaves_nothing();
}

/// As upstream: `kubeadm init` on node01, which pulls its images from where a script puts them
/// while the machine boots.
#[test]
fn one_node_by_the_providers_own_init() {
    let cluster = Kubevirtci::new("init");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let port = until("the registry's port is published", PODS, || {
                let done = cluster.run(&["ports", "registry"]);
                if done.code == Some(0) { Ok(done.stdout.trim().to_owned()) } else { Err(done.stderr) }
            });
            let push = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kubevirtci/push-control-plane");
            let pushed = Command::new(push).arg(port).stdin(Stdio::null()).output();
            let pushed = pushed.expect("the script can be started");
            assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        });
        cluster.up(&["--nodes=1", "--flannel", "--no-etcd-fsync", "--enable-psa", "--enable-audit"]);
    });
    // kubeadm's certificate is not valid for 127.0.0.1.
    cluster.fetch_kubeconfig("https://192.168.66.101:6443", Some("kubernetes"));
    is_everything(&cluster);
    let components = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let wanted = components.map(|component| format!("{component}-node01")).join(" ");
    until("all static pods are known", PODS, || {
        let pods = static_pods(&cluster);
        if pods == wanted { Ok(()) } else { Err(pods) }
    });
    let audit = cluster.ok(&["scp", "/var/log/k8s-audit/k8s-audit.log", "-"]);
    assert!(audit.contains("kubernetes-admin"));
    cluster.node_port_answers();
    cluster.rm_leaves_nothing();
}

/// Three nodes with Calico's ranges: pods are reached through konnectivity, whose agents the machines
/// pull from the cluster's registry.
#[test]
fn three_nodes_with_calico() {
    let cluster = Kubevirtci::new("three");
    cluster.up(&["--nodes=3"]);
    cluster.fetch_kubeconfig("https://192.168.66.2:6443", None);
    cluster.label_workers("!node-role.kubernetes.io/control-plane");
    let nodes = cluster.nodes(3);
    let workers = nodes.iter().filter(|node| has_role(node, "worker")).count();
    assert_eq!((workers, has_role(&nodes[0], "control-plane")), (2, true));
    assert_eq!(cluster.ok(&["ssh", "node03", "--", "hostname"]), "node03\n");
    cluster.node_port_answers();
    // Through the API server to a pod.
    let path = "/api/v1/namespaces/kube-system/services/ready:80/proxy/ready";
    assert_eq!(cluster.kubectl(&["get", "--raw", path]).expect("the pod answers"), "OK");
    let agents = ["daemonset", "-n", "kube-system", "konnectivity-agent"];
    assert_eq!(cluster.value(&agents, "{.status.numberReady}"), "3");
    let image = cluster.value(&agents, "{.spec.template.spec.containers[0].image}");
    assert_eq!(image, "registry:5000/hoist/konnectivity-agent:v1.36.3");
    cluster.rm_leaves_nothing();
}

#[test]
fn two_nodes_with_ipv6_alone() {
    let cluster = Kubevirtci::new("ipv6");
    cluster.up(&["--nodes=2", "--flannel", "--single-stack"]);
    cluster.fetch_kubeconfig("https://[fd00::1]:6443", None);
    cluster.label_workers("!node-role.kubernetes.io/control-plane");
    for node in cluster.nodes(2) {
        let addresses = node["status"]["addresses"].to_string();
        assert!(addresses.contains("fd00::10") && !addresses.contains("192.168.66."), "{addresses}");
        let ranges = node["spec"]["podCIDRs"].to_string();
        assert!(ranges.contains("fd10:244:") && !ranges.contains('.'), "{ranges}");
    }
    // As up.sh looks: CoreDNS is ready, and its one address is IPv6.
    until("CoreDNS is ready", PODS, || {
        let wait = ["wait", "pod", "-n", "kube-system", "-l", "k8s-app=kube-dns", "--for=condition=Ready"];
        cluster.kubectl(&[&wait[..], &["--timeout=10s"]].concat())
    });
    let dns = ["pods", "-n", "kube-system", "-l", "k8s-app=kube-dns"];
    let addresses = cluster.value(&dns, "{.items[*].status.podIPs[*].ip}");
    assert!(addresses.split(' ').all(|address| address.starts_with("fd10:244:")), "{addresses}");
    cluster.rm_leaves_nothing();
}
