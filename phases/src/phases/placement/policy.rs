//! The rules as the API server applies them to everybody's Deployments, from manifests/placement.

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1beta1::{
    MutatingAdmissionPolicyBindingSpec, MutatingAdmissionPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::manifest::{EditError, Manifest, ManifestError};
use crate::object::Object;
use crate::spec::PlacementPolicy;

const MANIFEST: (&str, &str) =
    ("placement/policy.yaml", include_str!("../../../../manifests/placement/policy.yaml"));

/// Of both objects.
const NAME: &str = "placement.hoist.dev";

macro_rules! in_v1 {
    ($name:ident, $kind:literal, $plural:literal, $spec:ty) => {
        /// In v1, which the oldest Kubernetes supported doesn't serve; its specification is that of v1beta1.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $name {
            api_version: String,
            kind: String,
            metadata: ObjectMeta,
            spec: $spec,
        }

        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = "admissionregistration.k8s.io/v1";
            const GROUP: &'static str = "admissionregistration.k8s.io";
            const KIND: &'static str = $kind;
            const VERSION: &'static str = "v1";
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = ClusterResourceScope;
        }
    };
}

in_v1!(Policy, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", MutatingAdmissionPolicySpec);
in_v1!(
    Binding,
    "MutatingAdmissionPolicyBinding",
    "mutatingadmissionpolicybindings",
    MutatingAdmissionPolicyBindingSpec
);

/// The policy and its binding to the namespaces.
///
/// # Errors
/// When the embedded manifest is broken.
pub fn objects(policy: &PlacementPolicy) -> Result<Vec<Object>, ManifestError> {
    let PlacementPolicy { namespaces, node_selector, tolerations, replicas } = policy;
    let mut manifest = Manifest::parse(MANIFEST.0, MANIFEST.1)?;
    let values = [
        ("nodeSelector", literal(&json!(node_selector))),
        ("tolerations", literal(&json!(tolerations))),
        ("replicas", replicas.unwrap_or_default().to_string()),
    ];
    manifest.edit(NAME, |policy: &mut Policy| {
        for (name, value) in values {
            let variables = policy.spec.variables.iter_mut().flatten();
            let variable = variables.into_iter().find(|variable| variable.name == name);
            variable.ok_or(EditError("spec.variables"))?.expression = value;
        }
        Ok(())
    })?;
    manifest.edit(NAME, |binding: &mut Binding| {
        const FIELD: EditError = EditError("spec.matchResources.namespaceSelector");
        let selector = binding.spec.match_resources.as_mut().and_then(|m| m.namespace_selector.as_mut());
        let expressions = selector.and_then(|selector| selector.match_expressions.as_mut());
        let names = expressions.and_then(|all| all.iter_mut().find(|e| e.key == NAMESPACE_NAME));
        names.ok_or(FIELD)?.values = Some(namespaces.clone());
        Ok(())
    })?;
    manifest.objects()
}

/// Label that the API server puts on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A value in CEL. Strings are escaped alike; `dyn` because a list or map of different types is
/// refused otherwise.
fn literal(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| format!("dyn({})", literal(item))).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{}: dyn({})", Value::from(key.as_str()), literal(value))
            };
            format!("{{{}}}", fields.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;

    type Check = Result<(), Box<dyn std::error::Error>>;

    fn policy() -> Result<PlacementPolicy, serde_json::Error> {
        serde_json::from_value(json!({
            "namespaces": ["kubevirt", "cdi"],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "a\"b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
            "replicas": 2,
        }))
    }

    #[test]
    fn objects_of_a_policy() -> Check {
        insta::assert_snapshot!(testing::text(&objects(&policy()?)?)?);
        Ok(())
    }

    /// A field that the borrowed types don't know would be dropped without a word.
    #[test]
    fn the_manifest_holds_nothing_unknown() -> Check {
        let manifest = Manifest::parse(MANIFEST.0, MANIFEST.1)?.objects()?;
        let policy: Policy = serde_json::from_value(manifest[0].value().clone())?;
        assert_eq!(&serde_json::to_value(policy)?, manifest[0].value());
        let binding: Binding = serde_json::from_value(manifest[1].value().clone())?;
        assert_eq!(&serde_json::to_value(binding)?, manifest[1].value());
        Ok(())
    }

    #[test]
    fn nothing_given_is_nothing_added() -> Check {
        let bare = PlacementPolicy { namespaces: vec!["a".to_owned()], ..PlacementPolicy::default() };
        let objects = objects(&bare)?;
        let spec = &testing::find(&objects, "MutatingAdmissionPolicy", NAME)["spec"];
        let value = |name: &str| {
            let variables = spec["variables"].as_array().into_iter().flatten();
            variables.into_iter().find(|v| v["name"] == name).map(|v| v["expression"].clone())
        };
        assert_eq!(value("nodeSelector"), Some(json!("{}")));
        assert_eq!(value("tolerations"), Some(json!("[]")));
        assert_eq!(value("replicas"), Some(json!("0")));
        Ok(())
    }
}
