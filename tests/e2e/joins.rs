//! Machines that are joined by hand, as kubevirtci and people do.

use std::collections::BTreeSet;
use std::time::Duration;

use hoist_phases::phases::nodes::HOST_CHECKS;
use serde_json::Value;

use crate::support::{CONFIG_TOKEN, Shared, alone, exec, on_node, until};

/// Runs a line in a node's shell; gives exit code and everything that was written.
fn try_on(shared: &Shared, node: &str, line: &str) -> (i64, String) {
    let output =
        exec(&format!("hoist-{}-{node}", shared.hoist.name), &["bash", "-c", &format!("{line} 2>&1")]);
    (output.code, output.stdout)
}

/// The checks that kubeadm's preflight says have failed.
fn failed_checks(output: &str) -> BTreeSet<String> {
    let names = output.split("[ERROR ").skip(1).filter_map(|rest| rest.split(']').next());
    names.map(str::to_owned).collect()
}

fn is_ready(shared: &Shared, node: &str) {
    until(&format!("{node} is Ready"), Duration::from_secs(180), || {
        let found = shared.hoist.try_kubectl(&["get", "node", node, "-o", "json"]);
        let node: Value = serde_json::from_str(&found.stdout).map_err(|_| found.stderr)?;
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").cloned();
        let ready = ready.unwrap_or_default();
        if ready["status"] == "True" { Ok(()) } else { Err(ready.to_string()) }
    });
}

#[test]
fn machines_are_joined_by_hand() {
    let (shared, _alone) = alone();
    let hoist = &shared.hoist;
    hoist.ok(&["node", "add", "2", "--no-join"]);
    let nodes = hoist.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes, "node/node01\nnode/node02\n", "the machines run and have not joined");

    // The third by kubevirtci's line, to the letter.
    let (code, output) = try_on(
        shared,
        "node03",
        &format!(
            "kubeadm join --token {CONFIG_TOKEN} 192.168.66.2:6443 --ignore-preflight-errors=all \
             --discovery-token-unsafe-skip-ca-verification=true"
        ),
    );
    assert_eq!(code, 0, "{output}");

    // The fourth by hoist's own: first what kubeadm thinks of machine and cluster, ignoring nothing.
    let line = hoist.ok(&["join-command"]);
    let line = line.trim();
    let preflight = line.replacen("kubeadm join", "kubeadm join phase preflight", 1);
    let (code, output) = try_on(shared, "node04", &preflight);
    let failed = failed_checks(&output);
    assert_eq!(code == 0, failed.is_empty(), "{output}");
    assert!(failed.iter().all(|check| HOST_CHECKS.contains(&check.as_str())), "{failed:?}: {output}");
    // Without those that only the engine's host can change it accepts both.
    let ignored = format!("--ignore-preflight-errors={}", HOST_CHECKS.join(","));
    let (code, output) = try_on(shared, "node04", &format!("{preflight} {ignored}"));
    assert_eq!(code, 0, "{output}");
    let (code, output) = try_on(shared, "node04", &format!("{line} {ignored}"));
    assert_eq!(code, 0, "{output}");

    for node in ["node03", "node04"] {
        is_ready(shared, node);
    }
    let wide = hoist.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].status.addresses[0].address}"]);
    assert_eq!(wide, "192.168.66.101 192.168.66.102 192.168.66.103 192.168.66.104");
    // Both kinds of join leave the machine with a certificate of its own.
    assert!(on_node(shared, "node03", "ls /var/lib/kubelet/pki").contains("kubelet-client-current.pem"));

    hoist.ok(&["node", "remove", "node03", "node04"]);
    assert_eq!(hoist.kubectl(&["get", "nodes", "-o", "name"]), "node/node01\nnode/node02\n");
}

/// A token that is no longer good must not be handed out again.
#[test]
fn kubeadm_668_every_join_command_has_a_fresh_token() {
    let (shared, _alone) = alone();
    let line = |args: &[&str]| {
        let text = shared.hoist.ok(&[&["join-command", "-o", "json"], args].concat());
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let (first, second) = (line(&[]), line(&["--token-ttl", "90m"]));
    assert_ne!(first["command"], second["command"]);
    assert_eq!((&first["lifetimeSecs"], &second["lifetimeSecs"]), (&86_400.into(), &5_400.into()));
    // Signed at once: a join would otherwise wait for the controller.
    let id = second["command"].as_str().and_then(|command| command.split("--token ").nth(1));
    let id = id.and_then(|token| token.split('.').next()).expect("a token").to_owned();
    let info = shared.hoist.get(&["configmap", "cluster-info", "--namespace", "kube-public"]);
    assert!(info["data"].get(format!("jws-kubeconfig-{id}")).is_some(), "{info}");
}

/// What a token may do begins with its creation and ends with its deletion.
#[test]
fn a_token_lives_until_it_is_deleted() {
    let (shared, _alone) = alone();
    let hoist = &shared.hoist;
    let token = hoist.ok(&["token", "create", "--ttl", "90m", "--description", "of a test"]);
    let (id, secret) = token.trim().split_once('.').expect("a token");
    let list =
        || -> Vec<Value> { serde_json::from_str(&hoist.ok(&["token", "list", "-o", "json"])).expect("JSON") };
    let listed = list();
    let ours = listed.iter().find(|token| token["id"] == id).expect("it is listed");
    assert_eq!((&ours["description"], &ours["configured"]), (&"of a test".into(), &false.into()), "{ours}");
    assert!(ours["leftSecs"].as_u64().is_some_and(|left| (5_000..=5_400).contains(&left)), "{ours}");
    let (config_id, _) = CONFIG_TOKEN.split_once('.').expect("a token");
    assert!(listed.iter().any(|token| token["id"] == config_id && token["configured"] == true), "{listed:?}");
    assert!(!hoist.ok(&["token", "list"]).contains(secret), "the list shows a secret");
    assert!(hoist.ok(&["token", "list", "--show-secret"]).contains(token.trim()));

    let admin = std::fs::read_to_string(hoist.state().join("kubeconfig")).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&admin).expect("YAML");
    kubeconfig["users"][0]["user"] = serde_json::json!({ "token": token.trim() });
    let path = hoist.home().join("by-token.json");
    std::fs::write(&path, kubeconfig.to_string()).expect("the temporary directory is writable");
    let path = path.display().to_string();
    let whoami = || hoist.try_kubectl(&["--kubeconfig", &path, "auth", "whoami"]);
    assert!(whoami().stdout.contains(&format!("system:bootstrap:{id}")), "{:?}", whoami());

    let unknown = hoist.run(&["token", "delete", id, "zzzzzz"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("no token zzzzzz"), "{}", unknown.stderr);
    assert!(list().iter().any(|token| token["id"] == id), "one that is unknown keeps the others");
    hoist.ok(&["token", "delete", token.trim()]);
    assert!(!list().iter().any(|token| token["id"] == id));
    until("the token is refused", Duration::from_secs(30), || {
        let done = whoami();
        if done.code == Some(0) { Err(done.stdout) } else { Ok(()) }
    });
}
