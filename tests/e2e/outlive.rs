//! What a dead node does to a cluster whose replicas are apart.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::steward::places;
use crate::support::{Hoist, IMAGE, kill, tell, until};

/// Long enough for a machine that does other things as well.
const SOON: Duration = Duration::from_secs(60);

/// Through the pod's own resolver, which asks the DNS Service.
const LOOKUP: &str = "getent ahostsv4 kubernetes.default.svc.cluster.local.";

#[test]
fn dns_and_services_outlive_a_node() {
    let hoist = Hoist::new("outlive");
    let config = hoist.config("nodes: [{count: 2}]\nplacement: {spread: {namespaces: [default]}}\n");
    hoist.ok(&["up", "--config", &config]);
    hoist.ok(&["node", "load", IMAGE]);
    hoist.apply(&virt_api());
    let both = BTreeSet::from(["node01".to_owned(), "node02".to_owned()]);
    for (namespace, selector) in [("kube-system", "k8s-app=kube-dns"), ("default", "app=virt-api")] {
        until("two nodes have a replica", SOON, || {
            let nodes = places(&hoist, namespace, selector);
            if nodes == both { Ok(()) } else { Err(format!("{selector}: {nodes:?}")) }
        });
    }
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod/client", "--timeout=60s"]);
    let service = hoist.kubectl(&["get", "service", "virt-api", "-o", "jsonpath={.spec.clusterIP}"]);
    until("the service answers", SOON, || {
        let (dns, answer) = ask(&hoist, &service);
        if dns && answer { Ok(()) } else { Err(format!("DNS {dns}, service {answer}")) }
    });

    kill(&format!("hoist-{}-node02", hoist.name));
    let begin = Instant::now();
    let mut tally = Tally::default();
    // Until the cluster has noticed: then nobody is sent to the dead node any more.
    until("the dead node's replicas get no more traffic", 3 * SOON, || {
        tally.count(ask(&hoist, &service));
        let left = endpoints(&hoist, "kube-system", "kube-dns") + endpoints(&hoist, "default", "virt-api");
        if left == 2 { Ok(()) } else { Err(format!("{left} endpoints of 2 services")) }
    });
    tell(&format!(
        "node02 killed: noticed after {} s; until then {} of {} lookups and {} of {} requests failed",
        begin.elapsed().as_secs(),
        tally.dns,
        tally.all,
        tally.requests,
        tally.all
    ));
    assert!(tally.dns < tally.all && tally.requests < tally.all, "some were answered all along");
    // kube-proxy of the other node has to hear of it as well.
    let mut streak = 0;
    until("every lookup and request is answered", SOON, || {
        streak = if ask(&hoist, &service) == (true, true) { streak + 1 } else { 0 };
        if streak == 20 { Ok(()) } else { Err(format!("{streak} in a row")) }
    });
}

#[derive(Default)]
struct Tally {
    all: u32,
    dns: u32,
    requests: u32,
}

impl Tally {
    fn count(&mut self, (dns, request): (bool, bool)) {
        self.all += 1;
        self.dns += u32::from(!dns);
        self.requests += u32::from(!request);
    }
}

/// Whether a pod on node01 gets a name resolved and a request answered, each within 2 s.
fn ask(hoist: &Hoist, service: &str) -> (bool, bool) {
    let request = format!(
        "exec 3<>/dev/tcp/{service}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q 200 <&3"
    );
    let script = format!("timeout 2 {LOOKUP} >&2; echo $?; timeout 2 bash -c \"{request}\"; echo $?");
    let done = hoist.try_kubectl(&["exec", "client", "--", "bash", "-c", &script]);
    let codes: Vec<_> = done.stdout.lines().collect();
    (codes.first() == Some(&"0"), codes.get(1) == Some(&"0"))
}

/// Two replicas that prefer to be apart, a Service before them, and a pod on node01 that asks.
fn virt_api() -> String {
    let serve = r#"use IO::Socket::INET; $| = 1;
        my $listen = IO::Socket::INET->new(LocalPort => 8080, Listen => 64, ReuseAddr => 1) or die;
        while (my $peer = $listen->accept) { while (<$peer>) { last if /^\r?\n$/ } print $peer "HTTP/1.0 200 OK\r\n\r\n"; close $peer }"#;
    let container = |command: Value| json!({"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": command});
    let mut server = container(json!(["perl", "-e", serve]));
    server["readinessProbe"] = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    let labels = json!({"app": "virt-api"});
    let apart = json!({"weight": 1, "podAffinityTerm":
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}});
    json!({
        "apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "virt-api", "namespace": "default"},
             "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [server],
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}}}}}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "virt-api", "namespace": "default"},
             "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": "default"},
             "spec": {"nodeName": "node01", "terminationGracePeriodSeconds": 0,
                "containers": [container(json!(["sleep", "infinity"]))]}},
        ],
    })
    .to_string()
}

/// Number of a Service's ready endpoints.
fn endpoints(hoist: &Hoist, namespace: &str, service: &str) -> usize {
    let selector = format!("kubernetes.io/service-name={service}");
    let slices = hoist.get(&["endpointslices", "--namespace", namespace, "-l", &selector]);
    let endpoints = slices["items"].as_array().into_iter().flatten();
    let endpoints = endpoints.filter_map(|slice| slice["endpoints"].as_array()).flatten();
    endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
}
