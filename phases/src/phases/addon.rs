//! What the addons have in common: small changes to typed objects.

use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec};

use crate::manifest::EditError;

/// One entry of a ConfigMap.
pub(super) fn data<'a>(map: &'a mut ConfigMap, key: &'static str) -> Result<&'a mut String, EditError> {
    map.data.as_mut().and_then(|data| data.get_mut(key)).ok_or(EditError(key))
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
    use crate::spec::*;

    /// A cluster with the defaults and a token everybody knows.
    pub(crate) fn spec() -> Result<ClusterSpec, Box<dyn std::error::Error>> {
        Ok(ClusterSpec {
            name: ClusterName::new("sample")?,
            kubernetes: KubernetesVersion::DEFAULT,
            networking: Networking::default(),
            extra_sans: Vec::new(),
            token: BootstrapToken::parse("abcdef.0123456789abcdef")?,
            token_ttl: TokenTtl::default(),
            etcd: EtcdSpec::default(),
            cni: Cni::KubeRouter,
            kube_proxy: KubeProxyMode::Nftables,
            components: Vec::new(),
            nodes: Vec::new(),
        })
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
}
