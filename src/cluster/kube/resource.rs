use std::fmt::Write as _;

use hoist_phases::object::ObjectRef;

/// Where a kind is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub plural: String,
    pub namespaced: bool,
}

/// Kubernetes' own kinds: group, kind, resource, whether it lives in a namespace. The same for
/// every version of a group. Asking the server instead would cost a round trip a group.
pub const KINDS: &[(&str, &str, &str, bool)] = &[
    ("", "ComponentStatus", "componentstatuses", false),
    ("", "ConfigMap", "configmaps", true),
    ("", "Endpoints", "endpoints", true),
    ("", "Event", "events", true),
    ("", "LimitRange", "limitranges", true),
    ("", "Namespace", "namespaces", false),
    ("", "Node", "nodes", false),
    ("", "PersistentVolume", "persistentvolumes", false),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("", "Pod", "pods", true),
    ("", "PodTemplate", "podtemplates", true),
    ("", "ReplicationController", "replicationcontrollers", true),
    ("", "ResourceQuota", "resourcequotas", true),
    ("", "Secret", "secrets", true),
    ("", "Service", "services", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", false),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        false,
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("apiregistration.k8s.io", "APIService", "apiservices", false),
    ("apps", "ControllerRevision", "controllerrevisions", true),
    ("apps", "DaemonSet", "daemonsets", true),
    ("apps", "Deployment", "deployments", true),
    ("apps", "ReplicaSet", "replicasets", true),
    ("apps", "StatefulSet", "statefulsets", true),
    ("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", false),
    ("authentication.k8s.io", "TokenReview", "tokenreviews", false),
    ("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", true),
    ("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false),
    ("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews", false),
    ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", false),
    ("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true),
    ("batch", "CronJob", "cronjobs", true),
    ("batch", "Job", "jobs", true),
    ("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", false),
    ("coordination.k8s.io", "Lease", "leases", true),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices", true),
    ("events.k8s.io", "Event", "events", true),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", false),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "prioritylevelconfigurations", false),
    ("networking.k8s.io", "IPAddress", "ipaddresses", false),
    ("networking.k8s.io", "Ingress", "ingresses", true),
    ("networking.k8s.io", "IngressClass", "ingressclasses", false),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    ("networking.k8s.io", "ServiceCIDR", "servicecidrs", false),
    ("node.k8s.io", "RuntimeClass", "runtimeclasses", false),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    ("resource.k8s.io", "DeviceClass", "deviceclasses", false),
    ("resource.k8s.io", "ResourceClaim", "resourceclaims", true),
    ("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates", true),
    ("resource.k8s.io", "ResourceSlice", "resourceslices", false),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    ("storage.k8s.io", "CSIDriver", "csidrivers", false),
    ("storage.k8s.io", "CSINode", "csinodes", false),
    ("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", true),
    ("storage.k8s.io", "StorageClass", "storageclasses", false),
    ("storage.k8s.io", "VolumeAttachment", "volumeattachments", false),
    ("storage.k8s.io", "VolumeAttributesClass", "volumeattributesclasses", false),
];

/// Looks a kind up in [`KINDS`]; `None` for those that a server must be asked about.
pub(super) fn built_in(api_version: &str, kind: &str) -> Option<Resource> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let known = KINDS.iter().find(|(g, k, _, _)| *g == group && *k == kind)?;
    Some(Resource { plural: known.2.to_owned(), namespaced: known.3 })
}

/// `/api/v1` for the core group, `/apis/GROUP/VERSION` for others.
pub(super) fn group_path(api_version: &str) -> String {
    let prefix = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{prefix}/{api_version}")
}

impl Resource {
    /// Path of all objects of the kind, or of those in one namespace.
    pub(super) fn collection(&self, api_version: &str, namespace: Option<&str>) -> String {
        let group = group_path(api_version);
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{group}/namespaces/{}/{}", encode(namespace), self.plural),
            None => format!("{group}/{}", self.plural),
        }
    }

    /// Path that an object is created at. As kubectl, without a namespace it is `default`.
    pub(super) fn home(&self, api_version: &str, namespace: Option<&str>) -> String {
        self.collection(api_version, Some(namespace.unwrap_or("default")))
    }

    pub(super) fn object(&self, object: &ObjectRef) -> String {
        let home = self.home(&object.api_version, object.namespace.as_deref());
        format!("{home}/{}", encode(&object.name))
    }
}

/// Percent-encodes one path segment or query value (RFC 3986, section 2.1). `:` may stand in a
/// segment and does in the names of RBAC objects.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<String> {
        let reference = ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.map(Into::into),
            name: name.into(),
        };
        built_in(api_version, kind).map(|resource| resource.object(&reference))
    }

    #[test]
    fn objects_are_where_the_api_serves_them() {
        let rbac = "rbac.authorization.k8s.io/v1";
        for (found, wanted) in [
            (path("v1", "Node", None, "node01"), "/api/v1/nodes/node01"),
            (path("v1", "Node", Some("ignored"), "node01"), "/api/v1/nodes/node01"),
            (path("v1", "Secret", Some("kube-system"), "a"), "/api/v1/namespaces/kube-system/secrets/a"),
            (path("v1", "ConfigMap", None, "a"), "/api/v1/namespaces/default/configmaps/a"),
            (path("apps/v1", "DaemonSet", Some("x"), "a"), "/apis/apps/v1/namespaces/x/daemonsets/a"),
            (
                path(rbac, "ClusterRole", None, "kubeadm:get-nodes"),
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubeadm:get-nodes",
            ),
            (path("v1", "Pod", Some("a/b"), "../c"), "/api/v1/namespaces/a%2Fb/pods/..%2Fc"),
        ] {
            assert_eq!(found.as_deref(), Some(wanted));
        }
    }

    #[test]
    fn a_kind_belongs_to_its_group() {
        assert_eq!(built_in("v1", "Deployment"), None);
        assert_eq!(built_in("apps.example.com/v1", "Deployment"), None);
        assert_eq!(built_in("networking.k8s.io/v1", "Ingress").map(|r| r.plural), Some("ingresses".into()));
    }

    #[test]
    fn the_table_has_no_kind_twice() {
        for (index, (group, kind, _, _)) in KINDS.iter().enumerate() {
            let twice = KINDS.iter().skip(index + 1).any(|(g, k, _, _)| g == group && k == kind);
            assert!(!twice, "{group} {kind}");
        }
    }
}
