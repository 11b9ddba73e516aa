//! What the addons have in common: small changes to typed objects.

use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec};

use crate::manifest::EditError;
use crate::spec::ClusterSpec;

/// Image of one of hoist's own addons. Nodes carry it from the start; it is never pulled.
pub fn image(spec: &ClusterSpec, name: &str) -> String {
    format!("localhost/hoist/{name}:{}", spec.kubernetes)
}

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
