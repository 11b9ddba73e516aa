//! A node in a virtual machine beside one in a container. Where no KVM is to be had the machine is
//! emulated, and takes minutes.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    Done, Hoist, Terminal, Traces, exec, fetch, inspect, kill, remove_image, tell, things, until,
};

/// The nodes have it already, and a shell with an HTTP server in it.
const IMAGE: &str = "localhost/hoist/kube-router:v1.36.3";

const CONTAINER: &str = "node01";
const VM: &str = "node02";

const PHASE: i32 = 5;

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

/// An address as URLs have it.
fn host(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// Until it holds for a cluster of emulated processors, in which everything takes its time.
fn eventually(what: &str, look: impl FnMut() -> Result<(), String>) {
    until(what, Duration::from_secs(300), look);
}

#[test]
fn a_vm_and_a_container_are_nodes_of_one_cluster() {
    let hoist = Hoist::new("vm");
    let config =
        hoist.config("networking: {ipFamily: dual}\nnodes:\n- kind: container\n- kind: vm\ntimeout: 25m\n");
    let up = hoist.run(&["up", "--config", &config]);
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    tell(&format!("cluster with a virtual machine:\n{}", up.stderr));

    // Both kinds are told apart, and the machine has its leases from dnsmasq, one of each family.
    let nodes: serde_json::Value =
        serde_json::from_str(&hoist.ok(&["node", "list", "-o", "json"])).expect("node list prints JSON");
    let kinds: Vec<_> = nodes.as_array().into_iter().flatten().map(|node| &node["kind"]).collect();
    assert_eq!(kinds, ["container", "vm"], "{nodes}");
    assert!(["kvm", "tcg"].contains(&nodes[1]["accelerator"].as_str().unwrap_or_default()), "{nodes}");
    let dnsmasq = format!("hoist-{}-dnsmasq", hoist.name);
    let leases = || exec(&dnsmasq, &["cat", "/run/dnsmasq.leases"]).stdout;
    for lease in ["52:55:00:d1:55:02 192.168.66.102 node02 ", " fd00::102 node02 "] {
        assert!(leases().contains(lease), "{}", leases());
    }
    let addresses = in_node(&hoist, VM, "ip -o addr show dev eth0 scope global").stdout;
    for address in ["192.168.66.102/24", "fd00::102/64"] {
        assert!(addresses.contains(address), "{addresses}");
    }
    let flags = in_node(&hoist, VM, "cat /var/lib/kubelet/kubeadm-flags.env").stdout;
    assert!(flags.contains("--node-ip=192.168.66.102,fd00::102"), "{flags}");

    // Pods of either kind reach the other, by each address and through each of the Service.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": {
            "ipFamilyPolicy": "RequireDualStack",
            "selector": { "app": "web" },
            "ports": [{ "port": 80, "targetPort": 8080 }],
        },
    });
    let items = [server(CONTAINER), server(VM), service];
    hoist.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod", "--selector=app=web", "--timeout=300s"]);
    let get = |args: &[&str]| hoist.kubectl(&[&["get"], args].concat());
    let two = |args: &[&str]| {
        let text = get(args);
        let addresses: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        assert_eq!(addresses.len(), 2, "{args:?}: {text}");
        addresses
    };
    let services = two(&["service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"]);
    for (from, to) in [(CONTAINER, VM), (VM, CONTAINER)] {
        let (pod, other) = (format!("web-{from}"), format!("web-{to}"));
        let ask = |url: &str| {
            hoist.kubectl(&["exec", &pod, "--", "busybox", "wget", "-qO-", "-T", "20", url]).trim().to_owned()
        };
        for address in two(&["pod", &other, "-o", "jsonpath={.status.podIPs[*].ip}"]) {
            assert_eq!(ask(&format!("http://{}:8080/", host(&address))), to, "{from} to {to} at {address}");
            let from_node = in_node(&hoist, from, &fetch(&address, 8080, "/"));
            assert_eq!(from_node.stdout.trim(), to, "{from}'s own process: {}", from_node.stderr);
        }
        for address in &services {
            let answer = ask(&format!("http://{}/", host(address)));
            assert!([CONTAINER, VM].contains(&answer.as_str()), "{from} through {address}: {answer}");
        }
        assert_eq!(hoist.kubectl(&["logs", &pod]).trim(), "serving", "{from}");
    }
    assert_eq!(in_node(&hoist, VM, "cat >/dev/null; exit 7").code, Some(7), "exit codes pass");

    people_talk_to_it(&hoist);

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

    // Neither the machine's process, its disk, its sockets nor its tap outlive the cluster.
    let traces = Traces::of(&hoist.name);
    assert!(traces.left().iter().any(|trace| trace.starts_with("process") && trace.contains("qemu")));
    assert_eq!(exec(&dnsmasq, &["test", "-e", "/sys/class/net/tap-node02"]).code, 0, "it has a tap");

    // Removed, it is forgotten by everybody: its number is free again, with the leases.
    hoist.ok(&["node", "remove", VM]);
    assert_eq!(get(&["nodes", "-o", "name"]), "node/node01\n");
    assert_eq!(exec(&dnsmasq, &["test", "-e", "/sys/class/net/tap-node02"]).code, 1, "its tap is gone");
    assert!(!leases().contains("node02"), "{}", leases());
    hoist.ok(&["down"]);
    assert_eq!(traces.left(), Vec::<String>::new(), "left behind");
}

/// A shell and the console, on a terminal.
fn people_talk_to_it(hoist: &Hoist) {
    let soon = Duration::from_secs(60);
    let mut shell = Terminal::run(hoist, &["node", "ssh", VM]);
    shell.type_in("test -t 0 && echo on-$((40 + 2)); exit 3\r");
    until(
        "the shell answers",
        soon,
        || if shell.seen().contains("on-42") { Ok(()) } else { Err(shell.seen()) },
    );
    assert_eq!(shell.end(soon), Some(3));

    let mut console = Terminal::run(hoist, &["node", "console", VM]);
    until("the console shows what the machine writes", soon, || {
        in_node(hoist, VM, "echo seen-$((40 + 2)) >/dev/ttyS0");
        if console.seen().contains("seen-42") { Ok(()) } else { Err(console.seen()) }
    });
    // Ctrl-]
    console.type_in("\u{1d}");
    assert_eq!(console.end(soon), Some(0));
}

/// A disk whose boot sector says so and does nothing else.
fn boot_sector() -> Vec<u8> {
    // ds = 0; print the text behind the code, character by character, by the BIOS; halt.
    const CODE: [u8; 25] = [
        0x31, 0xc0, 0x8e, 0xd8, 0xfc, 0xbe, 0x19, 0x7c, 0xac, 0x08, 0xc0, 0x74, 0x09, 0xb4, 0x0e, 0xbb, 0x07,
        0x00, 0xcd, 0x10, 0xeb, 0xf2, 0xf4, 0xeb, 0xfd,
    ];
    let mut sector = [&CODE[..], b"boot sector reached\r\n"].concat();
    sector.resize(510, 0);
    sector.extend([0x55, 0xaa]);
    sector.resize(1 << 20, 0);
    sector
}

#[test]
fn a_machine_that_boots_nothing_is_told_by_its_stage_and_console() {
    let hoist = Hoist::new("vm-stuck");
    let disk = hoist.home().join("disk.raw");
    std::fs::write(&disk, boot_sector()).expect("the temporary directory is writable");
    let disk = disk.display().to_string();
    let up = ["up", "--nodes", "1", "--node-kind", "vm", "--node-image", &disk, "--timeout", "40s"];
    let done = hoist.run(&up);
    assert_eq!(done.code, Some(PHASE), "{}", done.stderr);
    for word in ["node01", "no further than power-on", "DHCP lease", "boot sector reached"] {
        assert!(done.stderr.contains(word), "no {word:?} in: {}", done.stderr);
    }
    assert_eq!(things(&hoist.name), Vec::<String>::new(), "left behind");

    // The image that was made of it is kept, known by the disk's contents, and listed.
    let images = hoist.ok(&["images", "list"]);
    let made = images.lines().find(|line| line.contains("disk.raw")).expect("the image is listed");
    let reference = made.split_whitespace().last().unwrap_or_default();
    assert!(reference.starts_with("localhost/hoist/vm-image:"), "{made}");
    remove_image(reference);
}
