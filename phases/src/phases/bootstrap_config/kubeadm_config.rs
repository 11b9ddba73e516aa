use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::manifest::{self, ManifestError};
use crate::spec::{ClusterSpec, KUBEADM_API};

/// `kube-system/kubeadm-config`: a ClusterConfiguration ([`KUBEADM_API`]), read strictly
/// by `kubeadm join` and by later kubeadm commands on the node.
///
/// There is no `controlPlaneEndpoint` unless the user names one: workers take the address from
/// cluster-info, and without one kubeadm refuses, with a clear message, to join a second control
/// plane, which a control plane outside the nodes couldn't be part of.
///
/// # Errors
/// When it can't be written as YAML, which would be a fault of hoist.
pub fn kubeadm_config(spec: &ClusterSpec) -> Result<ConfigMap, ManifestError> {
    let mut configuration = json!({
        "apiVersion": KUBEADM_API,
        "kind": "ClusterConfiguration",
        "clusterName": crate::pki::CLUSTER_NAME,
        "kubernetesVersion": spec.kubernetes.to_string(),
        "certificatesDir": crate::pki::CONTAINER_PKI_DIR,
        "encryptionAlgorithm": "ECDSA-P256",
        "imageRepository": "registry.k8s.io",
        "networking": {
            "dnsDomain": spec.networking.dns_domain,
            "podSubnet": spec.networking.pod_subnet,
            "serviceSubnet": spec.networking.service_subnet,
        },
    });
    if let Some(endpoint) = &spec.control_plane_endpoint {
        configuration["controlPlaneEndpoint"] = json!(endpoint.to_string());
    }
    let configuration = manifest::to_yaml("kubeadm-config", &configuration)?;
    let data = BTreeMap::from([("ClusterConfiguration".to_owned(), configuration)]);
    Ok(super::config_map("kube-system", "kubeadm-config", data))
}
