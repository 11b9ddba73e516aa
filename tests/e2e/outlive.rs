//! What a dead node does to a cluster whose replicas are apart.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::steward::places;
use crate::support::{Hoist, IMAGE, exec, kill, tell, until};

/// Long enough for a machine that does other things as well.
const SOON: Duration = Duration::from_secs(60);

/// Through the pod's own resolver, which asks the DNS Service.
const LOOKUP: &str = "getent ahostsv4 kubernetes.default.svc.cluster.local.";

/// The label of those pods.
const API: &str = "app=virt-api";

/// So many answers one after the other, without a failure, are all answers.
const STREAK: usize = 30;

#[test]
fn dns_and_services_outlive_a_node() {
    let hoist = Hoist::new("outlive");
    let config = hoist.config("nodes: [{count: 2}]\nplacement: {spread: {namespaces: [default]}}\n");
    hoist.ok(&["up", "--config", &config]);
    hoist.ok(&["node", "load", IMAGE]);
    are_apart(&hoist, "kube-system", "k8s-app=kube-dns");
    a_budget_is_respected(&hoist);
    are_apart(&hoist, "default", API);
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod/client", "--timeout=60s"]);
    let service = hoist.kubectl(&["get", "service", "virt-api", "-o", "jsonpath={.spec.clusterIP}"]);
    let request = format!(
        "exec 3<>/dev/tcp/{service}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q 200 <&3"
    );
    let all = [Asker::start(&hoist, "lookups", LOOKUP), Asker::start(&hoist, "requests", &request)];
    all_are_answered(&all, Instant::now());

    kill(&format!("hoist-{}-node02", hoist.name));
    let killed = Instant::now();
    // Until the cluster has noticed: then nobody is sent to the dead node any more.
    until("the dead node's replicas get no more traffic", 3 * SOON, || {
        let left = endpoints(&hoist, "kube-system", "kube-dns") + endpoints(&hoist, "default", "virt-api");
        if left == 2 { Ok(()) } else { Err(format!("{left} endpoints of 2 services")) }
    });
    let noticed = Instant::now();
    // kube-proxy of the other node has to hear of it as well.
    all_are_answered(&all, noticed);
    for asker in &all {
        let (before, after) = (asker.tally(killed, noticed), asker.tally(noticed, Instant::now()));
        tell(&format!(
            "node02 killed, noticed after {} s: until then {before}, then {after}",
            (noticed - killed).as_secs()
        ));
        // Half of the tries went to the dead node, and nobody knew.
        assert!(5 * before.good > before.all, "{before} is no outliving");
        assert!(2 * after.good > after.all, "{after} is not the end of it");
    }
}

fn are_apart(hoist: &Hoist, namespace: &str, selector: &str) {
    let both = BTreeSet::from(["node01".to_owned(), "node02".to_owned()]);
    until("two nodes have a replica", SOON, || {
        let nodes = places(hoist, namespace, selector);
        if nodes == both { Ok(()) } else { Err(format!("{selector}: {nodes:?}")) }
    });
}

/// Both replicas start on the one node that takes pods, and stay there as long as a disruption budget
/// wants both.
fn a_budget_is_respected(hoist: &Hoist) {
    let blocked = || {
        let ask =
            "exec 3<>/dev/tcp/127.0.0.1/10266 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3";
        let page = exec(&format!("hoist-{}-dnsmasq", hoist.name), &["bash", "-c", ask]);
        assert_eq!(page.code, 0, "{page:?}");
        let metric = "hoist_steward_changes_total{kind=\"eviction-blocked\"} ";
        let line = page.stdout.lines().find_map(|line| line.strip_prefix(metric));
        line.map_or(0, |number| number.trim().parse::<u64>().expect("a number"))
    };
    hoist.kubectl(&["cordon", "node02"]);
    hoist.apply(&virt_api());
    hoist.ok(&["wait", "--for", "deployment/virt-api", "--timeout", "60s"]);
    let one = BTreeSet::from(["node01".to_owned()]);
    assert_eq!(places(hoist, "default", API), one);
    let before = blocked();
    hoist.kubectl(&["create", "pdb", "virt-api", "--selector", API, "--min-available=2"]);
    hoist.kubectl(&["uncordon", "node02"]);
    until("the steward asks in vain", SOON, || {
        if blocked() > before { Ok(()) } else { Err(format!("{before} times so far")) }
    });
    assert_eq!(places(hoist, "default", API), one);
    hoist.kubectl(&["delete", "pdb", "virt-api"]);
}

fn all_are_answered(all: &[Asker], since: Instant) {
    for asker in all {
        until("every try is answered", SOON, || {
            let tries = asker.tries(since, Instant::now());
            let streak = tries.iter().rev().take_while(|good| **good).count();
            let Asker { what, .. } = asker;
            if streak >= STREAK {
                Ok(())
            } else {
                Err(format!("{streak} {what} in a row of {}", tries.len()))
            }
        });
    }
}

/// A pod on node01 that tries the same again and again.
struct Asker {
    what: &'static str,
    child: Child,
    tries: Arc<Mutex<Vec<(Instant, bool)>>>,
}

impl Asker {
    /// A try has a second; between two the processor is others'.
    fn start(hoist: &Hoist, what: &'static str, command: &str) -> Self {
        let again = "while :; do if timeout 1 bash -c \"$0\" >/dev/null 2>&1; then echo good; else echo failed; fi; sleep 0.1; done";
        let mut command_line =
            hoist.command(&["kubectl", "exec", "client", "--", "bash", "-c", again, command]);
        let mut child = command_line.stdout(Stdio::piped()).spawn().expect("kubectl can be started");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let tries = Arc::new(Mutex::default());
        let told: Arc<Mutex<Vec<_>>> = Arc::clone(&tries);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                told.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line == "good"));
            }
        });
        Self { what, child, tries }
    }

    /// Whether each try that ended in this time was answered.
    fn tries(&self, from: Instant, to: Instant) -> Vec<bool> {
        let tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        tries.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, good)| *good).collect()
    }

    fn tally(&self, from: Instant, to: Instant) -> Tally {
        let tries = self.tries(from, to);
        Tally { what: self.what, all: tries.len(), good: tries.into_iter().filter(|good| *good).count() }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Tally {
    what: &'static str,
    all: usize,
    good: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} {} failed", self.all - self.good, self.all, self.what)
    }
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
