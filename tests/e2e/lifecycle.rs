//! `up` again, `down` twice, and what a component's crash does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use hoist_phases::ports::Status;
use serde_json::Value;

use crate::support::{CLIENT, Shared, alone, containers, events, in_pod, pid, state, tell, until, workload};

/// Id and start of every container, by name.
fn moments(cluster: &str) -> BTreeMap<String, (String, String)> {
    let all = containers(cluster).into_iter();
    all.map(|container| (container.name, (container.id, container.started_at))).collect()
}

#[test]
fn up_again_changes_nothing() {
    let (shared, _alone) = alone();
    let before = moments(&shared.hoist.name);
    assert_eq!(before.len(), 9, "{before:?}");
    let config = shared.hoist.home().join("cluster.yaml").display().to_string();
    // With the same configuration, and with none.
    for args in [&["up", "--config", &config, "--progress", "json"][..], &["up", "--progress", "json"]] {
        let again = shared.hoist.run(args);
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        let mut unchanged = 0;
        for event in events(&again.stderr).iter().filter(|event| event["event"] == "finished") {
            // The shared cluster's configuration asks for none of these.
            let absent = ["upgrade", "placement", "konnectivity", "registry", "addons"]
                .iter()
                .any(|phase| event["phase"] == *phase);
            let outcome = if absent { "skipped" } else { "unchanged" };
            assert_eq!(event["outcome"], outcome, "{event}");
            unchanged += 1;
        }
        assert_eq!(unchanged, hoist_phases::phases::PHASES.len(), "{}", again.stderr);
        assert_eq!(moments(&shared.hoist.name), before);
    }
}

/// A name added later must not cost a new cluster.
#[test]
fn an_added_name_restarts_the_api_server_alone() {
    let (shared, _alone) = alone();
    let before = moments(&shared.hoist.name);
    let api_server = format!("hoist-{}-kube-apiserver", shared.hoist.name);
    let leaf =
        |name: &str| std::fs::read(shared.hoist.state().join("pki").join(name)).expect("a certificate");
    let (old, client) = (leaf("apiserver.crt"), leaf("apiserver-kubelet-client.crt"));
    let profile = shared.hoist.home().join("up.json");
    shared.hoist.ok(&["up", "--extra-san", "added.example.org", "--profile", &profile.display().to_string()]);
    tells_where_the_time_went(&profile, &api_server);
    assert!(leaf("apiserver.crt") != old && leaf("apiserver-kubelet-client.crt") == client);
    let after = moments(&shared.hoist.name);
    let changed: Vec<_> = before.iter().filter(|(name, moment)| after.get(*name) != Some(moment)).collect();
    assert_eq!(changed.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [&api_server]);
    // TLS by that name, verified: what nobody resolves is dialled by hand.
    let name = ["--tls-server-name", "added.example.org", "get", "--raw", "/readyz"];
    assert_eq!(shared.hoist.kubectl(&name), "ok");
    let other =
        shared.hoist.try_kubectl(&["--tls-server-name", "other.example.org", "get", "--raw", "/readyz"]);
    assert!(other.code != Some(0) && other.stderr.contains("x509"), "{}", other.stderr);
}

/// Kills the first process of a container, as the kernel or a crash would, not as the engine does,
/// which would keep it from being started again.
/// The API server's start is a call of its phase, in the trace and on the page's critical path.
fn tells_where_the_time_went(profile: &Path, api_server: &str) {
    let trace: Value = serde_json::from_slice(&std::fs::read(profile).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let find = |category: &str, name: &str| {
        let found = events.iter().find(|event| event["cat"] == category && event["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no {category} {name} in {trace}"));
        (found["ts"].as_u64().unwrap(), found["dur"].as_u64().unwrap(), found["tid"].clone())
    };
    let phase = find("phase", "control-plane");
    let start = find("engine", &format!("start {api_server}"));
    assert_eq!(start.2, phase.2);
    // Phases are told in milliseconds.
    assert!(phase.0 <= start.0 && start.0 + start.1 <= phase.0 + phase.1 + 1000, "{phase:?} {start:?}");
    let page = std::fs::read_to_string(profile.with_extension("html")).unwrap();
    assert!(page.contains(&format!("<td>control-plane: start {api_server}</td>")), "{page}");
}

fn crash(shared: &Shared, component: &str) {
    let name = format!("hoist-{}-{component}", shared.hoist.name);
    let before = state(&name).expect("it runs");
    let process = rustix::process::Pid::from_raw(pid(&name)).expect("a process");
    let begin = Instant::now();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("this host's root");
    until(&format!("{component} runs again"), Duration::from_secs(30), || {
        let now = state(&name).ok_or("it is gone")?;
        let again = now.status == Status::Running && now.started_at != before.started_at;
        if again { Ok(()) } else { Err(format!("{:?}", now.status)) }
    });
    assert_eq!(state(&name).map(|now| now.id), Some(before.id), "the same container");
    tell(&format!("{component} ran again {} ms after its crash", begin.elapsed().as_millis()));
}

/// The cluster does what it did before: changes are accepted and carried out.
fn works(shared: &Shared, what: &str) {
    let name = format!("after-{what}");
    until("a Deployment's ReplicaSet is made", Duration::from_secs(90), || {
        let made = shared.hoist.try_kubectl(&[
            "create",
            "deployment",
            &name,
            "--image",
            "none.invalid/none",
            "--replicas",
            "0",
        ]);
        if made.code == Some(0) || made.stderr.contains("AlreadyExists") { Ok(()) } else { Err(made.stderr) }
    });
    let selector = format!("app={name}");
    until("the controller-manager acts", Duration::from_secs(90), || {
        let sets = shared.hoist.try_kubectl(&["get", "replicasets", "-l", &selector, "-o", "name"]);
        if sets.stdout.contains(&name) { Ok(()) } else { Err(sets.stdout + &sets.stderr) }
    });
    shared.hoist.kubectl(&["delete", "deployment", &name]);
}

#[test]
fn a_crash_of_any_component_mends_itself() {
    let (shared, _alone) = alone();
    workload(shared);
    let hoist = &shared.hoist;
    hoist.kubectl(&["create", "configmap", "kept", "--from-literal", "key=value"]);
    for component in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "steward"] {
        crash(shared, component);
        works(shared, component);
        let kept = hoist.kubectl(&["get", "configmap", "kept", "-o", "jsonpath={.data.key}"]);
        assert_eq!(kept, "value", "after the crash of {component}");
    }
    hoist.kubectl(&["delete", "configmap", "kept"]);
    // The namespace and the nodes' links outlive dnsmasq.
    crash(shared, "dnsmasq");
    until("names resolve again", Duration::from_secs(30), || {
        let found = hoist.try_kubectl(&["exec", CLIENT, "--", "getent", "ahostsv4", "node02"]);
        if found.stdout.starts_with("192.168.66.102 ") { Ok(()) } else { Err(found.stdout + &found.stderr) }
    });
    assert!(!in_pod(shared, CLIENT, "getent ahostsv4 control-plane").is_empty());
    until("status is well again", Duration::from_secs(60), || {
        let status = hoist.run(&["status"]);
        if status.code == Some(0) { Ok(()) } else { Err(status.stdout + &status.stderr) }
    });
}
