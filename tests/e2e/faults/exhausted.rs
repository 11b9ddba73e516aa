//! What happens when a limit is reached: etcd's quota, and the memory of a component.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{NOT_WELL, SOON, mend, status};
use crate::support::{Hoist, Writer, state, tell, until};

/// project-infra#2815: etcd refuses writes past its quota rather than fill the file system, says so, and takes
/// them again after what `status` tells to do.
#[test]
fn project_infra_2815_a_full_etcd_is_told_of_and_mended() {
    let hoist = Hoist::new("full");
    let config = |quota: &str| hoist.config(&format!("nodes: []\netcd: {{quota: {quota}}}\n"));
    hoist.ok(&["up", "--config", &config("64Mi")]);
    hoist.kubectl(&["create", "configmap", "before"]);
    let big = "x".repeat(900 << 10);
    let mut written = 0;
    let refused = until("etcd is full", SOON, || {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("big-{written}")}, "data": {"a": big}});
        let file = hoist.home().join("big.json");
        std::fs::write(&file, object.to_string()).expect("the directory is writable");
        let done = hoist.try_kubectl(&["create", "-f", file.to_str().expect("UTF-8")]);
        written += usize::from(done.code == Some(0));
        if done.code == Some(0) { Err(format!("{written} MiB written")) } else { Ok(done.stderr) }
    });
    assert!(refused.contains("database space exceeded"), "{refused}");
    let (code, told) = status(&hoist);
    assert_eq!((code, told["overall"].as_str()), (Some(NOT_WELL), Some("degraded")), "{told}");
    let problems = told["problems"].to_string();
    assert!(problems.contains("NOSPACE") && problems.contains("etcd.quota"), "{problems}");
    // Reading goes on.
    hoist.kubectl(&["get", "configmap", "before"]);

    // As it says.
    let begin = Instant::now();
    hoist.ok(&["up", "--config", &config("512Mi")]);
    hoist.kubectl(&["create", "configmap", "after"]);
    tell(&format!("etcd full after {written} large objects: mended in {} ms", begin.elapsed().as_millis()));
    let found = hoist.get(&["configmaps"]);
    let found = found["items"].as_array().expect("a list").len();
    // Beside them `before`, `after` and the one of the cluster's CA.
    assert_eq!(found, written + 3, "none that was acknowledged is lost");
    let (code, told) = status(&hoist);
    assert_eq!(code, Some(0), "{told}");
}

/// The kernel ends an API server that outgrows its limit; the engine starts it again, and nothing is lost.
#[test]
fn an_api_server_out_of_memory_is_told_of_and_mended() {
    let hoist = Hoist::new("oom");
    let config = |memory: &str| {
        hoist.config(&format!("nodes: []\ncomponents: {{kube-apiserver: {{memory: {memory}}}}}\n"))
    };
    hoist.ok(&["up", "--config", &config("2Gi")]);
    let writer = Writer::start(&hoist);
    writer.goes_on(Instant::now());
    // Less than it needs to start: it is killed again and again, and no `up` can say that it's well.
    let up = hoist.run(&["up", "--config", &config("64Mi"), "--timeout", "60s"]);
    assert!(![Some(0), None].contains(&up.code), "{}", up.stderr);
    assert!(up.stderr.contains("kube-apiserver") && up.stderr.contains("out of memory"), "{}", up.stderr);
    let name = format!("hoist-{}-kube-apiserver", hoist.name);
    let restarts = state(&name).map(|state| state.restarts);
    assert!(restarts > Some(0), "{restarts:?}: the kernel ended it, the engine started it again");
    let (code, told) = status(&hoist);
    assert_eq!((code, told["overall"].as_str()), (Some(NOT_WELL), Some("degraded")), "{told}");
    // The settings of the run that failed are not those of the cluster.
    let begin = Instant::now();
    mend(&hoist, "API server out of memory");
    writer.goes_on(begin);
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("API server out of memory: none of {count} acknowledged writes lost"));
    until("status is well", Duration::from_secs(60), || match status(&hoist) {
        (Some(0), _) => Ok(()),
        (code, told) => Err(format!("{code:?}: {told}")),
    });
}
