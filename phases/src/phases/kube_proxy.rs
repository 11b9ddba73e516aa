//! kube-proxy on every node, from manifests/kube-proxy.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{self, EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::phases::{Context, addon, apply, images};
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
        config.bind_address = spec.networking.primary().unspecified().to_string();
        config.cluster_cidr = spec.networking.pod_subnet.to_string();
        *text = configuration(spec, &config).map_err(|_| EditError("data[config.conf]"))?;
        addon::set_server(map, "kubeconfig.conf", spec)
    })?;
    manifest.edit("kube-proxy", |set: &mut DaemonSet| {
        addon::set_images(set.spec.as_mut().map(|s| &mut s.template), &images::reference(spec, "kube-proxy"))
    })?;
    manifest.objects()
}

/// hoist's fields with the user's over them.
fn configuration(spec: &ClusterSpec, own: &KubeProxyConfiguration) -> Result<String, ManifestError> {
    let mut config = json!(own);
    if !spec.feature_gates.is_empty() {
        config["featureGates"] = json!(spec.feature_gates);
    }
    manifest::merge(&mut config, &spec.kube_proxy_config);
    manifest::to_yaml("kube-proxy's configuration", &config)
}

/// Applies it.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move { apply::phase(cx, &objects(&cx.spec)?).await }.boxed()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::phases::addon::testing;
    use crate::spec::{Endpoint, KubeProxyMode, KubernetesVersion};

    type Check = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn default_objects() -> Check {
        insta::assert_snapshot!(testing::text(&objects(&testing::spec()?)?)?);
        Ok(())
    }

    #[test]
    fn follows_the_address_families() -> Check {
        for (spec, bind, cidr, server) in [
            (testing::dual_stack()?, "0.0.0.0", "10.244.0.0/16,fd10:244::/56", "https://192.168.66.2:6443"),
            (testing::ipv6_only()?, "::", "fd10:244::/56", "https://[fd00::1]:6443"),
        ] {
            let objects = objects(&spec)?;
            let data = &testing::find(&objects, "ConfigMap", "kube-proxy")["data"];
            let read = |key: &str| serde_saphyr::from_str::<Value>(data[key].as_str().unwrap_or_default());
            let config = read("config.conf")?;
            assert_eq!((&config["bindAddress"], &config["clusterCIDR"]), (&bind.into(), &cidr.into()));
            assert_eq!(read("kubeconfig.conf")?["clusters"][0]["cluster"]["server"], server);
        }
        Ok(())
    }

    #[test]
    fn follows_the_spec() -> Check {
        let mut spec = testing::spec()?;
        spec.kubernetes = KubernetesVersion::parse("v1.35.4")?;
        spec.kube_proxy = KubeProxyMode::Iptables;
        spec.networking.pod_subnet = "10.10.0.0/16".parse()?;
        let objects = objects(&spec)?;
        let map = testing::find(&objects, "ConfigMap", "kube-proxy");
        let config: Value = serde_saphyr::from_str(map["data"]["config.conf"].as_str().unwrap_or_default())?;
        assert_eq!(config["mode"], "iptables");
        assert_eq!(config["clusterCIDR"], "10.10.0.0/16");
        // kind#2240
        assert_eq!(config["conntrack"]["maxPerCore"], 0);
        let pod = &testing::find(&objects, "DaemonSet", "kube-proxy")["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], "localhost/hoist/kube-proxy:v1.35.4");
        Ok(())
    }

    #[test]
    fn dials_the_endpoint() -> Check {
        let mut spec = testing::spec()?;
        let addresses = vec!["203.0.113.7".parse()?];
        spec.control_plane_endpoint = Some(Endpoint { host: "203.0.113.7".into(), port: 7443, addresses });
        let objects = objects(&spec)?;
        let map = testing::find(&objects, "ConfigMap", "kube-proxy");
        let text = map["data"]["kubeconfig.conf"].as_str().unwrap_or_default();
        let kubeconfig: Value = serde_saphyr::from_str(text)?;
        assert_eq!(kubeconfig["clusters"][0]["cluster"]["server"], "https://203.0.113.7:7443");
        Ok(())
    }
}
