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
use crate::spec::{ClusterSpec, Cni, Family, Networking, Reach};

const KUBE_ROUTER: (&str, &str) =
    ("cni/kube-router.yaml", include_str!("../../../manifests/cni/kube-router.yaml"));

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
        addon::set_server(map, "kubeconfig", spec)
    })?;
    manifest.edit("kube-router", |set: &mut DaemonSet| {
        let template = set.spec.as_mut().map(|s| &mut s.template).ok_or(EditError("spec.template"))?;
        addon::set_images(Some(template), &images::reference(spec, "kube-router"))?;
        let containers = template.spec.as_mut().map(|pod| pod.containers.iter_mut()).into_iter().flatten();
        let arguments: Vec<_> =
            containers.flat_map(|container| container.command.iter_mut().flatten()).collect();
        set_addresses(arguments, &spec.networking)
    })?;
    manifest.objects()
}

/// Flags of kube-router that depend on the address families; the manifest has each of them.
fn set_addresses(mut arguments: Vec<&mut String>, networking: &Networking) -> Result<(), EditError> {
    for (flag, value) in [
        ("--enable-ipv4=", networking.has(Family::Ipv4).to_string()),
        ("--enable-ipv6=", networking.has(Family::Ipv6).to_string()),
        ("--service-cluster-ip-range=", networking.service_subnet.to_string()),
        ("--bgp-graceful-restart=", (networking.families().count() > 1).to_string()),
    ] {
        let argument = arguments.iter_mut().find(|argument| argument.starts_with(flag));
        **argument.ok_or(EditError("command"))? = format!("{flag}{value}");
    }
    Ok(())
}

/// The objects of a manifest that the user chose.
///
/// # Errors
/// Names the document and the field that can't be used.
pub fn from_manifest(origin: &str, yaml: &str) -> Result<Vec<Object>, ManifestError> {
    Manifest::parse(origin, yaml)?.objects()
}

/// How pods of this network are reached when nobody says: by routes to each node's pod range,
/// unless its addresses don't follow that range. A manifest that can't be read is judged by its
/// own phase.
pub fn reach(cni: &Cni) -> Reach {
    match cni {
        Cni::Manifest { origin, yaml } => match from_manifest(origin, yaml) {
            Ok(objects) if objects.iter().any(is_calico) => Reach::Konnectivity,
            _ => Reach::Routes,
        },
        Cni::KubeRouter | Cni::None => Reach::Routes,
    }
}

/// Calico hands out blocks of addresses of its own (Calico IPAM), whichever way it is installed:
/// it is known by its DaemonSet or operator, or by objects and CustomResourceDefinitions of the API
/// groups of either.
fn is_calico(object: &Object) -> bool {
    const GROUPS: [&str; 2] = ["projectcalico.org", "tigera.io"];
    let of_calico = |group: &str| {
        GROUPS
            .iter()
            .any(|own| group.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    let reference = object.reference();
    let own = reference.api_version.split_once('/').is_some_and(|(group, _)| of_calico(group));
    let defined = object.value().pointer("/spec/group").and_then(Value::as_str).is_some_and(of_calico);
    let workload = (reference.kind.as_str(), reference.name.as_str());
    own || defined || matches!(workload, ("DaemonSet", "calico-node") | ("Deployment", "tigera-operator"))
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

    #[test]
    fn minikube_9528_pods_take_the_mtu_of_the_network() -> Check {
        let objects = kube_router(&testing::spec()?, 1380)?;
        let map = testing::find(&objects, "ConfigMap", "kube-router");
        let conf: Value =
            serde_json::from_str(map["data"]["10-hoist.conflist"].as_str().unwrap_or_default())?;
        assert_eq!(conf["plugins"][0]["mtu"], 1380);
        Ok(())
    }

    #[test]
    fn follows_the_address_families() -> Check {
        for (spec, flags) in [
            (testing::spec()?, ["--enable-ipv4=true", "--enable-ipv6=false", "--bgp-graceful-restart=false"]),
            (
                testing::dual_stack()?,
                ["--enable-ipv4=true", "--enable-ipv6=true", "--bgp-graceful-restart=true"],
            ),
            (
                testing::ipv6_only()?,
                ["--enable-ipv4=false", "--enable-ipv6=true", "--bgp-graceful-restart=false"],
            ),
        ] {
            let objects = kube_router(&spec, 1500)?;
            let pod = &testing::find(&objects, "DaemonSet", "kube-router")["spec"]["template"]["spec"];
            let command = pod["containers"][0]["command"].as_array().cloned().unwrap_or_default();
            for flag in flags {
                assert!(command.contains(&json!(flag)), "{flag}: {command:?}");
            }
            let services = format!("--service-cluster-ip-range={}", spec.networking.service_subnet);
            assert!(command.contains(&json!(services)), "{command:?}");
        }
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
    fn calico_is_known_by_its_objects() {
        let manifest = |yaml: &str| Cni::Manifest { origin: "cni.yaml".into(), yaml: yaml.into() };
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ippools.crd.projectcalico.org}\nspec: {group: crd.projectcalico.org}\n";
        let daemons =
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: calico-node, namespace: kube-system}\n";
        let pool = "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {name: default}\n";
        let operator = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: tigera-operator, namespace: tigera-operator}\n";
        let installation =
            "apiVersion: operator.tigera.io/v1\nkind: Installation\nmetadata: {name: default}\n";
        for yaml in [crd, daemons, pool, operator, installation] {
            assert_eq!(reach(&manifest(yaml)), Reach::Konnectivity, "{yaml}");
        }
        let flannel = "apiVersion: v1\nkind: Namespace\nmetadata: {name: not-calico-node}\n";
        let other = "apiVersion: nottigera.io/v1\nkind: Installation\nmetadata: {name: default}\n";
        for cni in [manifest(flannel), manifest(other), manifest(": no manifest"), Cni::KubeRouter, Cni::None]
        {
            assert_eq!(reach(&cni), Reach::Routes, "{cni:?}");
        }
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
