use serde_json::{Value, json};

use crate::spec::ClusterSpec;

/// Endpoints of the Service `default/kubernetes` when the control plane is known by another address
/// than the API server's own: that, and on its port, it could not announce itself
/// (`--endpoint-reconciler-type=none`).
///
/// Both kinds, as the API server writes them; `skip-mirror` keeps the controller-manager from
/// making a second slice of the first.
pub(super) fn kubernetes_service(spec: &ClusterSpec) -> Vec<Value> {
    let Some(endpoint) = &spec.control_plane_endpoint else { return Vec::new() };
    let service = spec.networking.kubernetes_service();
    let same = endpoint.addresses.iter().filter(|address| address.is_ipv4() == service.is_ipv4());
    let addresses: Vec<_> = same.map(ToString::to_string).collect();
    let family = if service.is_ipv4() { "IPv4" } else { "IPv6" };
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
            },
            "subsets": [{
                "addresses": addresses.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>(),
                "ports": [{ "name": "https", "port": endpoint.port, "protocol": "TCP" }],
            }],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": { "kubernetes.io/service-name": "kubernetes" },
            },
            "addressType": family,
            "endpoints": [{ "addresses": addresses, "conditions": { "ready": true } }],
            "ports": [{ "name": "https", "port": endpoint.port, "protocol": "TCP" }],
        }),
    ]
}
