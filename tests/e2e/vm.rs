//! A node in a virtual machine beside one in a container. Where no KVM is to be had the machine is
//! emulated, and takes minutes.

use std::time::Duration;

use serde_json::json;

use crate::support::{Done, Hoist, exec, fetch, inspect, kill, tell, things, until};

/// The nodes have it already, and a shell with an HTTP server in it.
const IMAGE: &str = "localhost/hoist/kube-router:v1.36.3";

const CONTAINER: &str = "node01";
const VM: &str = "node02";

/// A web server on a node that greets with the node's name.
fn server(node: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("web-{node}"), "labels": { "app": "web" } },
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["sh", "-c", format!("mkdir /tmp/www; echo {node} >/tmp/www/index.html; echo serving; exec busybox httpd -f -p 8080 -h /tmp/www")],
            }],
        },
    })
}

fn in_node(hoist: &Hoist, node: &str, script: &str) -> Done {
    hoist.run(&["node", "ssh", node, "--", "bash", "-euc", script])
}

/// Until it holds for a cluster of emulated processors, in which everything takes its time.
fn eventually(what: &str, look: impl FnMut() -> Result<(), String>) {
    until(what, Duration::from_secs(300), look);
}

#[test]
fn a_vm_and_a_container_are_nodes_of_one_cluster() {
    let hoist = Hoist::new("vm");
    let config = hoist.config("nodes:\n- kind: container\n- kind: vm\ntimeout: 25m\n");
    let up = hoist.run(&["up", "--config", &config]);
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    tell(&format!("cluster with a virtual machine:\n{}", up.stderr));

    // Both kinds are told apart, and the machine has its lease from dnsmasq.
    let nodes: serde_json::Value =
        serde_json::from_str(&hoist.ok(&["node", "list", "-o", "json"])).expect("node list prints JSON");
    let kinds: Vec<_> = nodes.as_array().into_iter().flatten().map(|node| &node["kind"]).collect();
    assert_eq!(kinds, ["container", "vm"], "{nodes}");
    assert!(["kvm", "tcg"].contains(&nodes[1]["accelerator"].as_str().unwrap_or_default()), "{nodes}");
    let leases = exec(&format!("hoist-{}-dnsmasq", hoist.name), &["cat", "/run/dnsmasq.leases"]).stdout;
    assert!(leases.contains("52:55:00:d1:55:02 192.168.66.102 node02"), "{leases}");

    // Pods of either kind reach the other, by address and through the Service.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
    });
    let items = [server(CONTAINER), server(VM), service];
    hoist.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod", "--selector=app=web", "--timeout=300s"]);
    let get = |args: &[&str]| hoist.kubectl(&[&["get"], args].concat());
    let service = get(&["service", "web", "-o", "jsonpath={.spec.clusterIP}"]);
    for (from, to) in [(CONTAINER, VM), (VM, CONTAINER)] {
        let (pod, other) = (format!("web-{from}"), format!("web-{to}"));
        let address = get(&["pod", &other, "-o", "jsonpath={.status.podIP}"]);
        let wget =
            |host: &str| ["exec", &pod, "--", "busybox", "wget", "-qO-", "-T", "20", host].map(str::to_owned);
        let ask = |host: &str| hoist.kubectl(&wget(host).iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ask(&format!("http://{address}:8080/")).trim(), to, "{from} to {to}");
        let answer = ask(&format!("http://{service}/"));
        assert!([CONTAINER, VM].contains(&answer.trim()), "{from} through the Service: {answer}");
        assert_eq!(hoist.kubectl(&["logs", &pod]).trim(), "serving", "{from}");
        let from_node = in_node(&hoist, from, &fetch(&address, 8080, "/"));
        assert_eq!(from_node.stdout.trim(), to, "{from}'s own process: {}", from_node.stderr);
    }
    assert_eq!(in_node(&hoist, VM, "cat >/dev/null; exit 7").code, Some(7), "exit codes pass");

    // Killed hard: the API doesn't mind; started again it is the machine it was.
    let identity = in_node(&hoist, VM, "cat /etc/machine-id /var/lib/kubelet/pki/kubelet-client-current.pem");
    assert_eq!(identity.code, Some(0), "{}", identity.stderr);
    let container = format!("hoist-{}-{VM}", hoist.name);
    kill(&container);
    assert_eq!(inspect(&container)["State"]["Running"], false);
    eventually("the node is not Ready", || {
        let status = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        let ready = get(&["node", VM, "-o", status]);
        if ready == "True" { Err(ready) } else { Ok(()) }
    });
    hoist.ok(&["node", "start", VM]);
    let again = in_node(&hoist, VM, "cat /etc/machine-id /var/lib/kubelet/pki/kubelet-client-current.pem");
    assert_eq!(again.stdout, identity.stdout, "another machine came back");

    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new(), "left behind");
}
