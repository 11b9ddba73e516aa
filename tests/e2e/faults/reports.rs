//! Public reports whose right behaviour takes a cluster that is slow, late or short of something: see docs/cases.md.

use std::time::{Duration, Instant};

use super::{NOT_WELL, SOON, status};
use crate::support::{Hoist, block, engine, pid, tell, things, until};

const NOT_READY: i32 = 6;

/// How long kubeadm and others give an API server (kubernetes/kubernetes#137743).
const OTHERS: Duration = Duration::from_secs(20);

#[test]
fn kind_2240_and_kubevirt_11659_on_a_cluster_without_roles() {
    let hoist = Hoist::new("reports");
    hoist.ok(&["up", "--nodes", "1", "--no-roles"]);
    kind_2240_kube_proxy_leaves_the_limit_of_the_host(&hoist);
    pi_hole_ftl_703_dnsmasq_has_few_descriptors(&hoist);
    kubevirt_11659_the_doctor_names_the_role_that_is_waited_for(&hoist);
}

/// In a container nobody may write nf_conntrack_max: a kube-proxy that tries ends.
fn kind_2240_kube_proxy_leaves_the_limit_of_the_host(hoist: &Hoist) {
    let pods = hoist.get(&["pods", "-n", "kube-system", "-l", "k8s-app=kube-proxy"]);
    let restarts = &pods["items"][0]["status"]["containerStatuses"][0]["restartCount"];
    assert_eq!(restarts, 0, "{pods}");
    let log = hoist.kubectl(&["logs", "-n", "kube-system", "-l", "k8s-app=kube-proxy", "--tail=-1"]);
    assert!(!log.is_empty() && !log.contains("permission denied"), "{log}");
}

/// dnsmasq closes every descriptor that it might have when it starts.
fn pi_hole_ftl_703_dnsmasq_has_few_descriptors(hoist: &Hoist) {
    let name = format!("hoist-{}-dnsmasq", hoist.name);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid(&name))).expect("this host's root");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers.iter().all(|limit| *limit <= 65_536), "{line}");
}

/// virt-operator waits for a control-plane node, where none has the role.
fn kubevirt_11659_the_doctor_names_the_role_that_is_waited_for(hoist: &Hoist) {
    hoist.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: virt-operator}, spec: {nodeSelector: \
         {node-role.kubernetes.io/control-plane: ''}, containers: [{name: a, image: none, imagePullPolicy: Never}]}}",
    );
    let told = until("the doctor names what the pod waits for", SOON, || {
        let done = hoist.run(&["doctor"]);
        let told = done.stdout + &done.stderr;
        if told.contains("virt-operator") { Ok(told) } else { Err(told) }
    });
    assert!(told.contains("node-role.kubernetes.io/control-plane"), "{told}");
    // With the role it runs: its container can't, but it has a place.
    hoist.kubectl(&["label", "node", "node01", "node-role.kubernetes.io/control-plane="]);
    hoist.kubectl(&["wait", "--for=condition=PodScheduled", "pod/virt-operator", "--timeout=60s"]);
}

/// A start with a tenth of a processor takes longer than others wait.
#[test]
fn k8s_137743_a_slow_start_is_waited_for() {
    let hoist = Hoist::new("slow");
    let config = hoist.config("nodes: []\ncomponents: {kube-apiserver: {cpus: 100m}}\n");
    let begin = Instant::now();
    hoist.ok(&["up", "--config", &config]);
    let took = begin.elapsed();
    assert!(took > OTHERS, "up took {} ms: nothing is shown", took.as_millis());
    tell(&format!("an API server with a tenth of a processor: up in {} ms", took.as_millis()));
    assert_eq!(status(&hoist).0, Some(0));
}

/// Whoever is not ready in time fails, says what isn't ready, and leaves nothing.
#[test]
fn kind_waitforready_a_cluster_that_is_late_fails_and_names_what_is_missing() {
    let hoist = Hoist::new("late");
    let done = hoist.run(&["up", "--nodes", "1", "--timeout", "2s"]);
    assert_eq!(done.code, Some(NOT_READY), "{}", done.stderr);
    assert!(done.stderr.contains("within 2 s; still under way: "), "{}", done.stderr);
    assert_eq!(things(&hoist.name), Vec::<String>::new());
    assert!(!hoist.state().exists());

    // So does one that is up, and then isn't ready any more.
    hoist.ok(&["up", "--nodes", "0"]);
    let scheduler = format!("hoist-{}-kube-scheduler", hoist.name);
    block(engine().docker().kill_container(&scheduler, None)).expect("it runs");
    let (code, told) = status(&hoist);
    assert_eq!(code, Some(NOT_WELL), "{told}");
    assert!(told["problems"].to_string().contains("kube-scheduler"), "{told}");
}
