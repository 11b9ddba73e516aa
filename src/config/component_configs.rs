//! Configurations of kubelet, kube-proxy and scheduler, and feature gates of all components.

use std::collections::BTreeMap;

use hoist_phases::spec::ClusterSpec;
use serde_json::{Map, Value};

use super::api_server::is_kind;
use super::file::{KubeletFile, SchedulerFile};
use super::problem::{Problem, Problems};

/// Fields that hoist sets for a reason, by their path, with the reason.
pub(super) const KUBELET: &[(&[&str], &str)] = &[
    (&["authentication", "anonymous"], "whoever reaches the node could run commands in its pods"),
    (&["authentication", "webhook"], "the API server's kubectl exec and metrics clients are let in by it"),
    (&["authentication", "x509"], "the kubelet knows the API server by the cluster's CA"),
    (&["authorization"], "whoever reaches the node could run commands in its pods"),
    (&["clusterDNS"], "follows networking.serviceSubnet"),
    (&["clusterDomain"], "follows networking.dnsDomain"),
    (&["featureGates"], "stand once for all components in featureGates"),
];
pub(super) const KUBE_PROXY: &[(&[&str], &str)] = &[
    (&["bindAddress"], "follows networking.ipFamily"),
    (&["clientConnection"], "kube-proxy reaches the API server by it"),
    (&["clusterCIDR"], "follows networking.podSubnet"),
    (&["featureGates"], "stand once for all components in featureGates"),
    (&["mode"], "is set by kubeProxy.mode"),
];

/// Puts what the file says into the specification.
pub(super) fn apply(
    spec: &mut ClusterSpec,
    scheduler: SchedulerFile,
    kubelet: KubeletFile,
    kube_proxy: Option<Map<String, Value>>,
    feature_gates: Option<BTreeMap<String, bool>>,
    problems: &mut Problems,
) {
    if let Some(text) = scheduler.config {
        problems.keep(is_kind("scheduler.config", &text, "KubeSchedulerConfiguration"));
        spec.scheduler_config = Some(text);
    }
    if let Some(config) = kubelet.config {
        judge("kubelet.config", "KubeletConfiguration", &config, KUBELET, problems);
        spec.kubelet_config = config;
    }
    if let Some(config) = kube_proxy {
        judge("kubeProxy.config", "KubeProxyConfiguration", &config, KUBE_PROXY, problems);
        spec.kube_proxy_config = config;
    }
    if let Some(gates) = feature_gates {
        for gate in gates.keys().filter(|gate| !gate.chars().all(|c| c.is_ascii_alphanumeric())) {
            problems.push(Problem::of(&format!("featureGates.{gate}"), "must be the name of a feature gate"));
        }
        spec.feature_gates = gates;
    }
}

fn judge(
    field: &str,
    kind: &str,
    config: &Map<String, Value>,
    reserved: &[(&[&str], &str)],
    problems: &mut Problems,
) {
    for header in ["apiVersion", "kind"].into_iter().filter(|header| config.contains_key(*header)) {
        let rule = format!("only fields of the {kind} are given here; leave it out");
        problems.push(Problem::of(&format!("{field}.{header}"), rule));
    }
    for (path, reason) in reserved {
        let (outer, inner) = (path.first(), path.iter().skip(1));
        let value = outer.and_then(|name| config.get(*name));
        if inner.fold(value, |value, name| value?.get(*name)).is_some() {
            problems.push(Problem::of(
                &format!("{field}.{}", path.join(".")),
                format_args!("is hoist's own: {reason}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::origin::Origins;

    fn refused(config: Value) -> String {
        let Value::Object(config) = config else { return String::new() };
        let mut problems = Problems::default();
        judge("kubelet.config", "KubeletConfiguration", &config, KUBELET, &mut problems);
        problems.into_result(&Origins::default()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn fields_that_break_join_or_security_are_refused() {
        for (config, field) in [
            (
                json!({"authentication": {"anonymous": {"enabled": true}}}),
                "authentication.anonymous: is hoist's",
            ),
            (json!({"authorization": {"mode": "AlwaysAllow"}}), "authorization: is hoist's own"),
            (json!({"kind": "KubeletConfiguration"}), "kind: only fields of the KubeletConfiguration"),
            (json!({"featureGates": {}}), "featureGates"),
        ] {
            assert!(refused(config.clone()).contains(field), "{config}: {}", refused(config.clone()));
        }
        assert_eq!(refused(json!({"maxPods": 20, "authentication": {}})), "");
    }
}
