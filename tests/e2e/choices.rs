//! What the other tests leave at its default: a pod network of the user's, kube-proxy with
//! iptables, etcd on disk, a CA of the user's.

use std::process::Command;

use crate::support::{Hoist, exec, inspect, things};

/// Flannel and Calico can't be had where there is no registry; a manifest is a manifest.
const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/cni/kube-router.yaml");

fn openssl(args: &[&str], dir: &std::path::Path) {
    let done = Command::new("openssl").args(args).current_dir(dir).output().expect("openssl is installed");
    assert!(done.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_cluster_of_the_users_choices_answers() {
    let hoist = Hoist::new("choices");
    openssl(
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
            "-days",
            "30",
            "-subj",
            "/O=Users/CN=users-ca",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
        ],
        hoist.home(),
    );
    let file = |name: &str| hoist.home().join(name).display().to_string();
    let (cert, key) = (file("ca.crt"), file("ca.key"));
    // Level dns: a query through a Service, and so through kube-proxy's rules and the pod network.
    hoist.ok(&[
        "up",
        "--nodes",
        "1",
        "--cni",
        STAND_IN,
        "--kube-proxy-mode",
        "iptables",
        "--durable-etcd",
        "--ca-cert",
        &cert,
        "--ca-key",
        &key,
    ]);

    let set = hoist.get(&["daemonset", "kube-router", "--namespace", "kube-system"]);
    assert_eq!(set["metadata"]["labels"]["app.kubernetes.io/managed-by"], "hoist");
    let node = format!("hoist-{}-node01", hoist.name);
    let rules = exec(&node, &["iptables-save", "-t", "nat"]);
    assert!(rules.stdout.contains("KUBE-SERVICES"), "{}{}", rules.stdout, rules.stderr);
    let etcd = inspect(&format!("hoist-{}-etcd", hoist.name));
    let args = etcd["Args"].to_string();
    assert!(!args.contains("unsafe-no-fsync"), "{args}");
    let roots = hoist.get(&["configmap", "kube-root-ca.crt"]);
    let given = std::fs::read_to_string(&cert).expect("the CA is there");
    assert_eq!(roots["data"]["ca.crt"].as_str().map(str::trim), Some(given.trim()));

    // The user's files are the user's: neither `down` nor a refusal touches them.
    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new(), "left behind");
    assert_eq!(std::fs::read_to_string(&cert).expect("the CA is there"), given);
}
