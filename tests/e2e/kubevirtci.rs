//! `hoist kubevirtci` as kubevirtci's scripts use it, with a stand-in for a cluster image whose
//! machines are emulated where there is no KVM.

use std::process::Command;

use serde_json::Value;

use crate::support::{Done, Kubevirtci, has_role};

/// Ranges, node masks and CNI are the provider's with Flannel. The deploy flags find stand-ins of
/// kubevirtci's manifests.
const FLAGS: [&str; 10] = [
    "--nodes=2",
    "--flannel",
    "--run-etcd-on-memory",
    "--enable-psa",
    "--enable-audit",
    "--enable-nfs-csi",
    "--deploy-multus",
    "--deploy-cdi",
    "--cdi-version=v1.2.3",
    "--deploy-network-resources-injector",
];

/// What `make cluster-up` and those who come after it do, in order.
#[test]
fn cluster_up_with_two_nodes() {
    let cluster = Kubevirtci::new("two");
    cluster.up(&FLAGS);
    cluster.fetch_kubeconfig("https://192.168.66.2:6443", None);
    addons_are_up(&cluster);
    the_image_does_the_same(&cluster);

    cluster.label_workers("!node-role.kubernetes.io/control-plane");
    roles_and_ranges(&cluster.nodes(2));

    assert_eq!(cluster.ok(&["ssh", "node02", "--", "hostname"]), "node02\n");
    assert_eq!(cluster.run(&["ssh", "node02", "--", "exit 7"]).code, Some(7));
    assert_eq!(cluster.run(&["ports", "ssh-worker"]).code, Some(1));

    let audit = cluster.ok(&["scp", "/var/log/k8s-audit/k8s-audit.log", "-"]);
    let events = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert!(events.into_iter().any(|event| event["user"]["username"] == "kubernetes-admin"));

    // --enable-psa: outside the exempted namespaces pods must be restricted.
    cluster.kubectl(&["create", "namespace", "strict"]).expect("a namespace");
    let refused = cluster.kubectl(&["run", "-n", "strict", "root", "--image=localhost/any", "--privileged"]);
    assert!(refused.is_err_and(|error| error.contains("violates PodSecurity")));

    cluster.node_port_answers();
    cluster.rm_leaves_nothing();
}

/// What the deploy flags ask for was made in gocli's order, and is up when `run` is over.
fn addons_are_up(cluster: &Kubevirtci) {
    let system = ["-n", "kube-system"];
    let multus = [&system[..], &["daemonset", "kube-multus-ds"]].concat();
    let up = cluster.value(&multus, "{.status.numberReady} of {.status.desiredNumberScheduled}");
    assert_eq!(up, "2 of 2");
    let injector = [&system[..], &["deployment", "network-resources-injector"]].concat();
    assert_eq!(cluster.value(&injector, "{.status.availableReplicas}"), "1");
    // The claim was bound, as its volume remembers, before it was deleted.
    assert_eq!(cluster.value(&["pv", "nfs-csi"], "{.status.phase}"), "Released");
    assert_eq!(cluster.value(&["-n", "nfs-csi", "pvc"], "{.items}"), "[]");
    let operator = [&system[..], &["configmap", "cdi-operator"]].concat();
    assert_eq!(cluster.value(&operator, "{.data.version}"), "v1.2.3");

    let crd = ["crd", "cdis.stand-in.hoist.dev"];
    let order: [&[&str]; 5] = [&["namespace", "nfs-csi"], &multus, &crd, &["cdi", "cdi"], &injector];
    let made = order.map(|object| cluster.value(object, "{.metadata.creationTimestamp}"));
    assert!(made.is_sorted(), "{made:?}");
}

/// The image that takes gocli's place needs the engine's socket and no file of the host.
fn the_image_does_the_same(cluster: &Kubevirtci) {
    let image = hoist::images::Role::Gocli.reference("v1.36.3");
    let mut command = Command::new("docker");
    command.args(["run", "--rm", "--network=host", "--volume=/var/run/docker.sock:/var/run/docker.sock"]);
    command.args([&image, "ports", "--prefix", &cluster.prefix, "k8s"]);
    let done = Done::of(command);
    assert_eq!((done.code, done.stdout), (Some(0), format!("{}\n", cluster.port("k8s"))), "{}", done.stderr);
}

/// node01 is the control plane's to KubeVirt's operator and takes pods; node02 is a worker.
fn roles_and_ranges(nodes: &[Value]) {
    let [first, second] = nodes else { panic!("{nodes:?}") };
    assert!(has_role(first, "control-plane") && !has_role(first, "worker"), "{first}");
    assert!(has_role(second, "worker") && !has_role(second, "control-plane"), "{second}");
    // That of a node not ready goes a moment after it is.
    let taints = first["spec"]["taints"].to_string();
    assert!(!taints.contains("node-role"), "{taints}");
    assert_eq!(second["spec"]["podCIDR"].as_str().map(|cidr| cidr.ends_with("/20")), Some(true));
}

/// Nothing is made for what can't be served, and it is told by name.
#[test]
fn a_refused_flag_makes_nothing() {
    let cluster = Kubevirtci::named("refused");
    let done = cluster.run(&["run", "k8s-1.36", "--enable-istio", "--gpu=0000:65:00.0"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--enable-istio: ") && done.stderr.contains("--gpu: "), "{}", done.stderr);
    assert_eq!((done.stdout.as_str(), cluster.left()), ("", Vec::new()));
}
