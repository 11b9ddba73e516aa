use super::*;

type Check = Result<(), Box<dyn std::error::Error>>;

fn node(name: &str, second: u8) -> Result<Node, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "resourceVersion": "7", "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            "labels": {"kubernetes.io/os": "linux"},
        },
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    }))
}

fn rule(role: &str, nodes: RoleNodes, taint: bool) -> RoleRule {
    RoleRule { role: role.to_owned(), nodes, taint }
}

/// As an API server would (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().map(|target| target.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// Applies what is decided, and finds that it then needs nothing more.
fn settle(nodes: &mut [Node], rules: &[RoleRule]) -> Result<usize, Box<dyn std::error::Error>> {
    settle_with(nodes, rules, false)
}

fn settle_with(
    nodes: &mut [Node],
    rules: &[RoleRule],
    elsewhere: bool,
) -> Result<usize, Box<dyn std::error::Error>> {
    let patches = decide(&nodes.iter().collect::<Vec<_>>(), rules, elsewhere);
    for Patch { node: reference, patch } in &patches {
        for node in nodes.iter_mut().filter(|node| name(node) == reference.name) {
            let mut value = serde_json::to_value(&*node)?;
            merge(&mut value, patch);
            *node = serde_json::from_value(value)?;
        }
    }
    assert_eq!(decide(&nodes.iter().collect::<Vec<_>>(), rules, elsewhere), []);
    Ok(patches.len())
}

/// `a=control-plane+worker b=worker`, and taints after an exclamation mark.
fn shown(nodes: &[Node]) -> String {
    let one = |node: &Node| {
        let mut parts: Vec<String> = given(node).labels.into_iter().collect();
        let prefix = ROLE_LABEL_PREFIX;
        let has: Vec<_> = labels(node).into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let mut labelled: Vec<_> = has.into_iter().filter(|key| key.starts_with(prefix)).collect();
        labelled.sort();
        parts.sort();
        assert_eq!(parts, labelled, "the annotation tells the labels");
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let taints = taints.filter_map(|taint| taint.key.strip_prefix(prefix)).map(|key| format!("!{key}"));
        let names: Vec<_> = parts.iter().filter_map(|key| key.strip_prefix(prefix)).collect();
        format!("{}={}{}", name(node), names.join("+"), taints.collect::<String>())
    };
    nodes.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_default_is_what_kubevirt_needs() -> Check {
    let mut nodes = [node("node01", 1)?, node("node02", 2)?];
    assert_eq!(settle(&mut nodes, &RoleRule::defaults())?, 2);
    assert_eq!(shown(&nodes), "node01=control-plane+worker node02=worker");
    Ok(())
}

#[test]
fn what_a_person_took_away_comes_back_and_what_they_gave_stays() -> Check {
    let mut nodes = [node("node01", 1)?];
    settle(&mut nodes, &RoleRule::defaults())?;
    if let Some(labels) = nodes[0].metadata.labels.as_mut() {
        labels.remove("node-role.kubernetes.io/worker");
        labels.insert("node-role.kubernetes.io/mine".to_owned(), "yes".to_owned());
    }
    assert_eq!(settle(&mut nodes, &RoleRule::defaults())?, 1);
    settle(&mut nodes, &[])?;
    let left: Vec<_> = labels(&nodes[0]).into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    assert_eq!(left, ["kubernetes.io/os", "node-role.kubernetes.io/mine"]);
    assert_eq!(nodes[0].metadata.annotations.clone().unwrap_or_default().len(), 0);
    Ok(())
}

#[test]
fn a_role_that_a_person_gave_before_stays_when_it_is_turned_off() -> Check {
    const KEY: &str = "node-role.kubernetes.io/infra";
    let mut nodes = [node("a", 1)?, node("b", 2)?];
    if let Some(labels) = nodes[0].metadata.labels.as_mut() {
        labels.insert(KEY.to_owned(), "mine".to_owned());
    }
    if let Some(taints) = nodes[1].spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        taints.push(Taint { key: KEY.to_owned(), effect: EFFECT.to_owned(), ..Taint::default() });
    }
    settle(&mut nodes, &[rule("infra", RoleNodes::All, true)])?;
    settle(&mut nodes, &[])?;
    let has = |node: &Node| {
        let label = labels(node).and_then(|labels| labels.get(KEY)).cloned();
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        (label, taints.filter(|taint| taint.key == KEY).count())
    };
    assert_eq!(has(&nodes[0]), (Some("mine".to_owned()), 0), "the label is theirs, the taint was not");
    assert_eq!(has(&nodes[1]), (None, 1), "the taint is theirs, the label was not");
    assert!(nodes.iter().all(|node| given(node) == Given::default()));
    Ok(())
}

/// kubelet may write annotations of its own Node.
#[test]
fn an_annotation_alone_makes_no_holder_of_a_count() -> Check {
    let rules = [rule("infra", RoleNodes::Count(1), false)];
    let mut nodes = [node("a", 1)?, node("b", 2)?];
    nodes[1].metadata.annotations = Some([(ANNOTATION.to_owned(), "infra".to_owned())].into());
    settle(&mut nodes, &rules)?;
    assert_eq!(shown(&nodes), "a=infra b=");
    Ok(())
}

#[test]
fn taints_of_others_are_kept() -> Check {
    let mut nodes = [node("a", 1)?];
    settle(&mut nodes, &[rule("infra", RoleNodes::All, true)])?;
    assert_eq!(shown(&nodes), "a=infra!infra");
    let keys = |node: &Node| -> Vec<String> {
        node.spec.iter().flat_map(|s| s.taints.iter().flatten()).map(|t| t.key.clone()).collect()
    };
    assert_eq!(keys(&nodes[0]), ["node.kubernetes.io/not-ready", "node-role.kubernetes.io/infra"]);
    // Without a taint from now on.
    settle(&mut nodes, &[rule("infra", RoleNodes::All, false)])?;
    assert_eq!(shown(&nodes), "a=infra");
    assert_eq!(keys(&nodes[0]), ["node.kubernetes.io/not-ready"]);
    Ok(())
}

#[test]
fn a_count_stays_where_it_is() -> Check {
    let rules = [rule("infra", RoleNodes::Count(1), false)];
    let mut nodes = vec![node("b", 2)?];
    settle(&mut nodes, &rules)?;
    nodes.insert(0, node("a", 1)?);
    assert_eq!(settle(&mut nodes, &rules)?, 0);
    assert_eq!(shown(&nodes), "a= b=infra");
    nodes.pop();
    settle(&mut nodes, &rules)?;
    assert_eq!(shown(&nodes), "a=infra");
    Ok(())
}

#[test]
fn a_selector_wants_all_its_labels() -> Check {
    let selected = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        [rule("infra", RoleNodes::Selected(labels), false)]
    };
    let mut nodes = [node("a", 1)?, node("b", 2)?];
    if let Some(labels) = nodes[1].metadata.labels.as_mut() {
        labels.insert("disk".to_owned(), "ssd".to_owned());
    }
    settle(&mut nodes, &selected(&[("kubernetes.io/os", "linux"), ("disk", "ssd")]))?;
    assert_eq!(shown(&nodes), "a= b=infra");
    settle(&mut nodes, &selected(&[("disk", "hdd")]))?;
    assert_eq!(shown(&nodes), "a= b=");
    Ok(())
}

#[test]
fn a_patch_carries_the_version_it_was_decided_on() -> Check {
    let nodes = [node("a", 1)?];
    let patches = decide(&nodes.iter().collect::<Vec<_>>(), &[rule("r", RoleNodes::All, false)], false);
    assert_eq!(patches[0].patch["metadata"]["resourceVersion"], "7");
    Ok(())
}

#[test]
fn a_node_outside_of_the_clusters_network_is_elsewhere() -> Check {
    let at = |name: &str, addresses: &[&str]| -> Result<Node, serde_json::Error> {
        let mut node = node(name, 1)?;
        let addresses: Vec<_> =
            addresses.iter().map(|address| json!({"type": "InternalIP", "address": address})).collect();
        node.status = Some(serde_json::from_value(json!({ "addresses": addresses }))?);
        Ok(node)
    };
    let mut nodes = [
        at("a", &["192.168.66.101", "fd00::101"])?,
        at("b", &["10.0.0.7", "192.168.66.102"])?,
        at("c", &["172.30.0.2"])?,
        at("d", &["fd01::7"])?,
        at("untold", &[])?,
    ];
    let settle = |nodes: &mut [Node]| settle_with(nodes, &[], true);
    assert_eq!(settle(&mut nodes)?, 2);
    assert_eq!(shown(&nodes), "a= b= c=elsewhere d=elsewhere untold=");
    nodes[2].status = at("c", &["192.168.66.103"])?.status;
    assert_eq!(settle(&mut nodes)?, 1);
    assert_eq!(settle_with(&mut nodes, &[], false)?, 1, "without an endpoint there is no such role");
    Ok(())
}
