//! The cluster's DNS, from manifests/coredns.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodSpec, Service};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::phases::{Context, addon, apply, images};
use crate::spec::ClusterSpec;

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
        service.cluster_ip = Some(spec.networking.dns_service().to_string());
        Ok(())
    })?;
    manifest.edit("coredns", |deployment: &mut Deployment| {
        let template = deployment.spec.as_mut().map(|s| &mut s.template).ok_or(EditError("spec.template"))?;
        addon::set_images(Some(template), &images::reference(spec, "coredns"))?;
        set_domain(template.spec.as_mut(), &spec.networking.dns_domain)
    })?;
    manifest.objects()
}

/// The Corefile takes the domain from the environment.
fn set_domain(pod: Option<&mut PodSpec>, domain: &str) -> Result<(), EditError> {
    let containers = pod.map(|pod| pod.containers.iter_mut()).into_iter().flatten();
    let mut variables = containers.flat_map(|container| container.env.iter_mut().flatten());
    let variable = variables.find(|variable| variable.name == "CLUSTER_DOMAIN");
    variable.ok_or(EditError("env[CLUSTER_DOMAIN]"))?.value = Some(domain.to_owned());
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
    use crate::spec::networking::CONTROL_PLANE_ADDRESS;

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
        spec.networking.service_subnet = "172.30.0.0/16".parse()?;
        let objects = objects(&spec)?;
        assert_eq!(testing::find(&objects, "Service", "kube-dns")["spec"]["clusterIP"], "172.30.0.10");
        let pod = &testing::find(&objects, "Deployment", "coredns")["spec"]["template"]["spec"];
        let domain = serde_json::json!({ "name": "CLUSTER_DOMAIN", "value": "k8s.example" });
        assert!(pod["containers"][0]["env"].as_array().is_some_and(|env| env.contains(&domain)));
        Ok(())
    }

    /// coredns#2087, kubeadm#1292
    #[test]
    fn never_asks_a_loopback_resolver() -> Check {
        let objects = objects(&testing::spec()?)?;
        let map = testing::find(&objects, "ConfigMap", "coredns");
        let corefile = map["data"]["Corefile"].as_str().unwrap_or_default();
        let forwards: Vec<_> =
            corefile.lines().map(str::trim).filter(|line| line.starts_with("forward ")).collect();
        assert_eq!(forwards, [format!("forward . {CONTROL_PLANE_ADDRESS} {{")]);
        assert!(!corefile.contains("resolv.conf"));
        Ok(())
    }

    /// kubeadm#1931, cluster-api#9639: spread where possible, and no drain takes all replicas.
    #[test]
    fn replicas_keep_apart() -> Check {
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
