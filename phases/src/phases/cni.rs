//! The pod network: kube-router from manifests/cni, the user's own manifest, or none.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::phases::{Context, addon, apply, images};
use crate::spec::{ClusterSpec, Cni};

const KUBE_ROUTER: (&str, &str) =
    ("cni/kube-router.yaml", include_str!("../../../manifests/cni/kube-router.yaml"));

/// Flag of kube-router that names the Services' range.
const SERVICE_RANGE: &str = "--service-cluster-ip-range=";

/// kube-router as this cluster needs it; `mtu` in bytes goes to the pods' interfaces, so that no
/// packet is larger than what the nodes' network carries (minikube#9528).
///
/// # Errors
/// When the embedded manifest is broken.
pub fn kube_router(spec: &ClusterSpec, mtu: u32) -> Result<Vec<Object>, ManifestError> {
    let mut manifest = Manifest::parse(KUBE_ROUTER.0, KUBE_ROUTER.1)?;
    manifest.edit("kube-router", |map: &mut ConfigMap| {
        const FIELD: EditError = EditError("data[10-hoist.conflist]");
        let text = addon::data(map, "10-hoist.conflist")?;
        let mut conf: Value = serde_json::from_str(text).map_err(|_| FIELD)?;
        let plugins = conf["plugins"].as_array_mut().ok_or(FIELD)?;
        let bridge = plugins.iter_mut().find(|plugin| plugin["type"] == "bridge").ok_or(FIELD)?;
        bridge["mtu"] = json!(mtu);
        *text = serde_json::to_string_pretty(&conf).map_err(|_| FIELD)?;
        Ok(())
    })?;
    manifest.edit("kube-router", |set: &mut DaemonSet| {
        let template = set.spec.as_mut().map(|s| &mut s.template).ok_or(EditError("spec.template"))?;
        addon::set_images(Some(template), &images::reference(spec, "kube-router"))?;
        let containers = template.spec.as_mut().map(|pod| pod.containers.iter_mut()).into_iter().flatten();
        let mut arguments = containers.flat_map(|container| container.command.iter_mut().flatten());
        let range = arguments.find(|argument| argument.starts_with(SERVICE_RANGE));
        *range.ok_or(EditError("command"))? = format!("{SERVICE_RANGE}{}", spec.networking.service_subnet);
        Ok(())
    })?;
    manifest.objects()
}

/// The objects of a manifest that the user chose.
///
/// # Errors
/// Names the document and the field that can't be used.
pub fn from_manifest(origin: &str, yaml: &str) -> Result<Vec<Object>, ManifestError> {
    Manifest::parse(origin, yaml)?.objects()
}

/// Applies the pod network of the cluster's choice.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let objects = match &cx.spec.cni {
            Cni::None => return Ok(Outcome::Skipped("cni: none".to_owned())),
            Cni::KubeRouter => kube_router(&cx.spec, cx.outputs.network.get()?.mtu)?,
            Cni::Manifest { origin, yaml } => from_manifest(origin, yaml)?,
        };
        apply::phase(cx, &objects).await
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;

    type Check = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn default_objects() -> Check {
        insta::assert_snapshot!(testing::text(&kube_router(&testing::spec()?, 1500)?)?);
        Ok(())
    }

    /// minikube#9528
    #[test]
    fn pods_take_the_mtu_of_the_network() -> Check {
        let objects = kube_router(&testing::spec()?, 1380)?;
        let map = testing::find(&objects, "ConfigMap", "kube-router");
        let conf: Value =
            serde_json::from_str(map["data"]["10-hoist.conflist"].as_str().unwrap_or_default())?;
        assert_eq!(conf["plugins"][0]["mtu"], 1380);
        Ok(())
    }

    #[test]
    fn follows_the_spec() -> Check {
        let mut spec = testing::spec()?;
        spec.networking.service_subnet = "172.30.0.0/16".parse()?;
        let objects = kube_router(&spec, 1500)?;
        let pod = &testing::find(&objects, "DaemonSet", "kube-router")["spec"]["template"]["spec"];
        let range = json!("--service-cluster-ip-range=172.30.0.0/16");
        assert!(pod["containers"][0]["command"].as_array().is_some_and(|flags| flags.contains(&range)));
        Ok(())
    }

    #[test]
    fn a_users_manifest_carries_hoists_mark() -> Check {
        let yaml = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: flannel\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: flannel, namespace: flannel, labels: {app: flannel}}\n";
        let objects = from_manifest("flannel.yaml", yaml)?;
        assert_eq!(objects.len(), 2);
        for object in &objects {
            let (key, value) = crate::object::MANAGED_BY;
            assert_eq!(object.value()["metadata"]["labels"][key], value, "{}", object.reference());
        }
        assert_eq!(objects[1].value()["metadata"]["labels"]["app"], "flannel");
        Ok(())
    }
}
