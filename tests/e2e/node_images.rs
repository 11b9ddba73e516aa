//! Nodes on images of the user's: what can't join is told by name before it tries, what addons need is given.

use crate::support::{alone, build_image, containers, remove_image};

const PHASE: i32 = 5;

/// Adds a node on hoist's own image less what a step of a Dockerfile does to it; gives the refusal.
fn refusal(name: &str, step: &str, words: &[&str]) {
    let (shared, _alone) = alone();
    let hoist = &shared.hoist;
    let before = containers(&hoist.name);
    let image = format!("localhost/e2e/{name}:{}", std::process::id());
    build_image(&image, &format!("FROM localhost/hoist/node:v1.36.3\nRUN {step}\n"), &[]);
    let done = hoist.run(&["node", "add", "--image", &image]);
    remove_image(&image);
    assert_eq!(done.code, Some(PHASE), "{}", done.stderr);
    for word in words.iter().chain(&["node03", image.as_str()]) {
        assert!(done.stderr.contains(word), "no {word:?} in: {}", done.stderr);
    }
    assert_eq!(containers(&hoist.name), before, "what the run had made is gone");
    assert_eq!(
        hoist.kubectl(&["get", "nodes", "-o", "name"]),
        "node/node01\nnode/node02\n",
        "it never joined"
    );
}

#[test]
fn an_image_without_kubeadm_is_named() {
    refusal("no-kubeadm", "rm /usr/bin/kubeadm", &["has no kubeadm"]);
}

#[test]
fn a_kubelet_too_old_or_too_new_is_refused() {
    for version in ["v1.32.11", "v1.37.0"] {
        let step = format!("printf '#!/bin/sh\\necho Kubernetes {version}\\n' >/usr/bin/kubelet");
        refusal("skew", &step, &[version, "v1.36.3", "v1.33 to v1.36"]);
    }
}

#[test]
fn a_node_is_given_the_addon_images_that_its_own_image_lacks() {
    let (shared, _alone) = alone();
    let hoist = &shared.hoist;
    let image = format!("localhost/e2e/no-addons:{}", std::process::id());
    let step = "rm -rf /var/lib/containerd/* /usr/lib/hoist/blobs";
    build_image(&image, &format!("FROM localhost/hoist/node:v1.36.3\nRUN {step}\n"), &[]);
    let done = hoist.run(&["node", "add", "--image", &image]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let list = ["node", "ssh", "node03", "--", "ctr", "--namespace", "k8s.io", "images", "list", "--quiet"];
    let held = hoist.ok(&list);
    for addon in ["pause", "kube-proxy", "coredns", "kube-router"] {
        let given = format!("localhost/hoist/{addon}:v1.36.3");
        assert!(held.lines().any(|image| image == given), "no {given} in: {held}");
    }
    hoist.ok(&["node", "remove", "node03"]);
    remove_image(&image);
}
