//! Every pinned version of Kubernetes, each in a cluster of its own, and nodes of another version than their
//! control plane: `make test-versions`, since a version's images take many minutes to build.

use std::time::Duration;

use hoist_phases::phases::PHASES;
use hoist_phases::spec::{KubernetesVersion, MINORS, Minor};
use serde_json::{Value, json};

use crate::support::{Hoist, events, exec, until};

/// The exit code of a phase that failed.
const PHASE: i32 = 5;

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What a pod in every test runs: on each node, and it has a shell, a web server and a client.
fn image(version: KubernetesVersion) -> String {
    format!("localhost/hoist/kube-router:{version}")
}

fn node_image(version: KubernetesVersion) -> String {
    format!("localhost/hoist/node:{version}")
}

fn minor(number: u32) -> &'static Minor {
    MINORS.iter().find(|minor| minor.pinned.minor == number).expect("a known minor")
}

fn pod(version: KubernetesVersion, name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": image(version), "imagePullPolicy": "Never",
                "command": ["sh", "-c", script],
            }],
        },
    })
}

fn kubelet_version(hoist: &Hoist, node: &str) -> String {
    hoist.kubectl(&["get", "node", node, "-o", "jsonpath={.status.nodeInfo.kubeletVersion}"])
}

/// A cluster of a version, up to its DNS, and what people do with one.
fn version_works(number: u32) {
    let minor = minor(number);
    let version = minor.pinned;
    let hoist = Hoist::new(&format!("v1-{number}"));
    let config = hoist.config(&format!(
        "kubernetes: {version}\nnodes: [{{count: 1}}]\nwait: dns\nplacement: {{policy: {{namespaces: [infra], replicas: 2}}}}\n"
    ));
    hoist.ok(&["up", "--config", &config]);

    let server: Value = serde_json::from_str(&hoist.kubectl(&["get", "--raw", "/version"])).expect("JSON");
    assert_eq!(server["gitVersion"], version.to_string());
    assert_eq!(kubelet_version(&hoist, "node01"), version.to_string());
    node_settings_hold(&hoist, minor);
    pods_and_services_work(&hoist, version);
    kubelet_is_asked_without_an_administrators_group(&hoist);
    placement(&hoist, minor);

    // The same again finds everything as it should be, whatever defaults this version fills in.
    let again = hoist.run(&["up", "--config", &config, "--progress", "json"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let finished: Vec<_> =
        events(&again.stderr).into_iter().filter(|event| event["event"] == "finished").collect();
    assert_eq!(finished.len(), PHASES.len(), "{}", again.stderr);
    for event in finished {
        assert!(event["outcome"] == "unchanged" || event["outcome"] == "skipped", "{event}");
    }
    hoist.ok(&["down"]);
}

/// What a container node tells its kubelet is what the kubelet runs with.
fn node_settings_hold(hoist: &Hoist, minor: &Minor) {
    let node = format!("hoist-{}-node01", hoist.name);
    let told = exec(&node, &["cat", "/etc/kubernetes/kubelet.conf.d/10-hoist-container-node.conf"]).stdout;
    let configz = hoist.kubectl(&["get", "--raw", "/api/v1/nodes/node01/proxy/configz"]);
    let configz: Value = serde_json::from_str(&configz).expect("JSON");
    let kubelet = &configz["kubeletconfig"];
    assert_eq!(kubelet["failCgroupV1"], false, "{} by default", minor.fail_cgroup_v1);
    let driver = kubelet["cgroupDriver"].as_str().unwrap_or_default();
    assert!(told.contains(&format!("cgroupDriver: {driver}\n")), "{driver}: {told}");
    let flags = exec(&node, &["cat", "/var/lib/kubelet/kubeadm-flags.env"]).stdout;
    assert_eq!(flags.contains("--pod-infra-container-image="), minor.pause_by_flag, "{flags}");
}

fn pods_and_services_work(hoist: &Hoist, version: KubernetesVersion) {
    let serve = "mkdir -p /srv/www; echo \"served by $HOSTNAME\" >/srv/www/index.html; echo listening; \
                 exec busybox httpd -f -p 8080 -h /srv/www";
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    let items = [pod(version, "server", serve), pod(version, "client", "sleep infinity"), service];
    hoist.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod/server", "pod/client", "--timeout=120s"]);
    let ask = ["exec", "client", "--", "busybox", "wget", "-T", "5", "-q", "-O", "-", "http://server"];
    until("the Service answers by its name", Duration::from_secs(60), || {
        let done = hoist.try_kubectl(&ask);
        if done.stdout == "served by server\n" { Ok(()) } else { Err(done.stdout + &done.stderr) }
    });
    assert!(hoist.kubectl(&["logs", "server"]).contains("listening"));
    hoist.kubectl(&["delete", "pod/server", "pod/client", "service/server"]);
}

/// kubernetes/kubeadm#3310: logs and exec, above, go by a binding, and nothing more is allowed.
fn kubelet_is_asked_without_an_administrators_group(hoist: &Hoist) {
    let user = "--as=kube-apiserver-kubelet-client";
    let may = |verb: &str, what: &str| hoist.try_kubectl(&["auth", "can-i", verb, what, user]).stdout;
    assert_eq!(may("get", "nodes/proxy").trim(), "yes");
    assert_eq!(may("get", "secrets").trim(), "no");
}

/// By a policy of the API server where there are such in v1; otherwise only in what hoist itself applies.
fn placement(hoist: &Hoist, minor: &Minor) {
    let version = minor.pinned;
    hoist.kubectl(&["create", "namespace", "infra"]);
    let deployment = |name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "infra"},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": pod(version, name, "sleep infinity")["spec"].clone(),
                },
            },
        })
    };
    let spec = |name: &str| hoist.get(&["deployment", name, "--namespace", "infra"])["spec"].clone();
    let spread = |spec: &Value| spec["template"]["spec"]["affinity"]["podAntiAffinity"][PREFERRED].is_array();
    hoist.apply(&deployment("theirs").to_string());
    let theirs = spec("theirs");
    let status: Value = serde_json::from_str(&hoist.ok(&["status", "-o", "json"])).expect("JSON");
    let told = status["notes"].to_string().contains(&version.to_string());
    let policies = version.has_mutating_policies();
    assert_eq!((spread(&theirs), theirs["replicas"] == 2), (policies, policies), "{theirs}");
    assert_eq!(told, !policies, "{status}");

    let manifest = hoist.home().join("ours.json");
    std::fs::write(&manifest, deployment("ours").to_string()).expect("the temporary directory is writable");
    hoist.ok(&["apply", "--spread", &manifest.display().to_string()]);
    let ours = spec("ours");
    assert!(spread(&ours) && ours["replicas"] == 2, "{ours}");
    for name in ["theirs", "ours"] {
        let rollout = format!("deployment/{name}");
        hoist.kubectl(&["rollout", "status", &rollout, "--namespace", "infra", "--timeout=120s"]);
    }
    hoist.kubectl(&["delete", "namespace", "infra", "--wait=false"]);
}

#[test]
fn v1_34() {
    version_works(34);
}

#[test]
fn v1_35() {
    version_works(35);
}

#[test]
fn v1_36() {
    version_works(36);
}

#[test]
fn v1_37() {
    version_works(37);
}

/// The version skew policy with real nodes: an older one joins and works, a newer one is turned away.
#[test]
fn a_node_may_be_older_than_the_control_plane_and_not_newer() {
    let (control_plane, older, newer) = (minor(36).pinned, minor(35).pinned, minor(37).pinned);
    let hoist = Hoist::new("skew");
    hoist.ok(&["up", "--nodes", "1", "--kubernetes", &control_plane.to_string(), "--wait", "dns"]);

    let refused = hoist.run(&["node", "add", "--image", &node_image(newer)]);
    assert_eq!(refused.code, Some(PHASE), "{}", refused.stderr);
    for word in ["node02", &newer.to_string(), &control_plane.to_string(), &node_image(newer)] {
        assert!(refused.stderr.contains(word), "no {word} in: {}", refused.stderr);
    }
    assert_eq!(hoist.kubectl(&["get", "nodes", "-o", "name"]), "node/node01\n", "it never joined");

    // Its image has the addons of its own version; it is given those that the cluster runs.
    hoist.ok(&["node", "add", "--image", &node_image(older)]);
    hoist.ok(&["wait", "--for", "level=dns", "--timeout", "120s"]);
    assert_eq!(kubelet_version(&hoist, "node02"), older.to_string());

    let mut on_older = pod(control_plane, "older", "echo here; sleep infinity");
    on_older["spec"]["nodeName"] = json!("node02");
    hoist.apply(&on_older.to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod/older", "--timeout=120s"]);
    assert_eq!(hoist.kubectl(&["logs", "older"]), "here\n");
    let lookup = ["exec", "older", "--", "busybox", "nslookup", "kubernetes.default.svc.cluster.local"];
    until("DNS answers on the older node", Duration::from_secs(60), || {
        let done = hoist.try_kubectl(&lookup);
        if done.stdout.contains("10.96.0.1") { Ok(()) } else { Err(done.stdout + &done.stderr) }
    });
    hoist.ok(&["status"]);
    hoist.ok(&["down"]);
}
