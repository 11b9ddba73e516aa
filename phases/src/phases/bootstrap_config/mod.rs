//! What a joining node reads: `cluster-info`, `kubeadm-config` and `kubelet-config`.
//!
//! Names, keys and versions are those of kubeadm v1.34 to v1.37. Where the content differs from
//! what `kubeadm init` would upload, docs/kubeadm-differences.md says why.

mod cluster_info;
mod kubeadm_config;
mod kubelet_config;

use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::ManifestError;
use crate::object::{Object, ObjectError};
use crate::phases::{Context, apply};
use crate::pki::CertId;
use crate::spec::ClusterSpec;
use crate::spec::networking::{API_PORT, CONTROL_PLANE_ADDRESS};

pub use cluster_info::cluster_info;
pub use kubeadm_config::kubeadm_config;
pub use kubelet_config::kubelet_config;

/// Where every node keeps what it needs of the cluster's certificates; never a path of the host.
const CERTIFICATES_DIR: &str = "/etc/kubernetes/pki";

#[derive(Debug, thiserror::Error)]
pub enum BootstrapConfigError {
    #[error("{0} can't be written")]
    Write(&'static str, #[source] ManifestError),
    #[error("{0} can't be made")]
    Object(&'static str, #[source] ObjectError),
}

/// The API server's address as nodes and pods know it.
pub fn server() -> String {
    format!("https://{CONTROL_PLANE_ADDRESS}:{API_PORT}")
}

/// All three, for a cluster whose CA certificate is `ca_pem`.
///
/// # Errors
/// When one can't be written as YAML, which would be a fault of hoist.
pub fn objects(spec: &ClusterSpec, ca_pem: &[u8]) -> Result<Vec<Object>, BootstrapConfigError> {
    let wrap = |name| move |source| BootstrapConfigError::Write(name, source);
    let named = [
        ("cluster-info", cluster_info(spec, ca_pem).map_err(wrap("cluster-info"))?),
        ("kubeadm-config", kubeadm_config(spec).map_err(wrap("kubeadm-config"))?),
        ("kubelet-config", kubelet_config(spec).map_err(wrap("kubelet-config"))?),
    ];
    let object = |(name, map)| Object::new(&map).map_err(|source| BootstrapConfigError::Object(name, source));
    named.into_iter().map(object).collect()
}

/// Publishes them.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let api = cx.outputs.api.get()?;
        let ca_pem = cx.outputs.pki.get()?.cert(CertId::Ca);
        let objects = objects(&cx.spec, ca_pem)?;
        Ok(apply::apply(api.as_ref(), &objects, apply::DEADLINE).await?.outcome())
    }
    .boxed()
}

fn config_map(namespace: &str, name: &str, data: BTreeMap<String, String>) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}
