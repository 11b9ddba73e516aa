//! What the addons have in common: small changes to typed objects.

use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, PodTemplateSpec};
use serde_json::Value;

use crate::manifest::{self, EditError};
use crate::phases::bootstrap_config;
use crate::spec::ClusterSpec;

/// One entry of a ConfigMap.
pub(super) fn data<'a>(map: &'a mut ConfigMap, key: &'static str) -> Result<&'a mut String, EditError> {
    map.data.as_mut().and_then(|data| data.get_mut(key)).ok_or(EditError(key))
}

/// Points a kubeconfig that a ConfigMap holds at the API server as nodes know it.
pub(super) fn set_server(
    map: &mut ConfigMap,
    key: &'static str,
    spec: &ClusterSpec,
) -> Result<(), EditError> {
    let text = data(map, key)?;
    let mut kubeconfig: Value = serde_saphyr::from_str(text).map_err(|_| EditError(key))?;
    let server = kubeconfig.pointer_mut("/clusters/0/cluster/server").ok_or(EditError(key))?;
    *server = bootstrap_config::server(spec).into();
    *text = manifest::to_yaml("kubeconfig", &kubeconfig).map_err(|_| EditError(key))?;
    Ok(())
}

/// Gives a container of a pod template's this value of an environment variable that it has.
pub(super) fn set_env(pod: Option<&mut PodSpec>, name: &'static str, value: String) -> Result<(), EditError> {
    let containers = pod.map(|pod| pod.containers.iter_mut()).into_iter().flatten();
    let mut variables = containers.flat_map(|container| container.env.iter_mut().flatten());
    let variable = variables.find(|variable| variable.name == name);
    variable.ok_or(EditError(name))?.value = Some(value);
    Ok(())
}

/// Gives all containers of a pod template, the initial ones too, this image.
pub(super) fn set_images(template: Option<&mut PodTemplateSpec>, image: &str) -> Result<(), EditError> {
    let pod = template.and_then(|t| t.spec.as_mut()).ok_or(EditError("spec.template.spec"))?;
    for container in pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten()) {
        container.image = Some(image.to_owned());
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod testing {
    use crate::object::Object;
    use crate::spec::{ClusterSpec, test_spec};

    /// A cluster with the defaults and a token everybody knows.
    pub(crate) fn spec() -> Result<ClusterSpec, Box<dyn std::error::Error>> {
        Ok(ClusterSpec { components: Vec::new(), nodes: Vec::new(), ..test_spec() })
    }

    /// The same with other address ranges: the families of both are the same.
    pub(crate) fn spec_of(pods: &str, services: &str) -> Result<ClusterSpec, Box<dyn std::error::Error>> {
        let mut spec = spec()?;
        spec.networking.pod_subnet = pods.parse()?;
        spec.networking.service_subnet = services.parse()?;
        Ok(spec)
    }

    pub(crate) fn dual_stack() -> Result<ClusterSpec, Box<dyn std::error::Error>> {
        spec_of("10.244.0.0/16,fd10:244::/56", "10.96.0.0/12,fd10:96::/112")
    }

    pub(crate) fn ipv6_only() -> Result<ClusterSpec, Box<dyn std::error::Error>> {
        spec_of("fd10:244::/56", "fd10:96::/112")
    }

    /// Objects as one YAML text; hashes follow the content and would only make noise.
    pub(crate) fn text(objects: &[Object]) -> Result<String, Box<dyn std::error::Error>> {
        let mut text = String::new();
        for object in objects {
            let mut value = object.value().clone();
            if let Some(annotations) = value["metadata"]["annotations"].as_object_mut() {
                annotations.insert(crate::object::HASH_ANNOTATION.to_owned(), "[hash]".into());
            }
            text.push_str("---\n");
            text.push_str(&serde_saphyr::to_string(&value)?);
        }
        Ok(text)
    }

    /// The object of this kind and name.
    pub(crate) fn find<'a>(objects: &'a [Object], kind: &str, name: &str) -> &'a serde_json::Value {
        static NOTHING: serde_json::Value = serde_json::Value::Null;
        let found = objects.iter().find(|o| o.reference().kind == kind && o.reference().name == name);
        found.map_or(&NOTHING, Object::value)
    }

    /// A field that its type doesn't know would be dropped without a word once the object is changed.
    #[test]
    fn manifests_hold_nothing_unknown() -> Result<(), Box<dyn std::error::Error>> {
        use k8s_openapi::api::{apps::v1 as apps, core::v1 as core, policy::v1 as policy, rbac::v1 as rbac};
        use serde_json::{from_value, to_value};

        let spec = spec()?;
        let mut objects = crate::phases::bootstrap_rbac::roles()?;
        objects.extend(crate::phases::kube_proxy::objects(&spec)?);
        objects.extend(crate::phases::coredns::objects(&spec)?);
        objects.extend(crate::phases::konnectivity::objects(&spec)?);
        objects.extend(crate::phases::steward::objects()?);
        objects.extend(crate::phases::cni::kube_router(&spec, 1500)?);
        for object in &objects {
            let value = object.value().clone();
            let typed = match object.reference().kind.as_str() {
                "ClusterRole" => to_value(from_value::<rbac::ClusterRole>(value)?)?,
                "ClusterRoleBinding" => to_value(from_value::<rbac::ClusterRoleBinding>(value)?)?,
                "ConfigMap" => to_value(from_value::<core::ConfigMap>(value)?)?,
                "DaemonSet" => to_value(from_value::<apps::DaemonSet>(value)?)?,
                "Deployment" => to_value(from_value::<apps::Deployment>(value)?)?,
                "PodDisruptionBudget" => to_value(from_value::<policy::PodDisruptionBudget>(value)?)?,
                "Role" => to_value(from_value::<rbac::Role>(value)?)?,
                "RoleBinding" => to_value(from_value::<rbac::RoleBinding>(value)?)?,
                "Service" => to_value(from_value::<core::Service>(value)?)?,
                "ServiceAccount" => to_value(from_value::<core::ServiceAccount>(value)?)?,
                other => return Err(format!("{other}: no type for it in this test").into()),
            };
            assert_eq!(&typed, object.value(), "{}", object.reference());
        }
        Ok(())
    }
}
