//! What a joining node reads: `cluster-info`, `kubeadm-config` and `kubelet-config`; and where pods
//! find the API server, when it can't say so itself.
//!
//! Names, keys and versions are those of kubeadm v1.34 to v1.37. Where the content differs from
//! what `kubeadm init` would upload, docs/kubeadm-differences.md says why.

mod cluster_info;
mod kubeadm_config;
mod kubelet_config;
mod kubernetes_service;

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

pub use cluster_info::cluster_info;
pub use kubeadm_config::kubeadm_config;
pub use kubelet_config::kubelet_config;

#[derive(Debug, thiserror::Error)]
pub enum BootstrapConfigError {
    #[error("{0} can't be written")]
    Write(&'static str, #[source] ManifestError),
    #[error("{0} can't be made")]
    Object(&'static str, #[source] ObjectError),
}

/// The API server's address as nodes and pods know it.
pub fn server(spec: &ClusterSpec) -> String {
    format!("https://{}", spec.api_authority())
}

/// All of them, for a cluster whose CA certificate is `ca_pem`.
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
    let mut objects: Vec<_> = named.into_iter().map(object).collect::<Result<_, _>>()?;
    for own in kubernetes_service::kubernetes_service(spec) {
        let failed = |source| BootstrapConfigError::Object("endpoints of Service kubernetes", source);
        objects.push(Object::new(&own).map_err(failed)?);
    }
    Ok(objects)
}

/// Publishes them.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let ca_pem = cx.outputs.pki.get()?.trusted(CertId::Ca);
        let objects = objects(&cx.spec, ca_pem)?;
        apply::phase(cx, &objects).await
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::jws;
    use crate::phases::addon::testing;
    use crate::spec::{Endpoint, KubernetesVersion};

    type Check = Result<(), Box<dyn std::error::Error>>;

    const CA: &[u8] = b"-----BEGIN CERTIFICATE-----\nnot a real one\n-----END CERTIFICATE-----\n";

    #[test]
    fn publishes_what_join_reads() -> Check {
        let text = testing::text(&objects(&testing::spec()?, CA)?)?;
        insta::with_settings!({ filters => [(r"\.\.[\w-]{43}", "..[signature]")] }, {
            insta::assert_snapshot!(text);
        });
        Ok(())
    }

    /// kind#2798, kueue#10296
    #[test]
    fn kind_2798_cluster_info_is_signed_from_the_start() -> Check {
        let spec = testing::spec()?;
        let objects = objects(&spec, CA)?;
        let data = &testing::find(&objects, "ConfigMap", "cluster-info")["data"];
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        assert!(jws::verify_detached(&text("jws-kubeconfig-abcdef"), &text("kubeconfig"), &spec.token));
        let kubeconfig: Value = serde_saphyr::from_str(&text("kubeconfig"))?;
        let cluster = &kubeconfig["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://192.168.66.2:6443");
        assert!(cluster["insecure-skip-tls-verify"].is_null());
        Ok(())
    }

    #[test]
    fn an_endpoint_is_what_everybody_is_told() -> Check {
        let mut spec = testing::spec()?;
        let addresses = vec!["203.0.113.7".parse()?, "2001:db8::7".parse()?];
        spec.control_plane_endpoint =
            Some(Endpoint { host: "api.example.org".into(), port: 7443, addresses });
        let objects = objects(&spec, CA)?;
        let map = testing::find(&objects, "ConfigMap", "cluster-info");
        assert!(
            map["data"]["kubeconfig"]
                .as_str()
                .is_some_and(|text| text.contains("https://api.example.org:7443"))
        );
        let map = testing::find(&objects, "ConfigMap", "kubeadm-config");
        let text = map["data"]["ClusterConfiguration"].as_str().unwrap_or_default();
        assert!(text.contains("controlPlaneEndpoint: api.example.org:7443"), "{text}");
        let slice = testing::find(&objects, "EndpointSlice", "kubernetes");
        assert_eq!(slice["endpoints"][0]["addresses"], serde_json::json!(["203.0.113.7"]));
        assert_eq!((&slice["addressType"], &slice["ports"][0]["port"]), (&"IPv4".into(), &7443.into()));
        let endpoints = testing::find(&objects, "Endpoints", "kubernetes");
        assert_eq!(endpoints["subsets"][0]["addresses"], serde_json::json!([{"ip": "203.0.113.7"}]));
        Ok(())
    }

    #[test]
    fn follows_the_address_families() -> Check {
        for (spec, server, pods, services, dns) in [
            (
                testing::dual_stack()?,
                "https://192.168.66.2:6443",
                "10.244.0.0/16,fd10:244::/56",
                "10.96.0.0/12,fd10:96::/112",
                "10.96.0.10",
            ),
            (testing::ipv6_only()?, "https://[fd00::1]:6443", "fd10:244::/56", "fd10:96::/112", "fd10:96::a"),
        ] {
            let objects = objects(&spec, CA)?;
            let inner = |name: &str, key: &str| -> Result<Value, serde_saphyr::Error> {
                let map = testing::find(&objects, "ConfigMap", name);
                serde_saphyr::from_str(map["data"][key].as_str().unwrap_or_default())
            };
            assert_eq!(inner("cluster-info", "kubeconfig")?["clusters"][0]["cluster"]["server"], server);
            let networking = &inner("kubeadm-config", "ClusterConfiguration")?["networking"];
            assert_eq!(
                (&networking["podSubnet"], &networking["serviceSubnet"]),
                (&pods.into(), &services.into())
            );
            assert_eq!(inner("kubelet-config", "kubelet")?["clusterDNS"], serde_json::json!([dns]));
        }
        Ok(())
    }

    #[test]
    fn follows_the_spec() -> Check {
        let mut spec = testing::spec()?;
        spec.kubernetes = KubernetesVersion::parse("v1.34.4")?;
        spec.networking.dns_domain = "k8s.example".to_owned();
        spec.networking.service_subnet = "172.30.0.0/16".parse()?;
        let objects = objects(&spec, CA)?;
        let inner = |name: &str, key: &str| -> Result<Value, serde_saphyr::Error> {
            let map = testing::find(&objects, "ConfigMap", name);
            serde_saphyr::from_str(map["data"][key].as_str().unwrap_or_default())
        };
        let cluster = inner("kubeadm-config", "ClusterConfiguration")?;
        assert_eq!(cluster["kubernetesVersion"], "v1.34.4");
        assert_eq!(cluster["networking"]["serviceSubnet"], "172.30.0.0/16");
        let kubelet = inner("kubelet-config", "kubelet")?;
        assert_eq!(kubelet["clusterDNS"][0], "172.30.0.10");
        assert_eq!(kubelet["clusterDomain"], "k8s.example");
        Ok(())
    }
}
