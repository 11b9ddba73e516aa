//! What can't work on this engine, or beside this cluster, is refused before anything starts and
//! leaves nothing behind. What needs no engine to be refused is tested in `tests/it`.

use crate::support::{Done, Hoist, block, calm, containers, engine, things};

const USAGE: i32 = 2;
const IMAGES: i32 = 4;
const PHASE: i32 = 5;
const CONFLICT: i32 = 8;

/// The program refused with this code, named what is wrong, and made nothing.
fn refused(hoist: &Hoist, done: &Done, code: i32, words: &[&str]) {
    assert_eq!(done.code, Some(code), "{words:?}: {}", done.stderr);
    assert!(done.stderr.starts_with("error: ") || done.stderr.contains("\nerror: "), "{}", done.stderr);
    for word in words {
        assert!(done.stderr.contains(word), "no {word:?} in: {}", done.stderr);
    }
    assert_eq!(done.stdout, "");
    assert_eq!(things(&hoist.name), Vec::<String>::new(), "{}", done.stderr);
    assert!(!hoist.state().exists(), "{}", done.stderr);
}

#[test]
fn kind_2970_a_subnet_of_the_engine_is_refused() {
    let hoist = Hoist::new("overlap");
    let networks = block(engine().networks()).expect("the engine answers");
    let (name, net) = networks.first().expect("an engine has a network of its own");
    let done = hoist.run(&["up", "--nodes", "0", "--pod-subnet", &net.to_string()]);
    refused(&hoist, &done, USAGE, &["podSubnet", &net.to_string(), name]);
}

#[test]
fn every_missing_image_is_in_one_error() {
    let hoist = Hoist::new("images");
    // A supported version that nobody has built.
    let done = hoist.run(&["up", "--kubernetes", "v1.36.999"]);
    let images = ["kube-apiserver:v1.36.999", "kube-scheduler:v1.36.999", "node:v1.36.999", "hint: "];
    refused(&hoist, &done, IMAGES, &images);
}

#[test]
fn kubevirtci_656_two_components_on_one_port_are_refused() {
    let hoist = Hoist::new("ports");
    let config = hoist
        .config("nodes: []\ncomponents:\n  kube-scheduler:\n    extraArgs:\n      secure-port: \"10257\"\n");
    let done = hoist.run(&["up", "--config", &config]);
    refused(&hoist, &done, USAGE, &["10257", "kube-scheduler", "kube-controller-manager"]);
}

/// It is no matter of waiting longer, whether the API server itself can't start or serves while another
/// component keeps ending.
#[test]
fn envtest_a_component_that_ends_over_a_flag_is_told_with_its_last_words() {
    for component in ["kube-apiserver", "kube-scheduler"] {
        let hoist = Hoist::new("flag");
        let config = format!(
            "nodes: []\ncomponents: {{{component}: {{extraArgs: {{no-such-flag: x}}}}}}\ntimeout: 10m\n"
        );
        let done = hoist.run(&["up", "--config", &hoist.config(&config)]);
        let words = [component, "exit code 1", "unknown flag: --no-such-flag"];
        refused(&hoist, &done, PHASE, &words);
        assert!(!done.stderr.contains("not within"), "{}", done.stderr);
    }
}

#[test]
fn other_settings_for_a_cluster_that_is_there_are_refused() {
    let (shared, _calm) = calm();
    let before = containers(&shared.hoist.name);
    for (args, words) in [
        (&["--nodes", "3"][..], &["nodes", "node03", "hoist node add"][..]),
        (&["--pod-subnet", "10.200.0.0/16"], &["podSubnet", "10.244.0.0/16", "10.200.0.0/16"]),
        (&["--kube-proxy-mode", "iptables"], &["kubeProxy", "nftables"]),
    ] {
        let done = shared.hoist.run(&[&["up"], args].concat());
        assert_eq!(done.code, Some(CONFLICT), "{}", done.stderr);
        for word in words.iter().chain(&["hint: "]) {
            assert!(done.stderr.contains(word), "no {word:?} in: {}", done.stderr);
        }
    }
    assert_eq!(containers(&shared.hoist.name), before);
}
