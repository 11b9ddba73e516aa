//! What a configuration file may say beyond the flags, seen by what the cluster does.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::containment::{logs, secrets};
use crate::support::{Done, Hoist, Issuer, Token, block, containers, engine, exec, until};

const FILE: &str = "\
networking:
  mtu: 1400
  dnsRecords: {registry.example.org: [192.168.66.2]}
featureGates: {AllAlpha: false}
components:
  etcd: {extraArgs: {log-level: debug}}
  kube-apiserver: {extraArgs: {v: '6'}}
  kube-controller-manager: {extraArgs: {v: '6'}}
  kube-scheduler: {extraArgs: {v: '6'}}
apiServer:
  runtimeConfig: {api/beta: true}
  podSecurity: {enforce: restricted, exemptNamespaces: [free]}
  authenticationConfig: |
    apiVersion: apiserver.config.k8s.io/v1
    kind: AuthenticationConfiguration
    anonymous:
      enabled: true
      conditions:
      - path: /livez
      - path: /api/v1/namespaces/kube-public/configmaps/cluster-info
    jwt:
    - issuer: {url: ISSUER, audiences: [hoist], certificateAuthority: AUTHORITY}
      claimMappings: {username: {claim: sub, prefix: 'long:'}}
  encryptionConfig: |
    apiVersion: apiserver.config.k8s.io/v1
    kind: EncryptionConfiguration
    resources:
    - resources: [secrets]
      providers:
      - secretbox: {keys: [{name: one, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  audit:
    policy: |
      apiVersion: audit.k8s.io/v1
      kind: Policy
      rules:
      - {level: Metadata, users: [kubernetes-admin], omitStages: [RequestReceived]}
      - {level: None}
scheduler:
  config: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
    - schedulerName: default-scheduler
    - schedulerName: packing
      pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
kubelet:
  config: {maxPods: 42}
kubeProxy:
  config: {metricsBindAddress: '127.0.0.1:10249', nodePortAddresses: [primary]}
addons:
- manifest: kinds.yaml
- manifest: work.yaml
nodes:
- labels: {disk: ssd, topology.kubernetes.io/zone: here}
  taints: [{key: dedicated, value: tests, effect: PreferNoSchedule}]
";

const KINDS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: samples.test.hoist.dev}
spec:
  group: test.hoist.dev
  names: {kind: Sample, plural: samples}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

/// Needs the kind before it, and a pod that runs in its own namespace.
const WORK: &str = "
apiVersion: test.hoist.dev/v1
kind: Sample
metadata: {name: one, namespace: work}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle, namespace: work}
spec:
  selector: {matchLabels: {app: idle}}
  template:
    metadata: {labels: {app: idle}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: idle
        image: localhost/hoist/pause:v1.36.3
        imagePullPolicy: Never
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Namespace
metadata: {name: work}
";

#[test]
fn a_cluster_is_what_its_file_says() {
    let hoist = Hoist::new("configured");
    let issuer = Issuer::start(&hoist);
    let authority = std::fs::read_to_string(&issuer.ca).expect("the issuer has told it");
    let fields =
        FILE.replace("ISSUER", &issuer.url).replace("AUTHORITY", &Value::from(authority).to_string());
    let file = hoist.config(&fields);
    for (name, text) in [("kinds.yaml", KINDS), ("work.yaml", WORK)] {
        std::fs::write(hoist.home().join(name), text).expect("the temporary directory is writable");
    }
    hoist.ok(&["up", "--config", &file]);

    the_node_is_as_asked_for(&hoist);
    addons_are_ready(&hoist);
    names_and_packets_are_as_asked_for(&hoist);
    anonymous_users_see_what_is_named(&hoist);
    pods_are_held_to_the_standard(&hoist);
    another_profile_schedules(&hoist);
    secrets_are_not_readable_in_etcd(&hoist);
    the_audit_log_has_the_user_it_names(&hoist);
    logs_tell_much_and_no_secret(&hoist);

    let before = containers(&hoist.name).into_iter().map(|container| container.id).collect::<Vec<_>>();
    hoist.ok(&["up", "--config", &file]);
    let after = containers(&hoist.name).into_iter().map(|container| container.id).collect::<Vec<_>>();
    assert_eq!(before, after, "nothing has changed");

    tokens_name_users(&hoist, &issuer, "long:alice", &[]);
    let file = hoist.config(&in_short(&fields, &issuer));
    hoist.ok(&["up", "--config", &file]);
    tokens_name_users(&hoist, &issuer, "oidc:alice", &["oidc:testers", "oidc:system:masters"]);
}

/// The same issuer, by the field that is short.
fn in_short(fields: &str, issuer: &Issuer) -> String {
    let (before, rest) = fields.split_once("  authenticationConfig: |").expect("the long form");
    let (_, after) = rest.split_once("  encryptionConfig: |").expect("what follows");
    let Issuer { url, ca, .. } = issuer;
    let oidc = format!("  oidc: {{issuerUrl: '{url}', clientId: hoist, groupsClaim: groups, ca: {ca}}}\n");
    format!("{before}{oidc}  encryptionConfig: |{after}")
}

/// The API server knows whom a token is of, by any of the issuer's keys, and nobody else's.
fn tokens_name_users(hoist: &Hoist, issuer: &Issuer, user: &str, groups: &[&str]) {
    let good = Token { algorithm: "RS256", lives: "1h", stranger: false };
    // It fetches the keys by itself when it has started.
    until("the API server has the issuer's keys", Duration::from_secs(60), || {
        let done = whoami(hoist, &issuer.token(good));
        if done.code == Some(0) { Ok(()) } else { Err(done.stderr) }
    });
    for algorithm in ["RS256", "ES256"] {
        let done = whoami(hoist, &issuer.token(Token { algorithm, ..good }));
        let review: Value = serde_json::from_str(&done.stdout).expect("kubectl prints JSON");
        let info = &review["status"]["userInfo"];
        let found = info["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let wanted = groups.iter().copied().chain(["system:authenticated"]);
        assert_eq!(info["username"], user, "{algorithm}: {review}");
        assert_eq!(found.collect::<BTreeSet<_>>(), wanted.collect(), "{algorithm}: {review}");
    }
    for bad in [
        Token { lives: "-1h", ..good },
        Token { stranger: true, ..good },
        Token { algorithm: "ES256", stranger: true, ..good },
    ] {
        let done = whoami(hoist, &issuer.token(bad));
        assert!(done.code == Some(1) && done.stderr.contains("Unauthorized"), "{done:?}");
    }
}

/// Who the bearer of a token is. The kubeconfig's certificate would say who the cluster's own
/// administrator is, so none is given.
fn whoami(hoist: &Hoist, token: &str) -> Done {
    let (server, ca) = (server(hoist), hoist.state().join("pki/ca.crt"));
    let words = [
        "auth".to_owned(),
        "whoami".to_owned(),
        "--output=json".to_owned(),
        "--kubeconfig=/dev/null".to_owned(),
        format!("--server={server}"),
        format!("--certificate-authority={}", ca.display()),
        format!("--token={token}"),
    ];
    hoist.try_kubectl(&words.each_ref().map(String::as_str))
}

fn server(hoist: &Hoist) -> String {
    hoist.kubectl(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"])
}

fn the_node_is_as_asked_for(hoist: &Hoist) {
    let node = hoist.get(&["node", "node01"]);
    assert_eq!(node["status"]["capacity"]["pods"], "42");
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["disk"], &labels["topology.kubernetes.io/zone"]), (&"ssd".into(), &"here".into()));
    let taints = node["spec"]["taints"].as_array().expect("taints");
    assert!(
        taints.iter().any(|taint| taint["key"] == "dedicated" && taint["value"] == "tests"),
        "{taints:?}"
    );
    let config = hoist.kubectl(&["get", "--raw", "/api/v1/nodes/node01/proxy/configz"]);
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["kubeletconfig"]["featureGates"]["AllAlpha"], false, "{config}");
    let versions = hoist.kubectl(&["api-versions"]);
    assert!(versions.lines().any(|version| version.contains("beta")), "{versions}");
    let proxy = hoist.get(&["configmap", "kube-proxy", "--namespace", "kube-system"]);
    let config = proxy["data"]["config.conf"].as_str().expect("text");
    assert!(config.contains("nodePortAddresses") && config.contains("AllAlpha: false"), "{config}");
}

/// `up` has returned, so they are.
fn addons_are_ready(hoist: &Hoist) {
    hoist.kubectl(&["get", "samples.test.hoist.dev", "one", "--namespace", "work"]);
    let idle = hoist.get(&["deployment", "idle", "--namespace", "work"]);
    assert_eq!(idle["status"]["readyReplicas"], 1, "{}", idle["status"]);
}

fn names_and_packets_are_as_asked_for(hoist: &Hoist) {
    let node = format!("hoist-{}-node01", hoist.name);
    let found = exec(&node, &["getent", "ahostsv4", "registry.example.org"]);
    assert!(found.stdout.starts_with("192.168.66.2 "), "{}{}", found.stdout, found.stderr);
    let mtu = exec(&node, &["cat", "/sys/class/net/eth0/mtu"]);
    assert_eq!(mtu.stdout.trim(), "1400");
}

/// Components were made to tell all that their makers call fit for debugging.
fn logs_tell_much_and_no_secret(hoist: &Hoist) {
    let secrets = secrets(hoist);
    for container in containers(&hoist.name) {
        let log = logs(&container.name);
        for (name, secret) in &secrets {
            assert!(!log.contains(secret.as_str()), "{name} is in the log of {}", container.name);
        }
    }
    // The API server tells of each request at this level.
    assert!(logs(&format!("hoist-{}-kube-apiserver", hoist.name)).contains("verb=\"GET\""));
}

fn anonymous_users_see_what_is_named(hoist: &Hoist) {
    let server = server(hoist);
    let ca = hoist.state().join("pki/ca.crt").display().to_string();
    let code = |path: &str| {
        let url = format!("{server}{path}");
        let args =
            ["--silent", "--cacert", &ca, "--output", "/dev/null", "--write-out", "%{http_code}", &url];
        let done = Command::new("curl").args(args).output().expect("curl is installed");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    assert_eq!(code("/livez"), "200");
    assert_eq!(code("/api/v1/namespaces/kube-public/configmaps/cluster-info"), "200");
    assert_eq!(code("/version"), "401");
}

fn pods_are_held_to_the_standard(hoist: &Hoist) {
    let refused = hoist.try_kubectl(&["run", "rootful", "--image", "localhost/none", "--privileged"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("violates PodSecurity \"restricted:latest\""), "{}", refused.stderr);
    hoist.kubectl(&["create", "namespace", "free"]);
    hoist.kubectl(&["run", "rootful", "--namespace", "free", "--image", "localhost/none", "--privileged"]);
}

fn another_profile_schedules(hoist: &Hoist) {
    let spec = r#"--overrides={"spec":{"schedulerName":"packing"}}"#;
    hoist.kubectl(&["run", "packed", "--namespace", "free", "--image", "localhost/none", spec]);
    until("the pod is scheduled by the profile", Duration::from_secs(30), || {
        let pod = hoist.get(&["pod", "packed", "--namespace", "free"]);
        match pod["spec"]["nodeName"] == "node01" {
            true => Ok(()),
            false => Err(pod["status"].to_string()),
        }
    });
}

/// The database file itself is searched, for what is there in clear too.
fn secrets_are_not_readable_in_etcd(hoist: &Hoist) {
    let literal = |kind: &[&str], value: &str| {
        let value = format!("--from-literal=key={value}");
        hoist.kubectl(&[&["create"], kind, &["sample", &value]].concat());
    };
    literal(&["secret", "generic"], "words-of-a-secret");
    literal(&["configmap"], "words-in-the-clear");
    let secret = hoist.kubectl(&["get", "secret", "sample", "--output", "jsonpath={.data.key}"]);
    assert_eq!(secret, "d29yZHMtb2YtYS1zZWNyZXQ=", "it can be read through the API");
    let holds = |words: &str| {
        let volume = format!("hoist-{}-etcd:/data:ro", hoist.name);
        let image = "localhost/hoist/network:v1.36.3";
        let search = ["grep", "-rqa", words, "/data"];
        let run = ["run", "--rm", "--network=none", "--volume", &volume, "--entrypoint", search[0], image];
        let done = Command::new("docker").args(run).args(&search[1..]).output();
        done.expect("the engine's client runs").status.success()
    };
    until("etcd has written the clear words down", Duration::from_secs(30), || {
        if holds("words-in-the-clear") { Ok(()) } else { Err("not yet".to_owned()) }
    });
    assert!(!holds("words-of-a-secret"));
}

fn the_audit_log_has_the_user_it_names(hoist: &Hoist) {
    let name = format!("hoist-{}-kube-apiserver", hoist.name);
    let log = hoist_phases::spec::AuditSpec::LOG;
    let log = block(engine().read_file(&name, log, 1 << 20)).expect("the engine reads").expect("a log");
    let log = String::from_utf8(log).expect("text");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let users: BTreeSet<_> = events.map(|event| event["user"]["username"].to_string()).collect();
    assert_eq!(users, BTreeSet::from(["\"kubernetes-admin\"".to_owned()]));
}
