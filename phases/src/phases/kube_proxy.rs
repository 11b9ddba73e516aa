//! kube-proxy on every node, from manifests/kube-proxy.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{self, EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::phases::{Context, addon, apply};
use crate::spec::ClusterSpec;

const MANIFEST: (&str, &str) =
    ("kube-proxy/kube-proxy.yaml", include_str!("../../../manifests/kube-proxy/kube-proxy.yaml"));

/// The fields of kubeproxy.config.k8s.io/v1alpha1 that hoist's manifest uses.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KubeProxyConfiguration {
    api_version: String,
    kind: String,
    bind_address: String,
    client_connection: ClientConnection,
    #[serde(rename = "clusterCIDR")]
    cluster_cidr: String,
    conntrack: Conntrack,
    mode: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClientConnection {
    kubeconfig: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Conntrack {
    max_per_core: u32,
}

/// kube-proxy as this cluster needs it.
///
/// # Errors
/// When the embedded manifest is broken.
pub fn objects(spec: &ClusterSpec) -> Result<Vec<Object>, ManifestError> {
    let mut manifest = Manifest::parse(MANIFEST.0, MANIFEST.1)?;
    manifest.edit("kube-proxy", |map: &mut ConfigMap| {
        let text = addon::data(map, "config.conf")?;
        let mut config: KubeProxyConfiguration =
            serde_saphyr::from_str(text).map_err(|_| EditError("data[config.conf]"))?;
        config.mode = spec.kube_proxy.as_str().to_owned();
        config.cluster_cidr = spec.networking.pod_subnet.to_string();
        *text = manifest::to_yaml("kube-proxy's configuration", &config)
            .map_err(|_| EditError("data[config.conf]"))?;
        Ok(())
    })?;
    manifest.edit("kube-proxy", |set: &mut DaemonSet| {
        addon::set_images(set.spec.as_mut().map(|s| &mut s.template), &addon::image(spec, "kube-proxy"))
    })?;
    manifest.objects()
}

/// Applies it.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let api = cx.outputs.api.get()?;
        Ok(apply::apply(api.as_ref(), &objects(&cx.spec)?, apply::DEADLINE).await?.outcome())
    }
    .boxed()
}
