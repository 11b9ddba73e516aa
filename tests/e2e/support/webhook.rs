//! An admission webhook and an aggregated API served by a pod: tests/fixtures/webhook.

use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::hoist::{Done, Hoist, wait};
use super::program::Program;
use super::until;

/// Of the webhook in its registration.
const NAME: &str = "webhook.hoist.test";

/// What the API server gives it to answer; a create that it judges fails after that.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct Webhook {
    program: Program,
}

impl Webhook {
    /// Builds it, runs it on a node and registers it. Nothing here needs the API server to reach
    /// pods.
    pub(crate) fn start(hoist: &Hoist, node: &str) -> Self {
        let webhook = Self { program: Program::build("webhook", hoist.home()) };
        hoist.ok(&["node", "load", &webhook.program.image]);

        let own = rcgen::generate_simple_self_signed(vec!["webhook.default.svc".to_owned()]);
        let own = own.expect("a certificate");
        let (cert, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        hoist.apply(&webhook.pod(hoist, node, &cert, &key));
        hoist.kubectl(&["wait", "--for=condition=Ready", "pod/webhook", "--timeout=120s"]);
        let address = hoist.kubectl(&["get", "pod", "webhook", "-o", "jsonpath={.status.podIP}"]);
        until("the Service has its endpoint", Duration::from_secs(30), || {
            let slices = hoist.kubectl(&[
                "get",
                "endpointslices",
                "-l",
                "kubernetes.io/service-name=webhook",
                "-o",
                "jsonpath={.items[*].endpoints[?(@.conditions.ready)].addresses}",
            ]);
            if slices.contains(&address) { Ok(()) } else { Err(slices) }
        });
        hoist.apply(&registration(&cert));
        webhook
    }

    fn pod(&self, hoist: &Hoist, node: &str, cert: &str, key: &str) -> String {
        let proxy =
            hoist.get(&["configmap", "extension-apiserver-authentication", "--namespace", "kube-system"]);
        let command = [
            "/webhook",
            "--cert=/tls/tls.crt",
            "--key=/tls/tls.key",
            "--proxy-ca=/front-proxy/requestheader-client-ca-file",
        ];
        let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path, "readOnly": true });
        let items = [
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "webhook" },
                "type": "kubernetes.io/tls", "stringData": { "tls.crt": cert, "tls.key": key },
            }),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "front-proxy" },
                "data": proxy["data"],
            }),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "webhook", "labels": { "app": "webhook" } },
                "spec": {
                    "nodeName": node,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "webhook", "image": self.program.image, "imagePullPolicy": "Never", "command": command,
                        "readinessProbe": { "tcpSocket": { "port": 8443 }, "periodSeconds": 1 },
                        "volumeMounts": [mount("tls", "/tls"), mount("front-proxy", "/front-proxy")],
                    }],
                    "volumes": [
                        { "name": "tls", "secret": { "secretName": "webhook" } },
                        { "name": "front-proxy", "configMap": { "name": "front-proxy" } },
                    ],
                },
            }),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": "webhook" },
                "spec": { "selector": { "app": "webhook" }, "ports": [{ "port": 443, "targetPort": 8443 }] },
            }),
        ];
        json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
    }
}

/// The webhook judges ConfigMaps of one label alone, so that it stands in nobody else's way.
fn registration(cert: &str) -> String {
    let bundle = STANDARD.encode(cert);
    let items = [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "webhook" },
            "webhooks": [{
                "name": NAME,
                "failurePolicy": "Fail", "timeoutSeconds": WITHIN.as_secs(), "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "caBundle": bundle,
                    "service": { "namespace": "default", "name": "webhook", "path": "/validate" },
                },
                "objectSelector": { "matchExpressions": [{ "key": "hoist.test/deny", "operator": "Exists" }] },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": ["CREATE"],
                }],
            }],
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1.test.hoist.dev" },
            "spec": {
                "group": "test.hoist.dev", "version": "v1", "caBundle": bundle,
                "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": { "namespace": "default", "name": "webhook", "port": 443 },
            },
        }),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// Creates a ConfigMap that the webhook has to judge; tells how long kubectl took.
pub(crate) fn judged(hoist: &Hoist, name: &str, deny: bool) -> (Done, Duration) {
    use std::io::Write as _;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "hoist.test/deny": deny.to_string() } },
    });
    let begin = Instant::now();
    let mut command = hoist.command(&["kubectl", "create", "--validate=false", "-f", "-"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl can be started");
    child.stdin.take().expect("a pipe").write_all(map.to_string().as_bytes()).expect("kubectl reads");
    (wait(child), begin.elapsed())
}

/// How often the webhook has judged since the API server was started, and the time that took in all,
/// by the API server's own metrics.
pub(crate) fn calls(hoist: &Hoist) -> (u64, Duration) {
    let page = hoist.kubectl(&["get", "--raw", "/metrics"]);
    let sum = |metric: &str| {
        let prefix =
            format!("apiserver_admission_webhook_admission_duration_seconds_{metric}{{name=\"{NAME}\"");
        let lines = page.lines().filter(|line| line.starts_with(&prefix));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    (sum("count") as u64, Duration::from_secs_f64(sum("sum")))
}

/// The condition Available of the aggregated API.
pub(crate) fn available(hoist: &Hoist) -> Value {
    let service = hoist.get(&["apiservice", "v1.test.hoist.dev"]);
    let conditions = service["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Available"));
    found.cloned().unwrap_or_default()
}
