//! What Deployments get that state no placement, and why it is a preference: on as many nodes as
//! there are replicas a requirement stops every update.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Done, Hoist, until, wait};

/// On every node by the name that kube-router goes by; it has a shell.
const IMAGE: &str = "localhost/hoist/kube-router:v1.36.3";

const NAMESPACE: &str = "infra";

const PLACEMENT: &str = "
placement:
  policy:
    namespaces: [infra]
    nodeSelector: {kubernetes.io/os: linux}
    tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
    replicas: 2
";

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A Deployment that states a name, a selector and what runs; `revision` makes it roll out.
fn deployment(name: &str, namespace: &str, revision: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"revision": revision}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                        "command": ["sh", "-c", "sleep infinity"],
                    }],
                },
            },
        },
    })
}

/// With a label selector that a requirement keeps apart.
fn required(mut deployment: Value, replicas: u32) -> Value {
    deployment["spec"]["replicas"] = json!(replicas);
    deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][REQUIRED] = json!([{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": deployment["spec"]["selector"].clone(),
    }]);
    deployment
}

/// Runs a command with an object on its stdin.
fn give(hoist: &Hoist, args: &[&str], object: &Value) -> Done {
    let mut command = hoist.command(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(object.to_string().as_bytes()).expect("it reads");
    wait(child)
}

fn given(hoist: &Hoist, args: &[&str], object: &Value) -> String {
    let done = give(hoist, args, object);
    assert_eq!(done.code, Some(0), "{args:?}: {}{}", done.stdout, done.stderr);
    done.stdout
}

fn live(hoist: &Hoist, name: &str) -> Value {
    hoist.get(&["deployment", name, "--namespace", NAMESPACE])
}

fn live_number(hoist: &Hoist, name: &str) -> u64 {
    live(hoist, name)["spec"]["replicas"].as_u64().expect("a number")
}

fn rolled_out(hoist: &Hoist, name: &str) {
    let what = format!("deployment/{name}");
    hoist.ok(&["wait", "--for", &what, "--namespace", NAMESPACE, "--timeout", "180s"]);
}

fn pods(hoist: &Hoist, name: &str) -> Vec<Value> {
    let pods = hoist.get(&["pods", "--namespace", NAMESPACE, "--selector", &format!("app={name}")]);
    pods["items"].as_array().cloned().expect("a list")
}

/// A cluster with the policy, its namespace made and the policy at work.
fn cluster(what: &str, nodes: u32) -> Hoist {
    let hoist = Hoist::new(what);
    let config = hoist.config(&format!("nodes:\n- count: {nodes}\n{PLACEMENT}"));
    hoist.ok(&["up", "--config", &config]);
    hoist.kubectl(&["create", "namespace", NAMESPACE]);
    hoist
}

/// A rolling update of the default kind, at most one pod more and none less, goes through with
/// what the policy gives, and stops with a requirement.
fn updates(hoist: &Hoist, nodes: u32) {
    hoist.apply(&deployment("placed", NAMESPACE, "1").to_string());
    rolled_out(hoist, "placed");
    let placed = live(hoist, "placed");
    assert_eq!(placed["spec"]["replicas"], 2);
    assert_eq!(
        placed["spec"]["strategy"]["rollingUpdate"],
        json!({"maxSurge": "25%", "maxUnavailable": "25%"})
    );
    let on: std::collections::BTreeSet<_> =
        pods(hoist, "placed").iter().map(|pod| pod["spec"]["nodeName"].to_string()).collect();
    assert_eq!(on.len(), nodes as usize, "apart where there is room: {on:?}");
    hoist.apply(&deployment("placed", NAMESPACE, "2").to_string());
    rolled_out(hoist, "placed");
    for pod in pods(hoist, "placed") {
        assert_eq!(pod["metadata"]["annotations"]["revision"], "2");
    }
    hoist.kubectl(&["delete", "deployment", "placed", "--namespace", NAMESPACE]);

    // As many as fit: one more would not even start. 25 % of less than four are one more and none less.
    let stuck = |revision| required(deployment("stuck", NAMESPACE, revision), nodes).to_string();
    hoist.apply(&stuck("1"));
    rolled_out(hoist, "stuck");
    hoist.apply(&stuck("2"));
    let why = until("the new pod finds no node", Duration::from_secs(60), || {
        let pods = pods(hoist, "stuck");
        let new = pods.iter().find(|pod| pod["metadata"]["annotations"]["revision"] == "2");
        let conditions =
            new.and_then(|pod| pod["status"]["conditions"].as_array()).cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled").cloned();
        let scheduled = scheduled.unwrap_or_default();
        if scheduled["reason"] == "Unschedulable" {
            Ok(scheduled["message"].to_string())
        } else {
            Err(scheduled.to_string())
        }
    });
    assert!(why.contains("anti-affinity"), "{why}");
    let done = hoist.run(&["wait", "--for", "deployment/stuck", "--namespace", NAMESPACE, "--timeout", "1s"]);
    assert_eq!(done.code, Some(6), "{}", done.stderr);
    assert!(
        done.stderr.contains("Unschedulable") && done.stderr.contains("older revision"),
        "{}",
        done.stderr
    );
    let status = &live(hoist, "stuck")["status"];
    assert_eq!(
        (&status["updatedReplicas"], &status["readyReplicas"]),
        (&json!(1), &json!(nodes)),
        "{status}"
    );
    hoist.kubectl(&["delete", "deployment", "stuck", "--namespace", NAMESPACE]);
}

/// kubevirt/kubevirt: virt-api and virt-controller, and why theirs is preferred too.
#[test]
fn updates_go_through_on_one_node_and_on_two() {
    let hoist = cluster("placement", 1);
    updates(&hoist, 1);
    hoist.ok(&["node", "add"]);
    updates(&hoist, 2);
    what_is_stated_stays(&hoist);
    one_ready_replica_counts(&hoist);
    spread_by_hand(&hoist);
    turned_off(&hoist);
}

fn what_is_stated_stays(hoist: &Hoist) {
    let mut stated = required(deployment("stated", NAMESPACE, "1"), 1);
    stated["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "mine", "operator": "Exists"}]);
    stated["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node01"});
    for args in [&["kubectl", "apply", "-f", "-"][..], &["kubectl", "apply", "--server-side", "-f", "-"]] {
        given(hoist, args, &stated);
        let spec = &live(hoist, "stated")["spec"];
        assert_eq!(spec["replicas"], 1, "{args:?}");
        for field in ["affinity", "tolerations", "nodeSelector"] {
            let (is, was) = (&spec["template"]["spec"][field], &stated["spec"]["template"]["spec"][field]);
            assert_eq!(is, was, "{field} {args:?}");
        }
        hoist.kubectl(&["delete", "deployment", "stated", "--namespace", NAMESPACE]);
    }
    // The same when nothing is stated, by either kind of apply.
    for args in [&["kubectl", "apply", "-f", "-"][..], &["kubectl", "apply", "--server-side", "-f", "-"]] {
        given(hoist, args, &deployment("silent", NAMESPACE, "1"));
        let spec = live(hoist, "silent")["spec"].clone();
        let pod = &spec["template"]["spec"];
        assert_eq!(spec["replicas"], 2, "{args:?}");
        assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
        assert_eq!(pod["tolerations"], json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}]));
        let term = &pod["affinity"]["podAntiAffinity"][PREFERRED][0]["podAffinityTerm"];
        assert_eq!(term["labelSelector"], spec["selector"]);
        // A person scales, and no apply of the same file undoes it.
        hoist.kubectl(&["scale", "deployment", "silent", "--replicas", "1", "--namespace", NAMESPACE]);
        given(hoist, args, &deployment("silent", NAMESPACE, "2"));
        assert_eq!(live(hoist, "silent")["spec"]["replicas"], 1);
        hoist.kubectl(&["delete", "deployment", "silent", "--namespace", NAMESPACE]);
    }
    // A kind of affinity without any term is no statement.
    let mut empty = deployment("empty", NAMESPACE, "1");
    empty["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": {}, "nodeAffinity": {}});
    hoist.apply(&empty.to_string());
    let pod = &live(hoist, "empty")["spec"]["template"]["spec"];
    assert_eq!(pod["affinity"]["podAntiAffinity"][PREFERRED].as_array().map(Vec::len), Some(1), "{pod}");
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    hoist.kubectl(&["delete", "deployment", "empty", "--namespace", NAMESPACE]);
    // A plain create says 1 whether that was meant or not.
    given(hoist, &["kubectl", "create", "-f", "-"], &deployment("created", NAMESPACE, "1"));
    let spec = &live(hoist, "created")["spec"];
    assert_eq!(spec["replicas"], 1);
    assert!(spec["template"]["spec"]["affinity"]["podAntiAffinity"].is_object());
    hoist.kubectl(&["delete", "deployment", "created", "--namespace", NAMESPACE]);
    // Namespaces that nobody named are the user's alone.
    given(hoist, &["kubectl", "apply", "-f", "-"], &deployment("elsewhere", "default", "1"));
    let spec = hoist.get(&["deployment", "elsewhere"])["spec"].clone();
    assert_eq!((&spec["replicas"], &spec["template"]["spec"]["affinity"]), (&json!(1), &Value::Null));
    hoist.kubectl(&["delete", "deployment", "elsewhere"]);
}

/// virt-api's shape: two replicas behind a readiness probe, ready when one answers.
fn one_ready_replica_counts(hoist: &Hoist) {
    let mut api = deployment("virt-api", NAMESPACE, "1");
    let container = &mut api["spec"]["template"]["spec"]["containers"][0];
    container["readinessProbe"] = json!({
        "exec": {"command": ["sh", "-c", "test \"$NODE\" = node01"]}, "periodSeconds": 1,
    });
    container["env"] = json!([{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
    hoist.apply(&api.to_string());
    let one = "deployment/virt-api=min-ready:1";
    hoist.ok(&["wait", "--for", one, "--namespace", NAMESPACE, "--timeout", "120s"]);
    for more in ["deployment/virt-api=min-ready:2", "deployment/virt-api"] {
        let done =
            hoist.run(&["wait", "--for", more, "--for", one, "--namespace", NAMESPACE, "--timeout", "2s"]);
        assert_eq!(done.code, Some(6), "{}", done.stderr);
        assert!(done.stderr.contains("1 of 2 replicas are ready"), "{}", done.stderr);
        assert!(done.stderr.contains("- Pod virt-api-"), "{}", done.stderr);
    }
    let none = hoist.run(&["wait", "--for", "deployment/none=min-ready:1", "--timeout", "1s"]);
    assert_eq!((none.code, none.stderr.contains("Deployment default/none: there is none")), (Some(6), true));
    hoist.ok(&["wait", "--for", "level=dns", "--timeout", "60s"]);
    hoist.kubectl(&["delete", "deployment", "virt-api", "--namespace", NAMESPACE]);
}

/// `hoist apply`: anything, in any order; `--spread` for namespaces without a policy too.
fn spread_by_hand(hoist: &Hoist) {
    let custom = json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "mine"}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}});
    let mut small = deployment("small", "mine", "1");
    small["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "somebody"});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [custom, small, definition, namespace]});

    let text = given(hoist, &["apply", "-"], &list);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let wanted = [
        "CustomResourceDefinition things.example.org created",
        "Deployment mine/small created",
        "Namespace mine created",
        "Thing mine/a created",
    ];
    assert_eq!(lines, wanted);
    let live = || hoist.get(&["deployment", "small", "--namespace", "mine"]);
    assert_eq!(live()["spec"]["template"]["spec"]["affinity"], Value::Null, "nothing that nobody asked for");
    assert_eq!(live()["metadata"]["labels"], small["metadata"]["labels"]);
    let again = given(hoist, &["apply", "-"], &list);
    assert_eq!(again.matches(" unchanged\n").count(), 4, "{again}");

    let spread = given(hoist, &["apply", "--spread", "-", "-o", "json"], &list);
    let spread: Value = serde_json::from_str(&spread).expect("JSON");
    let entry = spread.as_array().into_iter().flatten().find(|entry| entry["kind"] == "Deployment");
    let entry = entry.expect("an entry an object");
    assert_eq!((&entry["result"], &entry["placed"]), (&json!("updated"), &json!(true)));
    let term = live()["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][PREFERRED][0].clone();
    assert_eq!(term["podAffinityTerm"]["labelSelector"], small["spec"]["selector"]);
    assert_eq!(live()["spec"]["replicas"], 1, "the policy says nothing about this namespace");

    // The policy's number is for the creation: whoever scales later has the last word.
    let scaled = || live_number(hoist, "scaled");
    for (revision, replicas) in [("1", 2), ("2", 2)] {
        given(hoist, &["apply", "--spread", "-"], &deployment("scaled", NAMESPACE, revision));
        assert_eq!(scaled(), replicas, "revision {revision}");
    }
    for (revision, replicas) in [("3", 3), ("4", 0)] {
        let number = replicas.to_string();
        hoist.kubectl(&["scale", "deployment", "scaled", "--replicas", &number, "--namespace", NAMESPACE]);
        given(hoist, &["apply", "--spread", "-"], &deployment("scaled", NAMESPACE, revision));
        assert_eq!(scaled(), replicas, "revision {revision}");
    }
    hoist.kubectl(&["delete", "deployment", "scaled", "--namespace", NAMESPACE]);

    // A refusal stands, however much time there is.
    hoist.kubectl(&["create", "quota", "none", "--hard=count/deployments.apps=0", "--namespace", "mine"]);
    let done = give(hoist, &["apply", "--timeout", "1h", "-"], &deployment("forbidden", "mine", "1"));
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("was refused") && done.stderr.contains("exceeded quota"), "{}", done.stderr);
    hoist.kubectl(&["delete", "quota", "none", "--namespace", "mine"]);

    let mut broken = deployment("broken", "mine", "1");
    broken["spec"]["replicaz"] = json!(2);
    let done = give(hoist, &["apply", "-"], &broken);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{}", done.stderr);
    assert!(
        done.stderr.contains("Deployment mine/broken") && done.stderr.contains("replicaz"),
        "{}",
        done.stderr
    );
    let lost = deployment("lost", "nowhere", "1");
    let done = give(hoist, &["apply", "--timeout", "1s", "-"], &lost);
    assert!(done.code == Some(1) && done.stderr.contains("nowhere"), "{}", done.stderr);
    hoist.kubectl(&["delete", "namespace", "mine", "--wait=false"]);
}

fn turned_off(hoist: &Hoist) {
    let config = hoist.config("placement: {policy: {namespaces: []}}\n");
    hoist.ok(&["up", "--config", &config]);
    let left =
        hoist.kubectl(&["get", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", "-o", "name"]);
    assert_eq!(left, "", "both are gone");
    until("the API server has let go of it", Duration::from_secs(30), || {
        let text = given(
            hoist,
            &["kubectl", "apply", "--dry-run=server", "-o", "json", "-f", "-"],
            &deployment("free", NAMESPACE, "1"),
        );
        let free: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let affinity = &free["spec"]["template"]["spec"]["affinity"];
        if affinity.is_null() { Ok(()) } else { Err(affinity.to_string()) }
    });
}
