//! How the API server reaches kubelets and pods: one cluster, each way after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use hoist_phases::ports::Runtime as _;
use serde_json::Value;

use crate::security::ports_are_as_told;
use crate::support::{
    CLIENT, Hoist, SERVER, WITHIN, Webhook, available, block, calls, containers, deploy, engine, exec,
    forwarded, judged, tell, until,
};

const GREETING: &str = "I am server\n";

/// Through the API server to the pod, on whichever node it is.
const POD_PROXY: &str = "/api/v1/namespaces/default/pods/server:8080/proxy/";

#[test]
fn the_api_reaches_nodes_and_pods_as_it_is_told() {
    let hoist = Hoist::new("reach");
    hoist.ok(&["up", "--nodes", "2", "--reach", "konnectivity"]);
    ports_are_as_told(&hoist, &["konnectivity"]);
    deploy(&hoist);
    let webhook = Webhook::start(&hoist, "node02");
    no_service_works_in_the_namespace(&hoist);

    everything_is_reached(&hoist, "konnectivity");
    assert_eq!(pod_routes(&hoist), Vec::<String>::new());
    nothing_goes_without_the_server(&hoist);

    changes(&hoist, &["--reach", "routes", "--wait", "webhook"], &["kube-apiserver", "steward"]);
    assert_eq!(pod_routes(&hoist).len(), 2);
    everything_is_reached(&hoist, "routes");

    // The API server is the same: what it reaches is the namespace's matter.
    changes(&hoist, &["--reach", "none"], &["steward"]);
    until("no route leads to pods", Duration::from_secs(30), || {
        let routes = pod_routes(&hoist);
        if routes.is_empty() { Ok(()) } else { Err(routes.join(", ")) }
    });
    // Kubelets are on the nodes' own network, pods behind them.
    kubelets_are_reached(&hoist);
    pods_are_not_reached(&hoist);
    drop(webhook);
}

/// Ids of the containers, by role or node.
fn ids(hoist: &Hoist) -> BTreeMap<String, String> {
    let all = containers(&hoist.name).into_iter();
    let called = |name: &str| name.trim_start_matches(&format!("hoist-{}-", hoist.name)).to_owned();
    all.map(|container| (called(&container.name), container.id)).collect()
}

/// `up` with these flags makes these containers anew, ends konnectivity's server and touches nothing else.
fn changes(hoist: &Hoist, flags: &[&str], remade: &[&str]) {
    let mut wanted = ids(hoist);
    wanted.remove("konnectivity-server");
    hoist.ok(&[&["up"], flags].concat());
    let after = ids(hoist);
    let other: Vec<_> = wanted.iter().filter(|(role, id)| after.get(*role) != Some(id)).collect();
    assert_eq!(other.iter().map(|(role, _)| role.as_str()).collect::<Vec<_>>(), remade, "{flags:?}");
    assert_eq!(after.len(), wanted.len(), "{after:?}");
}

/// There is no kube-proxy, nor anything else that knows a Service: the API server dials endpoints.
fn no_service_works_in_the_namespace(hoist: &Hoist) {
    let address = hoist.kubectl(&["get", "service", "webhook", "-o", "jsonpath={.spec.clusterIP}"]);
    let dnsmasq = format!("hoist-{}-dnsmasq", hoist.name);
    let rules = exec(&dnsmasq, &["iptables-save"]);
    assert!(rules.code == 0 && rules.stdout.contains("MASQUERADE"), "{rules:?}");
    assert!(!rules.stdout.contains("KUBE-") && !rules.stdout.contains(&address), "{}", rules.stdout);
}

fn everything_is_reached(hoist: &Hoist, reach: &str) {
    kubelets_are_reached(hoist);
    assert_eq!(hoist.kubectl(&["get", "--raw", POD_PROXY]), GREETING);
    webhook_answers(hoist, reach);
}

fn kubelets_are_reached(hoist: &Hoist) {
    assert!(hoist.kubectl(&["logs", SERVER, "--tail", "-1"]).starts_with("listening\n"));
    assert_eq!(hoist.kubectl(&["exec", CLIENT, "--", "echo", "here"]), "here\n");
    assert!(forwarded(hoist).ends_with(GREETING));
}

fn webhook_answers(hoist: &Hoist, reach: &str) {
    let before = calls(hoist);
    let (allowed, took) = judged(hoist, &format!("allowed-{reach}"), false);
    assert_eq!(allowed.code, Some(0), "{}", allowed.stderr);
    let after = calls(hoist);
    assert_eq!(after.0, before.0 + 1, "the webhook was asked once");
    let answered = after.1 - before.1;
    tell(&format!(
        "reach {reach}: the webhook answered in {} ms, the create took {} ms, kubectl included",
        answered.as_millis(),
        took.as_millis()
    ));
    assert!(answered < WITHIN, "{answered:?}: it answers, and is not given up");
    let (denied, _) = judged(hoist, &format!("denied-{reach}"), true);
    assert_ne!(denied.code, Some(0));
    assert!(denied.stderr.contains("denied by its label"), "{}", denied.stderr);

    until("the aggregated API is available", Duration::from_secs(60), || {
        let condition = available(hoist);
        if condition["status"] == "True" { Ok(()) } else { Err(condition.to_string()) }
    });
    let me = hoist.kubectl(&["get", "--raw", "/apis/test.hoist.dev/v1/whoami"]);
    let me: Value = serde_json::from_str(&me).expect("JSON");
    assert_eq!(me["user"], "kubernetes-admin", "{me}");
    let groups = me["groups"].as_array().expect("groups");
    assert!(groups.contains(&Value::from("kubeadm:cluster-admins")), "{me}");
}

/// Routes of the namespace into the pods' range.
fn pod_routes(hoist: &Hoist) -> Vec<String> {
    let dnsmasq = format!("hoist-{}-dnsmasq", hoist.name);
    let routes = exec(&dnsmasq, &["ip", "route", "show", "table", "all"]);
    assert!(routes.stdout.contains("192.168.66.0/24"), "{routes:?}");
    routes.stdout.lines().filter(|line| line.starts_with("10.244.")).map(str::to_owned).collect()
}

/// An engine starts what ends by itself again, not what it was told to stop.
fn nothing_goes_without_the_server(hoist: &Hoist) {
    let server = format!("hoist-{}-konnectivity-server", hoist.name);
    block(engine().stop(&server, 1)).expect("the server stops");
    let failed = hoist.try_kubectl(&["get", "--raw", POD_PROXY]);
    assert_ne!(failed.code, Some(0), "{}", failed.stdout);
    let failed = hoist.try_kubectl(&["logs", SERVER]);
    assert_ne!(failed.code, Some(0), "{}", failed.stdout);
    let status = hoist.run(&["status"]);
    assert_eq!(status.code, Some(9));
    assert!(status.stdout.contains("konnectivity-server is exited"), "{}", status.stdout);
    hoist.ok(&["up"]);
    kubelets_are_reached(hoist);
    assert_eq!(hoist.kubectl(&["get", "--raw", POD_PROXY]), GREETING);
}

fn pods_are_not_reached(hoist: &Hoist) {
    let (failed, took) = judged(hoist, "unjudged", false);
    tell(&format!("reach none: create judged by a webhook failed after {} ms", took.as_millis()));
    assert_ne!(failed.code, Some(0));
    assert!(failed.stderr.contains("failed calling webhook"), "{}", failed.stderr);
    let never = hoist.run(&["wait", "--for", "level=webhook"]);
    assert_eq!(never.code, Some(2), "{}", never.stderr);
    assert!(
        never.stderr.contains("level=webhook") && never.stderr.contains("reach none"),
        "{}",
        never.stderr
    );
    until("the aggregated API is given up", Duration::from_secs(120), || {
        let condition = available(hoist);
        if condition["status"] == "False" { Ok(()) } else { Err(condition.to_string()) }
    });
}
