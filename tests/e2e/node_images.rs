//! Nodes on images that can't join: told by name before they try.

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
