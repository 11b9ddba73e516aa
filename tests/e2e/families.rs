//! Clusters of other address families than IPv4 alone, and what IPv4 alone leaves out.

use std::collections::BTreeSet;
use std::time::Duration;

use hoist_phases::phases::nodes::HOST_CHECKS;
use serde_json::{Value, json};

use crate::support::{Hoist, calm, exec, on_node, until};

/// The nodes have it already: busybox with a web server and clients.
const IMAGE: &str = "localhost/hoist/kube-router:v1.36.3";

const NODES: [&str; 2] = ["node01", "node02"];

/// Everything here takes a second or two on an idle machine.
const SOON: Duration = Duration::from_secs(120);

/// A web server on each node that greets with the node's name, and one Service before both.
fn workload(hoist: &Hoist) {
    let pods = NODES.map(|node| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": node, "labels": { "app": "web" } },
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                    "command": ["sh", "-c", format!("mkdir /tmp/www; echo {node} >/tmp/www/index.html; exec busybox httpd -f -p 8080 -h /tmp/www")],
                    "readinessProbe": { "tcpSocket": { "port": 8080 }, "periodSeconds": 1 },
                }],
            },
        })
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": {
            "ipFamilyPolicy": "PreferDualStack",
            "selector": { "app": "web" },
            "ports": [{ "port": 80, "targetPort": 8080 }],
        },
    });
    let items: Vec<_> = pods.into_iter().chain([service]).collect();
    hoist.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod", "--selector=app=web", "--timeout=120s"]);
}

fn strings(value: &Value, field: &str) -> Vec<String> {
    let items = value.as_array().cloned().unwrap_or_default();
    let text = |item: &Value| if field.is_empty() { item.clone() } else { item[field].clone() };
    items.iter().filter_map(|item| text(item).as_str().map(str::to_owned)).collect()
}

/// A node's addresses of the cluster's network, in the order of its kubelet.
fn internal_addresses(hoist: &Hoist, node: &str) -> Vec<String> {
    let addresses = hoist.get(&["node", node])["status"]["addresses"].as_array().cloned().unwrap_or_default();
    let internal = addresses.into_iter().filter(|address| address["type"] == "InternalIP");
    internal.filter_map(|address| address["address"].as_str().map(str::to_owned)).collect()
}

fn url(address: &str, port: u16) -> String {
    if address.contains(':') {
        format!("http://[{address}]:{port}/")
    } else {
        format!("http://{address}:{port}/")
    }
}

/// What a pod gets from a URL; retried, since rules and routes follow their objects.
fn get(hoist: &Hoist, pod: &str, url: &str) -> String {
    until(&format!("{pod} gets {url}"), SOON, || {
        let done = hoist.try_kubectl(&["exec", pod, "--", "busybox", "wget", "-qO-", "-T", "2", url]);
        if done.code == Some(0) { Ok(done.stdout.trim().to_owned()) } else { Err(done.stderr) }
    })
}

/// The addresses of a name, written out, that a pod's own server gives for one type of record. That
/// there is none is an answer; a lookup that fails is none and is tried again.
fn lookup(hoist: &Hoist, kind: &str, name: &str) -> BTreeSet<String> {
    let query = format!("-type={kind}");
    let answer = until(&format!("{kind} of {name}"), SOON, || {
        let done = hoist.try_kubectl(&["exec", "node01", "--", "busybox", "nslookup", &query, name]);
        if done.code == Some(0) { Ok(done.stdout) } else { Err(done.stdout + &done.stderr) }
    });
    // The first block tells the server's own address.
    let answers = answer.split("\n\n").skip(1).flat_map(str::lines);
    answers
        .filter_map(|line| line.strip_prefix("Address: ").map(|address| address.trim().to_owned()))
        .collect()
}

fn set(addresses: &[&str]) -> BTreeSet<String> {
    addresses.iter().map(|address| (*address).to_owned()).collect()
}

/// Every pod at each of its addresses from the other node, the Service at each of its own, and
/// names.
fn everything_answers_in(hoist: &Hoist, families: &[&str]) {
    for (from, to) in [("node01", "node02"), ("node02", "node01")] {
        let addresses = strings(&hoist.get(&["pod", to])["status"]["podIPs"], "ip");
        assert_eq!(addresses.len(), families.len(), "{addresses:?}");
        for address in &addresses {
            assert_eq!(get(hoist, from, &url(address, 8080)), to);
        }
    }
    let spec = &hoist.get(&["service", "web"])["spec"];
    assert_eq!(strings(&spec["ipFamilies"], ""), families);
    let addresses = strings(&spec["clusterIPs"], "");
    assert_eq!(addresses.len(), families.len(), "{addresses:?}");
    for address in &addresses {
        assert!(NODES.contains(&get(hoist, "node01", &url(address, 80)).as_str()), "{address}");
    }
    for (family, kind) in [("IPv4", "a"), ("IPv6", "aaaa")] {
        let of = |address: &str| address.contains(':') == (family == "IPv6");
        let wanted: BTreeSet<_> = addresses.iter().filter(|address| of(address)).cloned().collect();
        assert_eq!(wanted.is_empty(), !families.contains(&family));
        assert_eq!(lookup(hoist, kind, "web.default.svc.cluster.local"), wanted, "{kind} of the Service");
    }
}

fn in_namespace(hoist: &Hoist, script: &str) -> String {
    let output = exec(&format!("hoist-{}-dnsmasq", hoist.name), &["bash", "-euc", script]);
    assert_eq!(output.code, 0, "{script}: {}{}", output.stdout, output.stderr);
    output.stdout
}

/// The second node is joined by the printed line: it has both addresses all the same.
#[test]
fn a_dual_stack_cluster_serves_both_families() {
    let hoist = Hoist::new("dual");
    let networking = "{ipFamily: dual, nodeMaskSizeIpv4: 20, nodeMaskSizeIpv6: 72}";
    let config = hoist.config(&format!("networking: {networking}\nnodes: [{{count: 1}}]\n"));
    hoist.ok(&["up", "--config", &config, "--wait", "nodes"]);
    hoist.ok(&["node", "add", "1", "--no-join"]);
    let line = hoist.ok(&["join-command"]);
    assert!(line.starts_with("kubeadm join 192.168.66.2:6443 "), "{line}");
    let join = format!("{} --ignore-preflight-errors={} 2>&1", line.trim(), HOST_CHECKS.join(","));
    let output = exec(&format!("hoist-{}-node02", hoist.name), &["bash", "-c", &join]);
    assert_eq!(output.code, 0, "{}", output.stdout);

    hoist.kubectl(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=120s"]);
    assert_eq!(internal_addresses(&hoist, "node01"), ["192.168.66.101", "fd00::101"]);
    assert_eq!(internal_addresses(&hoist, "node02"), ["192.168.66.102", "fd00::102"]);
    for node in NODES {
        let ranges = strings(&hoist.get(&["node", node])["spec"]["podCIDRs"], "");
        assert!(
            matches!(ranges.as_slice(), [v4, v6] if v4.ends_with("/20") && v6.ends_with("/72")),
            "{ranges:?}"
        );
    }
    let listed: Value = serde_json::from_str(&hoist.ok(&["node", "list", "-o", "json"])).expect("JSON");
    assert_eq!(strings(&listed[1]["addresses"], ""), ["192.168.66.102", "fd00::102"]);

    workload(&hoist);
    everything_answers_in(&hoist, &["IPv4", "IPv6"]);
    for (kind, node, control_plane) in
        [("a", "192.168.66.102", "192.168.66.2"), ("aaaa", "fd00::102", "fd00::1")]
    {
        assert_eq!(lookup(&hoist, kind, "node02."), set(&[node]));
        assert_eq!(lookup(&hoist, kind, "control-plane."), set(&[control_plane]));
    }
    // The cluster's DNS answers at both of its addresses.
    for server in ["10.96.0.10", "fd10:96::a"] {
        let ask =
            ["exec", "node02", "--", "busybox", "nslookup", "kubernetes.default.svc.cluster.local", server];
        assert!(hoist.kubectl(&ask).contains("10.96.0.1"), "{server}");
    }
    let present = hoist.run(&["up", "--ip-family", "ipv4"]);
    assert_eq!(present.code, Some(8), "{}", present.stderr);
    assert!(
        present.stderr.contains("networking.podSubnet: is 10.244.0.0/16,fd10:244::/56"),
        "{}",
        present.stderr
    );
    hoist.ok(&["down"]);
}

#[test]
fn an_ipv6_cluster_does_without_ipv4() {
    let hoist = Hoist::new("six");
    hoist.ok(&["up", "--ip-family", "ipv6", "--nodes", "2"]);
    assert_eq!(internal_addresses(&hoist, "node01"), ["fd00::101"]);
    assert_eq!(internal_addresses(&hoist, "node02"), ["fd00::102"]);
    let line = hoist.ok(&["join-command"]);
    assert!(line.starts_with("kubeadm join [fd00::1]:6443 "), "{line}");
    let slices = hoist.get(&["endpointslices", "kubernetes"]);
    assert_eq!(slices["endpoints"][0]["addresses"][0], "fd00::1", "{slices}");

    workload(&hoist);
    everything_answers_in(&hoist, &["IPv6"]);
    assert_eq!(lookup(&hoist, "aaaa", "kubernetes.default.svc.cluster.local"), set(&["fd10:96::1"]));
    assert_eq!(lookup(&hoist, "aaaa", "node02."), set(&["fd00::102"]));
    assert_eq!(lookup(&hoist, "aaaa", "control-plane."), set(&["fd00::1"]));
    // The API server reaches kubelets and pods.
    assert!(hoist.kubectl(&["exec", "node02", "--", "busybox", "hostname"]).contains("node02"));

    // Nothing of IPv4 on the cluster's network.
    assert_eq!(in_namespace(&hoist, "ip -4 addr show dev br0"), "");
    assert!(!in_namespace(&hoist, "cat /etc/hoist/dnsmasq.conf").contains("192.168.66."));
    let node = exec(&format!("hoist-{}-node01", hoist.name), &["ip", "-4", "addr", "show", "dev", "eth0"]);
    assert_eq!((node.code, node.stdout.as_str()), (0, ""));
    hoist.ok(&["down"]);
}

#[test]
fn a_default_cluster_has_nothing_of_ipv6() {
    let (shared, _calm) = calm();
    // No address, not even a link-local one or that of loopback, and no forwarding.
    let look = "cat /proc/net/if_inet6 2>/dev/null || :; cat /proc/sys/net/ipv6/conf/all/forwarding 2>/dev/null || echo 0";
    assert_eq!(in_namespace(&shared.hoist, look), "0\n");
    for node in NODES {
        assert_eq!(on_node(shared, node, look), "0\n", "{node}");
        assert_eq!(internal_addresses(&shared.hoist, node).len(), 1);
    }
    let conf = in_namespace(&shared.hoist, "cat /etc/hoist/dnsmasq.conf");
    assert!(!conf.contains("fd00:") && !conf.contains("enable-ra"), "{conf}");
    assert!(!in_namespace(&shared.hoist, "cat /run/dnsmasq.leases").contains("duid"));
    let listeners = in_namespace(&shared.hoist, "cat /proc/net/udp6 2>/dev/null || :");
    assert!(listeners.lines().count() <= 1, "{listeners}");
    let dns = shared.hoist.get(&["service", "kube-dns", "--namespace", "kube-system"]);
    assert_eq!(strings(&dns["spec"]["ipFamilies"], ""), ["IPv4"]);
}
