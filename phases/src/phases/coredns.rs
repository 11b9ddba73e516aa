//! The cluster's DNS, from manifests/coredns.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodSpec, Service};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::phases::{Context, addon, apply};
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
        addon::set_images(Some(template), &addon::image(spec, "coredns"))?;
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
    async move {
        let api = cx.outputs.api.get()?;
        Ok(apply::apply(api.as_ref(), &objects(&cx.spec)?, apply::DEADLINE).await?.outcome())
    }
    .boxed()
}
