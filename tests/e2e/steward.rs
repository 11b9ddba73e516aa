//! What follows the nodes once `up` has returned: routes, roles, replicas apart.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hoist_phases::ports::Status;
use serde_json::{Value, json};

use crate::support::{Hoist, exec, pid, state, tell, until, wait};

/// Long enough for a machine that does other things as well.
const SOON: Duration = Duration::from_secs(60);

/// What is asked of CoreDNS after a second node is Ready.
const SPREAD: Duration = Duration::from_secs(30);

/// One steward's life: nodes join while it is killed, one leaves, roles are taken away.
#[test]
fn the_steward_follows_the_nodes() {
    let hoist = Hoist::new("steward");
    hoist.ok(&["up"]);
    is_confined(&hoist);
    routes_are(&hoist, &["node01"]);
    roles_are(&hoist, "node01", &["control-plane", "worker"]);
    a_virt_operator_is_scheduled(&hoist, "scheduled");

    killed_while_nodes_join(&hoist);
    routes_are(&hoist, &["node01", "node02", "node03"]);
    for node in ["node02", "node03"] {
        roles_are(&hoist, node, &["worker"]);
    }
    until("status is well", SOON, || well(&hoist));
    // The API server reaches pods of every node by their addresses.
    hoist.ok(&["up", "--wait", "webhook"]);
    what_is_undone_by_hand_comes_back(&hoist);

    hoist.ok(&["node", "remove", "node03"]);
    routes_are(&hoist, &["node01", "node02"]);
    fifty_nodes_cost_little(&hoist);

    hoist.ok(&["up", "--no-roles"]);
    for node in ["node01", "node02"] {
        roles_are(&hoist, node, &[]);
    }
    without_roles_the_doctor_knows_why(&hoist);
}

/// The effective capabilities are NET_ADMIN (bit 12, capabilities(7)) and nothing else.
fn is_confined(hoist: &Hoist) {
    let process = std::fs::read_to_string(format!("/proc/{}/status", pid(&steward(hoist)))).expect("it runs");
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        let line = process.lines().find(|line| line.starts_with(set)).expect("a set of capabilities");
        assert_eq!(line, format!("{set}:\t{:016x}", 1 << 12));
    }
    assert!(process.lines().any(|line| line == "NoNewPrivs:\t1"), "{process}");
}

fn killed_while_nodes_join(hoist: &Hoist) {
    let add = hoist.start(&["node", "add", "2"]);
    let mut killed = 0;
    let mut seen = BTreeSet::from(["node01".to_owned()]);
    // In the middle of what each new Node asks of it.
    until("both nodes have joined", 3 * SOON, || {
        let nodes: BTreeSet<_> = names(hoist, &["nodes"]).into_iter().collect();
        if nodes.len() > seen.len() {
            crash(hoist);
            killed += 1;
        }
        seen = nodes;
        if seen.len() == 3 { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    until("a second node is Ready", SOON, || {
        let ready = ready_nodes(hoist).len();
        if ready >= 2 { Ok(()) } else { Err(format!("{ready} are")) }
    });
    let begin = Instant::now();
    until("CoreDNS is ready on two nodes", SPREAD, || {
        let nodes = places(hoist, "kube-system", "k8s-app=kube-dns");
        if nodes.len() >= 2 { Ok(()) } else { Err(format!("{nodes:?}")) }
    });
    tell(&format!("CoreDNS on two nodes {} ms after the second was Ready", begin.elapsed().as_millis()));
    let done = wait(add);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let now = state(&steward(hoist)).expect("it is there");
    assert!(now.restarts >= 1 && now.status == Status::Running, "{now:?}");
    tell(&format!(
        "steward killed {killed} times while two nodes joined, started again {} times",
        now.restarts
    ));
}

/// SIGKILL from outside, if it runs at that moment.
fn crash(hoist: &Hoist) {
    if state(&steward(hoist)).is_some_and(|now| now.status == Status::Running) {
        let process = rustix::process::Pid::from_raw(pid(&steward(hoist))).expect("a process");
        // It may have just ended by itself.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}

fn what_is_undone_by_hand_comes_back(hoist: &Hoist) {
    let range = hoist.kubectl(&["get", "node", "node02", "-o", "jsonpath={.spec.podCIDR}"]);
    let removed = exec(&dnsmasq(hoist), &["ip", "route", "del", &range]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    // One that isn't ours stays.
    let other = exec(&dnsmasq(hoist), &["ip", "route", "add", "10.244.200.0/24", "via", "192.168.66.101"]);
    assert_eq!(other.code, 0, "{}", other.stderr);
    let begin = Instant::now();
    routes_are(hoist, &["node01", "node02", "node03"]);
    tell(&format!("a route removed by hand was back after {} ms", begin.elapsed().as_millis()));
    let others = exec(&dnsmasq(hoist), &["ip", "route", "show", "10.244.200.0/24"]).stdout;
    assert!(others.contains("192.168.66.101"), "{others:?}");
    exec(&dnsmasq(hoist), &["ip", "route", "del", "10.244.200.0/24"]);

    hoist.kubectl(&["label", "node", "node02", "node-role.kubernetes.io/worker-"]);
    roles_are(hoist, "node02", &["worker"]);
}

/// Plain objects, as far as the steward can tell like any other node.
fn fifty_nodes_cost_little(hoist: &Hoist) {
    let fake = |n: u32| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("fake{n}"), "labels": {"fake": "yes"}},
            "spec": {"podCIDR": format!("10.244.{}.0/24", 100 + n), "podCIDRs": [format!("10.244.{}.0/24", 100 + n)]},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("192.168.66.{}", 200 + n)}]},
        })
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": (1..=50).map(fake).collect::<Vec<_>>()});
    let before = used(hoist);
    let begin = Instant::now();
    hoist.create(&list.to_string());
    until("a route for each node", SOON, || {
        let routes = routes(hoist).len();
        if routes == 52 { Ok(()) } else { Err(format!("{routes} routes")) }
    });
    until("a role for each node", SOON, || {
        let workers = names(hoist, &["nodes", "-l", "node-role.kubernetes.io/worker"]).len();
        if workers == 52 { Ok(()) } else { Err(format!("{workers} workers")) }
    });
    let after = used(hoist);
    tell(&format!(
        "50 more nodes: routes and roles after {} ms; steward took {} ms of processor time, {} KiB resident \
         (before: {} KiB)",
        begin.elapsed().as_millis(),
        after.0 - before.0,
        after.1,
        before.1
    ));
    hoist.kubectl(&["delete", "nodes", "-l", "fake=yes"]);
    routes_are(hoist, &["node01", "node02"]);
}

/// Processor time in milliseconds and resident memory in KiB of the steward.
fn used(hoist: &Hoist) -> (u64, u64) {
    let process = format!("/proc/{}", pid(&steward(hoist)));
    let stat = std::fs::read_to_string(format!("{process}/stat")).expect("it runs");
    // Fields 14 and 15 of proc_pid_stat(5), in hundredths of a second; the name in field 2 may hold blanks.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    let status = std::fs::read_to_string(format!("{process}/status")).expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    (10 * ticks, resident.trim().trim_end_matches(" kB").parse().expect("a number"))
}

/// KubeVirt's operator will only run on a control-plane node.
fn virt_operator(name: &str) -> String {
    let exists = json!({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                        {"nodeSelectorTerms": [{"matchExpressions": [exists]}]}}},
                    "containers": [{"name": "main", "image": "localhost/hoist/kube-router:v1.36.3",
                        "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}],
                },
            },
        },
    })
    .to_string()
}

fn a_virt_operator_is_scheduled(hoist: &Hoist, name: &str) {
    hoist.apply(&virt_operator(name));
    until("the operator runs on the control-plane node", SOON, || {
        let nodes = places(hoist, "default", &format!("app={name}"));
        if nodes == BTreeSet::from(["node01".to_owned()]) { Ok(()) } else { Err(format!("{nodes:?}")) }
    });
    hoist.ok(&["doctor"]);
    hoist.kubectl(&["delete", "deployment", name]);
}

fn without_roles_the_doctor_knows_why(hoist: &Hoist) {
    hoist.apply(&virt_operator("stuck"));
    let findings = until("the doctor finds it", SOON, || {
        let done = hoist.run(&["doctor", "-o", "json"]);
        if done.code == Some(9) { Ok(done.stdout) } else { Err(format!("{:?} {}", done.code, done.stdout)) }
    });
    let checks: Value = serde_json::from_str(&findings).expect("JSON");
    let check = checks.as_array().into_iter().flatten().find(|check| check["id"] == "pending-pods");
    let finding = &check.expect("the check")["findings"][0];
    let (reason, remedy) = (finding["reason"].to_string(), finding["remedy"].to_string());
    assert!(
        reason.contains("default/stuck-") && reason.contains("node-role.kubernetes.io/control-plane"),
        "{reason}"
    );
    assert!(remedy.contains("placement.roles"), "{remedy}");
    let text = hoist.run(&["doctor"]).stdout;
    assert!(text.contains("fail     pending-pods:") && text.contains("remedy:"), "{text}");
}

fn steward(hoist: &Hoist) -> String {
    format!("hoist-{}-steward", hoist.name)
}

fn dnsmasq(hoist: &Hoist) -> String {
    format!("hoist-{}-dnsmasq", hoist.name)
}

/// Destination and gateway of the routes with the steward's mark.
fn routes(hoist: &Hoist) -> BTreeSet<(String, String)> {
    let output = exec(&dnsmasq(hoist), &["ip", "-4", "route", "show", "proto", "72"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    output.stdout.lines().map(words).map(|words| (words[0].clone(), words[2].clone())).collect()
}

/// Waits until there is one route for each of these nodes and no other.
fn routes_are(hoist: &Hoist, nodes: &[&str]) {
    until(&format!("routes to the pods of {nodes:?}"), SOON, || {
        let wanted: Option<BTreeSet<_>> = nodes
            .iter()
            .map(|node| {
                let found = hoist.try_kubectl(&["get", "node", node, "-o", "json"]).stdout;
                let node: Value = serde_json::from_str(&found).ok()?;
                let range = node["spec"]["podCIDR"].as_str()?.to_owned();
                Some((range, node["status"]["addresses"][0]["address"].as_str()?.to_owned()))
            })
            .collect();
        let found = routes(hoist);
        if wanted.as_ref() == Some(&found) { Ok(()) } else { Err(format!("{found:?} instead of {wanted:?}")) }
    });
}

fn roles_are(hoist: &Hoist, node: &str, wanted: &[&str]) {
    until(&format!("{node} has the roles {wanted:?}"), SOON, || {
        let node = hoist.get(&["node", node]);
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        let roles: Vec<_> =
            labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/")).collect();
        if roles == wanted { Ok(()) } else { Err(format!("{roles:?}")) }
    });
}

fn names(hoist: &Hoist, what: &[&str]) -> Vec<String> {
    let output = hoist.kubectl(&[&["get", "-o", "jsonpath={.items[*].metadata.name}"], what].concat());
    output.split_whitespace().map(str::to_owned).collect()
}

fn ready_nodes(hoist: &Hoist) -> Vec<String> {
    let nodes = hoist.get(&["nodes"]);
    let ready = |node: &&Value| condition(node, "Ready");
    let nodes = nodes["items"].as_array().into_iter().flatten().filter(ready);
    nodes.filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == kind && c["status"] == "True")
}

/// Nodes that have a ready pod of this kind.
pub(crate) fn places(hoist: &Hoist, namespace: &str, selector: &str) -> BTreeSet<String> {
    let pods = hoist.get(&["pods", "--namespace", namespace, "-l", selector]);
    let staying = |pod: &&Value| condition(pod, "Ready") && pod["metadata"]["deletionTimestamp"].is_null();
    let pods = pods["items"].as_array().into_iter().flatten().filter(staying);
    pods.filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned)).collect()
}

fn well(hoist: &Hoist) -> Result<(), String> {
    let done = hoist.run(&["status"]);
    if done.code == Some(0) { Ok(()) } else { Err(done.stdout + &done.stderr) }
}
