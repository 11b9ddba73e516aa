use serde_json::{Value, json};

use super::*;
use crate::spec::{KubernetesVersion, test_spec};

type Check = Result<(), Box<dyn std::error::Error>>;

const APART: &str = "/spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm";

fn policy() -> PlacementPolicy {
    PlacementPolicy {
        namespaces: vec!["kubevirt".to_owned()],
        node_selector: [("kubernetes.io/os".to_owned(), "linux".to_owned())].into(),
        tolerations: vec![crate::spec::Toleration {
            operator: Some("Exists".to_owned()),
            ..Default::default()
        }],
        replicas: Some(3),
    }
}

fn deployment(replicas: Option<u32>, pod: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "kubevirt"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a", "version": "1"}}, "spec": pod},
        },
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

#[test]
fn a_deployment_that_states_nothing_gets_everything() {
    let mut object = deployment(None, json!({"containers": [], "unknownToUs": true}));
    let created_with = Placed { changed: true, replicas: Some(3) };
    assert_eq!(place(&mut object, Some(&policy())), created_with);
    let term = object.pointer(APART).cloned().unwrap_or_default();
    assert_eq!(term["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(term["labelSelector"], json!({"matchLabels": {"app": "a"}}));
    let pod = &object["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["unknownToUs"], true);
    assert_eq!(object["spec"].get("replicas"), None, "later it is somebody else's number");
    let before = object.clone();
    assert_eq!(place(&mut object, Some(&policy())), Placed { changed: false, ..created_with });
    assert_eq!(object, before, "once is enough");
}

/// kubevirt/kubevirt: infra Deployments state all of it.
#[test]
fn what_is_stated_stays() {
    let pod = json!({
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}},
        "nodeSelector": {"a": "b"}, "tolerations": [{"key": "c", "operator": "Exists"}],
    });
    for replicas in [0, 1] {
        let stated = deployment(Some(replicas), pod.clone());
        let mut object = stated.clone();
        assert_eq!(place(&mut object, Some(&policy())), Placed::default());
        assert_eq!(object, stated);
    }
}

#[test]
fn statements_that_amount_to_the_same_count() {
    let placed = |pod: Value| {
        let mut object = deployment(None, pod);
        place(&mut object, Some(&policy()));
        object["spec"]["template"]["spec"].clone()
    };
    let spread = placed(json!({"topologySpreadConstraints": [{"maxSkew": 1}]}));
    assert_eq!(spread["affinity"]["podAntiAffinity"], Value::Null);
    let near = placed(json!({"affinity": {"podAffinity": {"x": [1]}}}));
    assert_eq!(near["affinity"], json!({"podAffinity": {"x": [1]}}));
    let on_nodes = placed(json!({"affinity": {"nodeAffinity": {"x": [1]}}}));
    assert_eq!(on_nodes["nodeSelector"], Value::Null);
    assert!(on_nodes["affinity"]["podAntiAffinity"].is_object(), "nodes say nothing about neighbours");
    assert_eq!(placed(json!({"nodeName": "node01"}))["nodeSelector"], Value::Null);
    for affinity in [
        json!({}),
        Value::Null,
        json!({"podAntiAffinity": {}}),
        json!({"podAffinity": {"x": []}, "nodeAffinity": {}}),
    ] {
        let empty = placed(json!({"affinity": affinity, "tolerations": [], "nodeSelector": null}));
        assert!(empty["tolerations"] != json!([]) && empty["nodeSelector"].is_object(), "{empty}");
        let preferred =
            &empty["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(preferred.as_array().map(Vec::len), Some(1), "{empty}");
    }
}

#[test]
fn outside_of_the_policy_replicas_keep_apart_and_that_is_all() {
    for policy in [None, Some(&policy())] {
        let mut object = deployment(None, json!({"containers": []}));
        object["metadata"]["namespace"] = json!("mine");
        assert_eq!(place(&mut object, policy), Placed { changed: true, replicas: None });
        assert!(object.pointer(APART).is_some());
        assert_eq!(object["spec"].get("replicas"), None);
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!((pod.get("nodeSelector"), pod.get("tolerations")), (None, None));
    }
}

#[test]
fn other_kinds_and_broken_ones_are_left_alone() {
    for object in [
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"template": {"spec": {}}}}),
        json!({"apiVersion": "example.org/v1", "kind": "Deployment", "spec": {"template": {"spec": {}}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": "x"}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": "x"}),
        deployment(None, json!({"affinity": "x"})),
        deployment(None, json!({"affinity": ["podAntiAffinity"], "tolerations": {}})),
        json!(["apps/v1", "Deployment"]),
    ] {
        let mut after = object.clone();
        assert_eq!(place(&mut after, Some(&policy())), Placed::default(), "{object}");
        assert_eq!(after, object);
    }
}

#[test]
fn own_objects_follow_the_policy_where_it_reaches() -> Check {
    let mut spec = test_spec();
    let objects = [
        Object::new(&deployment(None, json!({})))?,
        Object::new(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kubevirt"}}),
        )?,
    ];
    assert_eq!(own(&spec, &objects).as_ref(), objects, "no policy, no change");
    spec.placement.policy = Some(policy());
    let placed = own(&spec, &objects);
    assert!(placed[0].value().pointer(APART).is_some());
    // Those that are there keep their number, and what they got when the policy goes.
    assert_eq!(placed[0].creation()["spec"]["replicas"], 3);
    assert_eq!(placed[0].value()["spec"].get("replicas"), None);
    assert_eq!(placed[0].hash(), objects[0].hash());
    assert_eq!(placed[1], objects[1]);
    spec.placement.policy = Some(PlacementPolicy { namespaces: vec!["other".to_owned()], ..policy() });
    assert_eq!(own(&spec, &objects).as_ref(), objects);
    Ok(())
}

#[test]
fn older_servers_are_told_of() {
    let mut spec = test_spec();
    spec.kubernetes = KubernetesVersion { minor: 35, patch: 4 };
    assert_eq!(limitation(&spec), None);
    spec.placement.policy = Some(policy());
    assert!(limitation(&spec).is_some_and(|text| text.contains("v1.35.4") && text.contains("kubevirt")));
    spec.kubernetes = KubernetesVersion { minor: 36, patch: 0 };
    assert_eq!(limitation(&spec), None);
}
