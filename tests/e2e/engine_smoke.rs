//! What has to work on every engine: `make test` runs it on the usual one, `make test-podman` on
//! Podman's service.

use std::time::Duration;

use hoist_phases::phases::PHASES;
use serde_json::{Value, json};

use crate::support::{Hoist, IMAGE, Traces, engine, events, tell, things, until};

const SOON: Duration = Duration::from_secs(60);

/// All phases of a run that changed nothing.
fn nothing_is_done_twice(hoist: &Hoist, args: &[&str]) {
    let again = hoist.run(&[&["up", "--progress", "json"], args].concat());
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let finished: Vec<_> = events(&again.stderr).into_iter().filter(|e| e["event"] == "finished").collect();
    assert_eq!(finished.len(), PHASES.len(), "{}", again.stderr);
    for event in finished {
        assert!(event["outcome"] == "unchanged" || event["outcome"] == "skipped", "{event}");
    }
}

fn status(hoist: &Hoist) -> Value {
    serde_json::from_str(&hoist.ok(&["status", "-o", "json"])).expect("JSON")
}

fn pods() -> String {
    let pod = |name: &str, script: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                    "command": ["bash", "-c", script],
                }],
            },
        })
    };
    pod("smoke", "echo smoking; exec sleep infinity").to_string()
}

#[test]
fn an_engine_runs_a_control_plane_and_a_node() {
    let hoist = Hoist::new("smoke");
    tell(&format!("engine: {}", engine().endpoint()));
    hoist.ok(&["up", "--nodes", "0"]);
    let none = status(&hoist);
    assert_eq!((&none["overall"], &none["nodes"]), (&json!("running"), &json!([])), "{none}");
    let endpoint =
        none["components"].as_array().and_then(|all| all.iter().find_map(|c| c["endpoint"].as_str()));
    assert!(endpoint.is_some_and(|at| at.starts_with("127.0.0.1:")), "{none}");
    nothing_is_done_twice(&hoist, &["--nodes", "0"]);

    hoist.ok(&["node", "add"]);
    let one = status(&hoist);
    assert_eq!((&one["overall"], &one["nodes"][0]["ready"]), (&json!("running"), &json!(true)), "{one}");
    hoist.ok(&["wait", "--for", "level=dns", "--timeout", "3m"]);

    hoist.ok(&["node", "load", IMAGE]);
    hoist.apply(&pods());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod/smoke", "--timeout=120s"]);
    until("the pod has written", SOON, || match hoist.kubectl(&["logs", "smoke"]) {
        log if log == "smoking\n" => Ok(()),
        log => Err(log),
    });
    let name = "kubernetes.default.svc.cluster.local";
    let lookup = ["exec", "smoke", "--", "getent", "ahostsv4", name];
    let found = hoist.kubectl(&lookup);
    assert!(found.starts_with("10.96.0.1 "), "{found}");
    assert!(hoist.ok(&["logs", "node01", "--tail", "5"]).len() > 1);
    assert_eq!(hoist.ok(&["node", "ssh", "node01", "--", "hostname"]), "node01\n");
    nothing_is_done_twice(&hoist, &[]);

    let traces = Traces::of(&hoist.name);
    hoist.ok(&["down"]);
    assert_eq!(traces.left(), Vec::<String>::new());
    assert_eq!(things(&hoist.name), Vec::<String>::new());
    hoist.ok(&["down"]);
}
