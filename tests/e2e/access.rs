//! What a user gets: a kubeconfig that works from the host with TLS verified, and a cluster in
//! which everything runs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::{calm, events, until};

/// A field of the kubeconfig, read by kubectl.
fn config(raw: &Value, path: &str) -> String {
    raw.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[test]
fn up_reaches_every_level() {
    let (shared, _calm) = calm();
    let events = events(&shared.up.stderr);
    let levels: Vec<_> = events.iter().filter_map(|event| event["level"].as_str()).collect();
    for level in ["join", "api", "nodes", "dns"] {
        assert!(levels.contains(&level), "{levels:?}");
    }
    let failed: Vec<_> = events.iter().filter(|event| event["event"] == "failed").collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_node_is_ready_and_every_pod_runs() {
    let (shared, _calm) = calm();
    let nodes = shared.hoist.get(&["nodes"]);
    let nodes = nodes["items"].as_array().expect("a list");
    let names: Vec<_> = nodes.iter().filter_map(|node| node["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["node01", "node02"]);
    for node in nodes {
        let conditions = node["status"]["conditions"].as_array().expect("conditions");
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        assert_eq!(ready.map(|ready| &ready["status"]), Some(&Value::from("True")), "{node}");
    }
    until("every pod runs", Duration::from_secs(60), || {
        let pods = shared.hoist.get(&["pods", "--namespace", "kube-system"]);
        let pods = pods["items"].as_array().expect("a list");
        // Two of CoreDNS, and kube-proxy and kube-router on each node.
        if pods.len() == 6 && pods.iter().all(runs) {
            return Ok(());
        }
        let told = pods.iter().map(|pod| format!("{}: {}", pod["metadata"]["name"], pod["status"]));
        Err(told.collect::<Vec<_>>().join("\n"))
    });
}

fn runs(pod: &Value) -> bool {
    let containers = pod["status"]["containerStatuses"].as_array();
    let ready = containers.is_some_and(|all| all.iter().all(|container| container["ready"] == true));
    pod["status"]["phase"] == "Running" && ready
}

/// kubevirtci ships a kubeconfig with TLS checks off.
#[test]
fn tls_is_verified_from_the_host() {
    let (shared, _calm) = calm();
    let hoist = &shared.hoist;
    let raw: Value =
        serde_json::from_str(&hoist.kubectl(&["config", "view", "--raw", "-o", "json"])).expect("JSON");
    let cluster = &raw["clusters"][0]["cluster"];
    assert!(cluster.get("insecure-skip-tls-verify").is_none() && cluster.get("tls-server-name").is_none());
    let server = config(&raw, "/clusters/0/cluster/server");
    assert!(server.starts_with("https://127.0.0.1:"), "{server}");
    assert_eq!(hoist.kubectl(&["get", "--raw", "/readyz"]), "ok");

    // With another authority the same server is refused.
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "kubernetes");
    let other = params.self_signed(&key).expect("a certificate");
    let mut changed = raw.clone();
    changed["clusters"][0]["cluster"]["certificate-authority-data"] = STANDARD.encode(other.pem()).into();
    let path = hoist.home().join("another-ca");
    std::fs::write(&path, changed.to_string()).expect("the temporary directory is writable");
    let refused =
        hoist.try_kubectl(&["--kubeconfig", &path.display().to_string(), "get", "--raw", "/readyz"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("x509"), "{}", refused.stderr);
}

#[test]
fn k3s_27_pods_get_the_authority_of_the_kubeconfig() {
    let (shared, _calm) = calm();
    let published = shared.hoist.get(&["configmap", "kube-root-ca.crt", "--namespace", "default"]);
    let raw = shared.hoist.kubectl(&["config", "view", "--raw", "-o", "json"]);
    let raw: Value = serde_json::from_str(&raw).expect("JSON");
    let ours = STANDARD.decode(config(&raw, "/clusters/0/cluster/certificate-authority-data"));
    let ours = String::from_utf8(ours.expect("base64")).expect("PEM");
    assert!(ours.starts_with("-----BEGIN CERTIFICATE-----"));
    assert_eq!(published["data"]["ca.crt"].as_str(), Some(ours.as_str()));
}

#[test]
fn status_and_list_say_that_all_is_well() {
    let (shared, _calm) = calm();
    let status: Value = serde_json::from_str(&shared.hoist.ok(&["status", "-o", "json"])).expect("JSON");
    assert_eq!(status["overall"], "running", "{status}");
    let nodes: Value = serde_json::from_str(&shared.hoist.ok(&["node", "list", "-o", "json"])).expect("JSON");
    assert_eq!(nodes.as_array().map(Vec::len), Some(2), "{nodes}");
    assert!(shared.hoist.ok(&["list"]).contains(&shared.hoist.name));
}
