use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::manifest::{self, ManifestError};
use crate::spec::ClusterSpec;

/// `kube-system/kubelet-config`: a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that every
/// kind of node can use.
///
/// What only one kind needs (cgroup driver, eviction, resolvConf) stays out: `kubeadm join` writes
/// this file to every node, and a node's own settings come on top of it.
///
/// # Errors
/// When it can't be written as YAML, which would be a fault of hoist.
pub fn kubelet_config(spec: &ClusterSpec) -> Result<ConfigMap, ManifestError> {
    let mut configuration = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": { "enabled": false },
                "webhook": { "enabled": true },
                "x509": { "clientCAFile": format!("{}/ca.crt", crate::pki::CONTAINER_PKI_DIR) },
            },
            "authorization": { "mode": "Webhook" },
            "clusterDNS": [spec.networking.dns_service()],
            "clusterDomain": spec.networking.dns_domain,
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": 10248,
            "rotateCertificates": true,
            "staticPodPath": "/etc/kubernetes/manifests",
    });
    if !spec.feature_gates.is_empty() {
        configuration["featureGates"] = json!(spec.feature_gates);
    }
    manifest::merge(&mut configuration, &spec.kubelet_config);
    let configuration = manifest::to_yaml("kubelet-config", &configuration)?;
    let data = BTreeMap::from([("kubelet".to_owned(), configuration)]);
    Ok(super::config_map("kube-system", "kubelet-config", data))
}
