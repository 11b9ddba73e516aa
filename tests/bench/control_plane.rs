//! A control plane alone: hoist's, against its floor and its rivals. And one with a node.

use crate::bare::Bare;
use crate::kubeadm::Kubeadm;
use crate::kwok::Kwok;
use crate::results::Results;
use crate::support::{Hoist, events};

const BARE: &str = "etcd and kube-apiserver alone: /readyz";
const OBJECTS: &str = "hoist up --nodes 0: all objects accepted";
const API: &str = "hoist up --nodes 0: level api";
const JOIN: &str = "hoist up --nodes 0: level join";
const KWOK: &str = "kwokctl create cluster: ready, no join";
const INIT: &str = "kubeadm init: returns";
const SIGNED: &str = "kubeadm init: first CSR signed";
const UP_DNS: &str = "hoist up --nodes 1: DNS answers";
const INIT_DNS: &str = "kubeadm init: DNS answers";
const AGAIN: &str = "hoist up, unchanged";

/// Phases that post what a node needs to join and to run.
const POSTING: [&str; 5] = ["bootstrap-rbac", "bootstrap-config", "kube-proxy", "cni", "coredns"];

pub(crate) fn run(repeats: usize) {
    let mut results = Results::new("control-plane", "s");
    let model = Hoist::new("bench-model");
    model.ok(&["up", "--nodes", "0", "--wait", "join"]);
    let bare = Bare::of(&model);
    let kwok = Kwok::of(&model, &bare);
    model.ok(&["down"]);
    let kubeadm = Kubeadm::prepare();
    for _ in 0..repeats {
        results.note(BARE, bare.ready());
        without_nodes(&mut results);
        results.note(KWOK, kwok.create());
        let moments = kubeadm.init();
        results.note(INIT, moments.returned);
        results.note(SIGNED, moments.signed);
        results.note(INIT_DNS, moments.dns);
        with_a_node(&mut results);
    }
    results.publish();
    results.ratio(OBJECTS, BARE, 1.0);
    results.ratio(JOIN, BARE, 1.5);
    results.ratio(JOIN, KWOK, 1.2);
    results.ratio(JOIN, SIGNED, 0.4);
    results.ratio(UP_DNS, INIT_DNS, 0.5);
}

fn without_nodes(results: &mut Results) {
    let hoist = Hoist::new("bench-cp");
    let told = up(&hoist, &["up", "--nodes", "0", "--wait", "api", "--progress", "json"]);
    let posted = POSTING.map(|phase| at(&told, "phase", phase));
    results.note(OBJECTS, posted.into_iter().fold(0.0, f64::max));
    results.note(API, at(&told, "level", "api"));
    results.note(JOIN, at(&told, "level", "join"));
    hoist.ok(&["down"]);
}

fn with_a_node(results: &mut Results) {
    let hoist = Hoist::new("bench-node");
    let told = up(&hoist, &["up", "--nodes", "1", "--progress", "json"]);
    results.note(UP_DNS, at(&told, "level", "dns"));
    let begin = std::time::Instant::now();
    hoist.ok(&["up"]);
    results.note(AGAIN, begin.elapsed().as_secs_f64());
    hoist.ok(&["down"]);
}

fn up(hoist: &Hoist, args: &[&str]) -> Vec<serde_json::Value> {
    let done = hoist.run(args);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    events(&done.stderr)
}

/// When a phase ended or a level was reached, in seconds since the program began.
fn at(events: &[serde_json::Value], field: &str, name: &str) -> f64 {
    let found = events
        .iter()
        .rfind(|event| event[field] == name && matches!(event["event"].as_str(), Some("finished" | "ready")));
    let at = found.and_then(|event| event["atMs"].as_f64());
    at.unwrap_or_else(|| panic!("no {field} {name} among the events")) / 1000.0
}
