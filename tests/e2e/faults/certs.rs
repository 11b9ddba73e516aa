//! Certificates that have ended or are renewed, under load and with a node joined.

use std::time::Instant;

use hoist::store::{StateDir, StateRoot};
use hoist_phases::phases::certs;
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec, NodeKind, NodeSpec};
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use super::{NOT_WELL, mend, status};
use crate::support::{Hoist, Writer, deploy, tell};

const DUE: &str = "their time was nearly or fully up: apiserver, ";

/// Leaves of that time have ended, authorities have not.
fn long_ago() -> OffsetDateTime {
    OffsetDateTime::now_utc() - Duration::days(400)
}

/// The state directory of a cluster whose certificates are of [`long_ago`].
fn made_long_ago(hoist: &Hoist) -> (StateDir, ClusterSpec) {
    let name = ClusterName::new(&hoist.name).expect("a name");
    let store = StateRoot::new(hoist.home().join("state/hoist")).cluster(&name);
    let mut spec = hoist::config::defaults(name, BootstrapToken::generate().expect("random numbers"));
    spec.nodes = vec![NodeSpec::new(1, NodeKind::Container).expect("a node")];
    store.write_spec(&spec).expect("the state directory");
    certs::make(&store, &spec, long_ago()).expect("certificates");
    (store, spec)
}

fn check(hoist: &Hoist) -> (Option<i32>, Vec<(String, String)>) {
    let done = hoist.run(&["certs", "check", "-o", "json"]);
    let rows: Vec<Value> = serde_json::from_str(&done.stdout).expect("JSON");
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    (done.code, rows.iter().map(|row| (text(row, "name"), text(row, "state"))).collect())
}

#[test]
fn leaves_are_renewed_under_load_with_a_node_joined() {
    let hoist = Hoist::new("certs");
    let (store, spec) = made_long_ago(&hoist);
    let first = hoist.run(&["up"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(first.stderr.contains(DUE), "{}", first.stderr);
    let (code, rows) = check(&hoist);
    assert!(code == Some(0) && rows.iter().all(|(_, state)| state == "good"), "{rows:?}");
    assert!(rows.iter().any(|(name, _)| name == "kubelet of node01"), "{rows:?}");

    let pods = || hoist.kubectl(&["get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.uid}"]);
    let node = || hoist.kubectl(&["get", "node", "node01", "-o", "jsonpath={.metadata.uid}"]);
    let leaf = |name: &str| std::fs::read(hoist.state().join("pki").join(name)).expect("a certificate");
    let names = ["apiserver.crt", "etcd/server.crt", "admin.crt", "ca.crt"];
    let (before, members) = (names.map(leaf), (pods(), node()));
    let copy = hoist.home().join("copy.yaml");
    hoist.ok(&["kubeconfig", "--write", &copy.display().to_string()]);
    let writer = Writer::start(&hoist);
    writer.goes_on(Instant::now());
    let begin = Instant::now();
    hoist.ok(&["certs", "renew"]);
    let took = begin.elapsed();
    writer.goes_on(Instant::now());
    let gap = writer.longest_gap(begin);
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!(
        "certs renew: {} ms, {} ms without an acknowledged write, none of {count} lost",
        took.as_millis(),
        gap.as_millis()
    ));
    let after = names.map(leaf);
    let same: Vec<_> = names
        .iter()
        .zip(before.iter().zip(&after))
        .filter(|(_, (a, b))| a == b)
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(same, ["ca.crt"]);
    assert_eq!((pods(), node()), members, "nothing was made anew");
    assert_eq!(
        std::fs::read(copy).expect("the copy"),
        std::fs::read(hoist.state().join("kubeconfig")).expect("a kubeconfig")
    );
    let (code, told) = status(&hoist);
    assert_eq!(code, Some(0), "{told}");

    // As it is when nobody has run `up` for longer than a year.
    certs::renew(&store, &spec, long_ago()).expect("certificates");
    let (code, rows) = check(&hoist);
    let ended: Vec<_> =
        rows.iter().filter(|(_, state)| state == "ended").map(|(name, _)| name.as_str()).collect();
    assert_eq!(code, Some(NOT_WELL), "{rows:?}");
    assert!(ended.contains(&"apiserver") && !ended.contains(&"ca"), "{rows:?}");
    let done = mend(&hoist, "leaves that have ended");
    assert!(done.stderr.contains(DUE), "{}", done.stderr);
    assert_eq!(check(&hoist).0, Some(0));
    assert_eq!((pods(), node()), members, "nothing was made anew");
}

/// The cluster's authority as a file of the state directory, or as it is on the node.
fn authority_of_node(hoist: &Hoist) -> String {
    hoist.ok(&["node", "ssh", "node01", "--", "cat", "/etc/kubernetes/pki/ca.crt"])
}

#[test]
fn authorities_are_replaced_under_load_with_nodes_joined() {
    let hoist = Hoist::new("authority");
    hoist.ok(&["up", "--nodes", "2"]);
    deploy(&hoist);
    let own = || hoist.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]);
    let node = || hoist.kubectl(&["get", "node", "node01", "-o", "jsonpath={.metadata.uid}"]);
    let file = |name: &str| {
        std::fs::read_to_string(hoist.state().join(name)).expect("a file of the state directory")
    };
    let (members, old, access) = ((own(), node()), file("pki/ca.crt"), file("kubeconfig"));
    assert_eq!(authority_of_node(&hoist).trim(), old.trim());

    let writer = Writer::start(&hoist);
    writer.goes_on(Instant::now());
    let begin = Instant::now();
    hoist.ok(&["certs", "renew", "--ca"]);
    let took = begin.elapsed();
    writer.goes_on(Instant::now());
    let gap = writer.longest_gap(begin);
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!(
        "certs renew --ca: {} ms, {} ms without an acknowledged write, none of {count} lost",
        took.as_millis(),
        gap.as_millis()
    ));

    let new = file("pki/ca.crt");
    assert_ne!(old, new);
    assert_eq!(authority_of_node(&hoist).trim(), new.trim(), "the node trusts the new one alone");
    let given = hoist.kubectl(&["get", "configmap", "kube-root-ca.crt", "-o", r"jsonpath={.data.ca\.crt}"]);
    assert_eq!(given.trim(), new.trim(), "and so do pods");
    // The scheduler and aggregated API servers.
    let map = ["get", "configmap", "-n", "kube-system", "extension-apiserver-authentication", "-o"];
    for key in ["client-ca-file", "requestheader-client-ca-file"] {
        let published = hoist.kubectl(&[&map[..], &[&format!(r"jsonpath={{.data.{key}}}")]].concat());
        assert_eq!(published.matches("BEGIN").count(), 1, "{key}: {published}");
    }
    let published = hoist.kubectl(&[&map[..], &[r"jsonpath={.data.client-ca-file}"]].concat());
    assert_eq!(published.trim(), new.trim());
    assert!(!hoist.state().join("pki/next").join("ca.crt").exists());
    assert!(!hoist.state().join("pki/previous").join("ca.crt").exists());
    assert_eq!((own(), node()), members, "nothing of the user's was made anew");
    let (code, told) = status(&hoist);
    assert_eq!(code, Some(0), "{told}");
    let (code, rows) = check(&hoist);
    assert!(code == Some(0) && rows.iter().all(|(_, state)| state == "good"), "{rows:?}");

    // Whoever has the old access, and trusts what it says, neither trusts the server nor is trusted.
    let stale = hoist.home().join("stale.yaml");
    std::fs::write(&stale, access).expect("a file");
    let refused = hoist.try_kubectl(&["--kubeconfig", &stale.display().to_string(), "get", "nodes"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("certificate signed by unknown authority"), "{}", refused.stderr);

    // Both ways between API server and kubelet, and what joins from now on.
    let echo = hoist.kubectl(&["exec", "client", "--", "echo", "both ways"]);
    assert_eq!(echo.trim(), "both ways");
    hoist.ok(&["node", "add"]);
    assert_eq!(status(&hoist).0, Some(0));
    let done = hoist.run(&["up"]);
    assert!(done.code == Some(0) && done.stderr.contains("was up already"), "{}", done.stderr);
}
