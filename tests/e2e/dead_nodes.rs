//! Nodes whose machines are stopped, killed, or run without a kubelet.

use serde_json::json;

use crate::support::{alone, kill, on_node, things};

const NOT_READY: i32 = 6;

/// A pod on a node, of an image that every node has.
fn pod_on(node: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("on-{node}"), "labels": { "app": "dead-nodes" } },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "main", "image": "localhost/hoist/pause:v1.36.3", "imagePullPolicy": "Never" }],
        },
    })
}

/// Keeps systemd from starting the kubelet; it outlives a restart of the machine.
const BAR: &str = "cd /etc/systemd/system; mkdir -p kubelet.service.d; \
                   printf '[Unit]\nConditionPathExists=/nowhere\n' >kubelet.service.d/99-barred.conf";
const UNBAR: &str = "rm /etc/systemd/system/kubelet.service.d/99-barred.conf; \
                     systemctl daemon-reload; systemctl start kubelet";

#[test]
fn dead_nodes_are_told_and_can_be_removed() {
    let (shared, _alone) = alone();
    let hoist = &shared.hoist;
    hoist.ok(&["node", "add", "2", "--timeout", "5m"]);

    // The API still has the Ready of before the stop.
    on_node(shared, "node03", BAR);
    let done = hoist.run(&["node", "restart", "node03", "--timeout", "15s"]);
    assert_eq!(done.code, Some(NOT_READY), "{}", done.stderr);
    for part in ["level nodes not reached", "the kubelet of node03 has not reported", "hint: --timeout"] {
        assert!(done.stderr.contains(part), "no {part:?} in: {}", done.stderr);
    }
    on_node(shared, "node03", UNBAR);
    hoist.ok(&["node", "start", "node03"]);

    // Nobody ends their pods.
    let items = ["node03", "node04"].map(pod_on);
    hoist.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod", "--selector=app=dead-nodes", "--timeout=120s"]);
    hoist.ok(&["node", "stop", "node03"]);
    kill(&format!("hoist-{}-node04", hoist.name));
    let done = hoist.run(&["node", "remove", "node03", "node04"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for node in ["node03", "node04"] {
        let told =
            format!("{node}: its machine does not run; not waited for: pod default/on-{node} is ending");
        assert!(done.stderr.contains(&told), "{}", done.stderr);
    }
    assert_eq!(hoist.kubectl(&["get", "nodes", "-o", "name"]), "node/node01\nnode/node02\n");
    let left: Vec<_> = things(&hoist.name).into_iter().filter(|thing| thing.contains("node0")).collect();
    assert!(left.iter().all(|thing| thing.contains("node01") || thing.contains("node02")), "{left:?}");
    // The controller of pods without a node takes up to a minute.
    hoist.kubectl(&[
        "delete",
        "pod",
        "--selector=app=dead-nodes",
        "--force",
        "--grace-period=0",
        "--ignore-not-found",
    ]);
}
