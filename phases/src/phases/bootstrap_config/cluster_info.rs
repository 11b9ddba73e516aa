use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::jws;
use crate::manifest::{self, ManifestError};
use crate::spec::ClusterSpec;

/// `kube-public/cluster-info`: who the cluster is and where, for anyone, signed with the token.
///
/// The signature is in place from the start. The bootstrapsigner controller would add it too, but
/// only some time after it has started, and `kubeadm join` looks for it once in five seconds.
///
/// # Errors
/// When it can't be written as YAML, which would be a fault of hoist.
pub fn cluster_info(spec: &ClusterSpec, ca_pem: &[u8]) -> Result<ConfigMap, ManifestError> {
    let kubeconfig = manifest::to_yaml(
        "cluster-info's kubeconfig",
        &json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "",
                "cluster": {
                    "certificate-authority-data": STANDARD.encode(ca_pem),
                    "server": super::server(spec),
                },
            }],
            "contexts": null,
            "current-context": "",
            "users": null,
        }),
    )?;
    let signature = jws::sign_detached(&kubeconfig, &spec.token);
    let data = BTreeMap::from([
        ("kubeconfig".to_owned(), kubeconfig),
        (format!("jws-kubeconfig-{}", spec.token.id()), signature),
    ]);
    Ok(super::config_map("kube-public", "cluster-info", data))
}
