//! Pods reach each other, services, names and the outside; the API server reaches pods.
use crate::support::{
    BIG, CLIENT, NODE_PORT, SERVER, calm, exec, fetch, forwarded, in_pod, on_node, server_ip, service_ip,
    workload,
};

const GREETING: &str = "I am server\n";

#[test]
fn a_pod_reaches_a_pod_of_another_node() {
    let (shared, _calm) = calm();
    workload(shared);
    assert_eq!(in_pod(shared, CLIENT, &fetch(&server_ip(shared), 8080, "/")), GREETING);
    // Its address is its own, not that of a node in between.
    let client = shared.hoist.kubectl(&["get", "pod", CLIENT, "-o", "jsonpath={.status.podIP}"]);
    assert!(shared.hoist.kubectl(&["logs", SERVER]).contains(&format!("served {client}")));
}

/// minikube#9528: with an MTU too large for the way, small answers pass and large ones hang.
#[test]
fn minikube_9528_a_large_transfer_passes_between_nodes() {
    let (shared, _calm) = calm();
    workload(shared);
    let script = format!("{{ {}; }} | wc -c", fetch(&server_ip(shared), 8080, "/big"));
    assert_eq!(in_pod(shared, CLIENT, &script).trim(), BIG.to_string());
}

#[test]
fn minikube_9528_everything_follows_the_mtu_of_the_engine() {
    let (shared, _calm) = calm();
    workload(shared);
    let dnsmasq = format!("hoist-{}-dnsmasq", shared.hoist.name);
    let of = |device: &str| {
        let output = exec(&dnsmasq, &["cat", &format!("/sys/class/net/{device}/mtu")]);
        assert_eq!(output.code, 0, "{device}: {}", output.stderr);
        output.stdout.trim().to_owned()
    };
    let engine = of("eth0");
    assert!(engine.parse::<u32>().is_ok_and(|mtu| mtu >= 576), "{engine}");
    assert_eq!(of("br0"), engine);
    assert_eq!(of("veth-node01"), engine);
    assert_eq!(on_node(shared, "node01", "cat /sys/class/net/eth0/mtu").trim(), engine);
    assert_eq!(in_pod(shared, CLIENT, "cat /sys/class/net/eth0/mtu").trim(), engine);
}

#[test]
fn a_service_answers_at_its_cluster_address() {
    let (shared, _calm) = calm();
    workload(shared);
    let address = service_ip(shared);
    assert_eq!(in_pod(shared, CLIENT, &fetch(&address, 80, "/")), GREETING);
    // From the server's own node, to itself, and from a node's own processes too.
    assert_eq!(in_pod(shared, SERVER, &fetch(&address, 80, "/")), GREETING);
    assert_eq!(on_node(shared, "node01", &fetch(&address, 80, "/")), GREETING);
}

#[test]
fn a_node_port_answers_on_every_node() {
    let (shared, _calm) = calm();
    workload(shared);
    let dnsmasq = format!("hoist-{}-dnsmasq", shared.hoist.name);
    for node in ["192.168.66.101", "192.168.66.102"] {
        assert_eq!(in_pod(shared, CLIENT, &fetch(node, NODE_PORT, "/")), GREETING, "{node}");
        let output = exec(&dnsmasq, &["bash", "-euc", &fetch(node, NODE_PORT, "/")]);
        assert_eq!(output.stdout, GREETING, "{node}: {}", output.stderr);
    }
}

/// Through the pod's own resolver, search list and all, as every program in a pod does.
#[test]
fn names_of_the_cluster_resolve_in_pods() {
    let (shared, _calm) = calm();
    workload(shared);
    let api = shared.hoist.kubectl(&["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"]);
    for name in ["kubernetes.default", "kubernetes", "kubernetes.default.svc.cluster.local"] {
        let found = in_pod(shared, CLIENT, &format!("getent ahostsv4 {name}"));
        assert!(found.starts_with(&format!("{api} ")), "{name}: {found}");
    }
    assert!(in_pod(shared, CLIENT, "getent ahostsv4 server").starts_with(&service_ip(shared)));
    let missing = in_pod(shared, CLIENT, "getent ahostsv4 nobody.default || echo none");
    assert_eq!(missing, "none\n");
}

#[test]
fn names_that_only_the_namespace_knows_resolve_in_pods() {
    let (shared, _calm) = calm();
    workload(shared);
    for (name, address) in
        [("control-plane", "192.168.66.2"), ("node01", "192.168.66.101"), ("node77", "192.168.66.177")]
    {
        let found = in_pod(shared, CLIENT, &format!("getent ahostsv4 {name}"));
        assert!(found.starts_with(&format!("{address} ")), "{name}: {found}");
    }
}

#[test]
fn coredns_is_two_and_asks_the_namespace() {
    let (shared, _calm) = calm();
    let hoist = &shared.hoist;
    let deployment = hoist.get(&["deployment", "coredns", "--namespace", "kube-system"]);
    assert_eq!(deployment["status"]["readyReplicas"], 2);
    let budgets = hoist.get(&["poddisruptionbudgets", "--namespace", "kube-system"]);
    let selector = &deployment["spec"]["selector"]["matchLabels"];
    let budgets = budgets["items"].as_array().expect("a list");
    let ours: Vec<_> =
        budgets.iter().filter(|budget| budget["spec"]["selector"]["matchLabels"] == *selector).collect();
    assert_eq!(ours.len(), 1, "{budgets:?}");
    let (healthy, allowed) = (&ours[0]["status"]["currentHealthy"], &ours[0]["status"]["disruptionsAllowed"]);
    assert_eq!((healthy, allowed), (&2.into(), &1.into()));
    let config = hoist.get(&["configmap", "coredns", "--namespace", "kube-system"]);
    let corefile = config["data"]["Corefile"].as_str().unwrap_or_default();
    assert!(corefile.contains("forward . {$NAMESPACE_DNS}"), "{corefile}");
    let pod = &deployment["spec"]["template"]["spec"]["containers"][0];
    let upstream = serde_json::json!({ "name": "NAMESPACE_DNS", "value": "192.168.66.2" });
    assert!(pod["env"].as_array().is_some_and(|env| env.contains(&upstream)), "{pod}");
    assert!(!corefile.contains("resolv.conf"), "{corefile}");
}

#[test]
fn kubectl_logs_and_exec() {
    let (shared, _calm) = calm();
    workload(shared);
    assert!(shared.hoist.kubectl(&["logs", SERVER, "--tail", "-1"]).starts_with("listening\n"));
    let failed =
        shared.hoist.try_kubectl(&["exec", CLIENT, "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(7), "out\n"), "{}", failed.stderr);
    assert!(failed.stderr.starts_with("err\n"), "{}", failed.stderr);
}

#[test]
fn kubectl_cp_there_and_back() {
    let (shared, _calm) = calm();
    workload(shared);
    let (there, back) = (shared.hoist.home().join("there"), shared.hoist.home().join("back"));
    let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&there, &content).expect("the temporary directory is writable");
    shared.hoist.kubectl(&["cp", &there.display().to_string(), "client:/tmp/copied"]);
    shared.hoist.kubectl(&["cp", "client:/tmp/copied", &back.display().to_string()]);
    assert!(std::fs::read(&back).expect("a copy") == content, "the copy differs");
}

#[test]
fn kubectl_port_forward() {
    let (shared, _calm) = calm();
    workload(shared);
    let answer = forwarded(&shared.hoist);
    assert!(answer.ends_with(GREETING), "{answer}");
}
