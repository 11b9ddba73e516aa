//! The cluster's DNS, from manifests/coredns.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodTemplateSpec, Service,
};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::phases::{Context, addon, apply, images};
use crate::spec::{ClusterSpec, ELSEWHERE_LABEL};

const MANIFEST: (&str, &str) =
    ("coredns/coredns.yaml", include_str!("../../../manifests/coredns/coredns.yaml"));

/// CoreDNS as this cluster needs it.
///
/// # Errors
/// When the embedded manifest is broken.
pub fn objects(spec: &ClusterSpec) -> Result<Vec<Object>, ManifestError> {
    let mut manifest = Manifest::parse(MANIFEST.0, MANIFEST.1)?;
    manifest.edit("kube-dns", |service: &mut Service| {
        let service = service.spec.as_mut().ok_or(EditError("spec"))?;
        let addresses: Vec<_> = spec.networking.dns_services().map(|address| address.to_string()).collect();
        service.cluster_ip = addresses.first().cloned();
        if addresses.len() > 1 {
            service.ip_family_policy = Some("PreferDualStack".to_owned());
            service.ip_families = Some(spec.networking.families().map(|family| family.to_string()).collect());
            service.cluster_ips = Some(addresses);
        }
        Ok(())
    })?;
    manifest.edit("coredns", |deployment: &mut Deployment| {
        let template = deployment.spec.as_mut().map(|s| &mut s.template).ok_or(EditError("spec.template"))?;
        addon::set_images(Some(template), &images::reference(spec, "coredns"))?;
        let networking = &spec.networking;
        for (name, value) in [
            ("CLUSTER_DOMAIN", networking.dns_domain.clone()),
            ("NAMESPACE_DNS", networking.control_plane().to_string()),
            ("KUBERNETES_SERVICE_HOST", networking.control_plane().to_string()),
            ("KUBERNETES_SERVICE_PORT", spec.api_port().to_string()),
        ] {
            addon::set_env(template.spec.as_mut(), name, value)?;
        }
        if spec.control_plane_endpoint.is_some() {
            keep_at_home(template)?;
        }
        Ok(())
    })?;
    manifest.objects()
}

/// On machines elsewhere it would reach neither the API server by the address it has nor dnsmasq.
fn keep_at_home(template: &mut PodTemplateSpec) -> Result<(), EditError> {
    let pod = template.spec.as_mut().ok_or(EditError("spec.template.spec"))?;
    let at_home = NodeSelectorRequirement {
        key: ELSEWHERE_LABEL.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    let term = NodeSelectorTerm { match_expressions: Some(vec![at_home]), match_fields: None };
    pod.affinity.get_or_insert_with(Affinity::default).node_affinity = Some(NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..NodeAffinity::default()
    });
    Ok(())
}

/// Applies it.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move { apply::phase(cx, &objects(&cx.spec)?).await }.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;

    type Check = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn default_objects() -> Check {
        insta::assert_snapshot!(testing::text(&objects(&testing::spec()?)?)?);
        Ok(())
    }

    #[test]
    fn follows_the_spec() -> Check {
        let mut spec = testing::spec()?;
        spec.networking.dns_domain = "k8s.example".to_owned();
        spec.api_server.port = 7443;
        spec.networking.service_subnet = "172.30.0.0/16".parse()?;
        let objects = objects(&spec)?;
        assert_eq!(testing::find(&objects, "Service", "kube-dns")["spec"]["clusterIP"], "172.30.0.10");
        let pod = &testing::find(&objects, "Deployment", "coredns")["spec"]["template"]["spec"];
        for (name, value) in [("CLUSTER_DOMAIN", "k8s.example"), ("KUBERNETES_SERVICE_PORT", "7443")] {
            let variable = serde_json::json!({ "name": name, "value": value });
            assert!(pod["containers"][0]["env"].as_array().is_some_and(|env| env.contains(&variable)));
        }
        Ok(())
    }

    #[test]
    fn answers_in_the_families_of_the_cluster() -> Check {
        let objects = objects(&testing::dual_stack()?)?;
        let service = &testing::find(&objects, "Service", "kube-dns")["spec"];
        assert_eq!(service["clusterIPs"], serde_json::json!(["10.96.0.10", "fd10:96::a"]));
        assert_eq!(service["ipFamilies"], serde_json::json!(["IPv4", "IPv6"]));
        assert_eq!(service["ipFamilyPolicy"], "PreferDualStack");

        let objects = super::objects(&testing::ipv6_only()?)?;
        let service = &testing::find(&objects, "Service", "kube-dns")["spec"];
        assert_eq!(service["clusterIP"], "fd10:96::a");
        let pod = &testing::find(&objects, "Deployment", "coredns")["spec"]["template"]["spec"];
        for name in ["NAMESPACE_DNS", "KUBERNETES_SERVICE_HOST"] {
            let variable = serde_json::json!({ "name": name, "value": "fd00::1" });
            assert!(pod["containers"][0]["env"].as_array().is_some_and(|env| env.contains(&variable)));
        }
        Ok(())
    }

    #[test]
    fn stays_in_the_clusters_own_network() -> Check {
        let mut spec = testing::spec()?;
        let affinity = |spec: &ClusterSpec| -> Result<serde_json::Value, ManifestError> {
            let objects = objects(spec)?;
            Ok(testing::find(&objects, "Deployment", "coredns")["spec"]["template"]["spec"]["affinity"]
                .clone())
        };
        assert!(affinity(&spec)?["nodeAffinity"].is_null());
        spec.control_plane_endpoint =
            Some(crate::spec::Endpoint { host: "203.0.113.7".into(), port: 6443, addresses: Vec::new() });
        let affinity = affinity(&spec)?;
        let terms = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let wanted = serde_json::json!([{"matchExpressions":
            [{"key": "node-role.kubernetes.io/elsewhere", "operator": "DoesNotExist"}]}]);
        assert_eq!(affinity.pointer(terms), Some(&wanted));
        assert!(affinity["podAntiAffinity"].is_object(), "and they keep apart as ever");
        Ok(())
    }

    /// coredns#2087, kubeadm#1292
    #[test]
    fn coredns_2087_never_asks_a_loopback_resolver() -> Check {
        let objects = objects(&testing::spec()?)?;
        let map = testing::find(&objects, "ConfigMap", "coredns");
        let corefile = map["data"]["Corefile"].as_str().unwrap_or_default();
        let forwards: Vec<_> =
            corefile.lines().map(str::trim).filter(|line| line.starts_with("forward ")).collect();
        assert_eq!(forwards, ["forward . {$NAMESPACE_DNS} {"]);
        let pod = &testing::find(&objects, "Deployment", "coredns")["spec"]["template"]["spec"];
        let upstream = serde_json::json!({ "name": "NAMESPACE_DNS", "value": "192.168.66.2" });
        assert!(pod["containers"][0]["env"].as_array().is_some_and(|env| env.contains(&upstream)));
        assert!(!corefile.contains("resolv.conf"));
        Ok(())
    }

    /// kubeadm#1931, cluster-api#9639: spread where possible, and no drain takes all replicas.
    #[test]
    fn kubeadm_1931_replicas_keep_apart() -> Check {
        let objects = objects(&testing::spec()?)?;
        let spec = &testing::find(&objects, "Deployment", "coredns")["spec"];
        assert_eq!(spec["replicas"], 2);
        let affinity = &spec["template"]["spec"]["affinity"]["podAntiAffinity"];
        let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(preferred["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname");
        let budget = testing::find(&objects, "PodDisruptionBudget", "coredns");
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
        assert_eq!(budget["spec"]["selector"], spec["selector"]);
        Ok(())
    }
}
