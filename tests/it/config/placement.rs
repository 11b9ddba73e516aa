//! Roles of nodes, and where pods go.

use super::*;

#[test]
fn a_placement_policy_arrives_and_can_be_turned_off() {
    let yaml = "
placement:
  policy:
    namespaces: [kubevirt, cdi]
    nodeSelector: {kubernetes.io/os: linux}
    tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
    replicas: 2
";
    let present = resolve(&[], Some(yaml)).unwrap().spec;
    let policy = present.placement.policy.clone().unwrap();
    assert_eq!(policy.namespaces, ["kubevirt", "cdi"]);
    assert_eq!(policy.node_selector.get("kubernetes.io/os").map(String::as_str), Some("linux"));
    assert_eq!(policy.tolerations[0].key.as_deref(), Some("CriticalAddonsOnly"));
    assert_eq!(policy.replicas, Some(2));
    assert_eq!(resolve(&[], None).unwrap().spec.placement.policy, None, "nobody gets one unasked");

    let again = settings(flags(&[]), None, present.clone(), None).unwrap().spec;
    assert_eq!(again, present, "what is not said stays");
    let off = parse_file(Path::new("c.yaml"), &format!("{HEADER}placement: {{policy: {{namespaces: []}}}}"));
    let off = settings(flags(&[]), Some(off.unwrap()), present.clone(), None).unwrap().spec;
    assert!(off.placement.policy.as_ref().is_some_and(|policy| policy.namespaces.is_empty()));
    assert_eq!(check_conflict(&present, &off), Ok(()), "a policy may change on a cluster that is there");
}

#[test]
fn a_placement_policy_that_the_server_would_refuse() {
    let with = |fields: &str| {
        resolve(&[], Some(&format!("placement: {{policy: {{{fields}}}}}"))).map(|_| ()).unwrap_err()
    };
    assert!(with("replicas: 2").contains("namespaces"), "they have to be named");
    let all = with(
        "namespaces: [Kube_Virt], nodeSelector: {'a b': c, d: '-'}, tolerations: [{effect: NoSchedule}], replicas: 0",
    );
    for wrong in ["Kube_Virt", "a b", "\"-\"", "without a key", "replicas 0"] {
        assert!(all.contains(wrong), "{wrong}: {all}");
    }
    assert!(with("namespaces: [a], tolerations: [{tolerationSecond: 5}]").contains("tolerationSecond"));
}

#[test]
fn roles_are_read_with_their_nodes() {
    let yaml = "
placement:
  roles:
  - {role: control-plane, nodes: [node01, node02], taint: true}
  - {role: infra, count: 2}
  - {role: fast, selector: {disk: ssd}}
  - {role: worker}
";
    let roles = resolve(&[], Some(yaml)).unwrap().spec.placement.roles;
    let rule = |role: &str, nodes, taint| RoleRule { role: role.to_owned(), nodes, taint };
    let names = ["node01", "node02"].map(str::to_owned).into();
    let labels = [("disk".to_owned(), "ssd".to_owned())].into();
    assert_eq!(
        roles,
        [
            rule("control-plane", RoleNodes::Named(names), true),
            rule("infra", RoleNodes::Count(2), false),
            rule("fast", RoleNodes::Selected(labels), false),
            rule("worker", RoleNodes::All, false),
        ]
    );
    assert_eq!(resolve(&[], None).unwrap().spec.placement.roles, RoleRule::defaults());
}

#[test]
fn roles_that_can_not_be_are_refused_together() {
    let yaml = "
placement:
  roles:
  - {role: a/b}
  - {role: both, nodes: [node01], count: 1}
  - {role: none, count: 0}
  - {role: any, selector: {}}
  - {role: twice}
  - {role: twice}
  spread: {labels: {'not a label': x}}
";
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for wanted in [
        "placement.roles \"a/b\": must be a label's name",
        "placement.roles \"both\": takes one of",
        "placement.roles \"none\": count",
        "placement.roles \"any\": selector",
        "placement.roles \"twice\": stands there more than once",
        "placement.spread.labels",
    ] {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn level_webhook_is_refused_where_it_is_never_reached() {
    assert_eq!(resolve(&["--wait=webhook"], None).unwrap().wait, Level::Webhook);
    assert_eq!(resolve(&[], None).unwrap().wait, Level::Dns, "not unless it is asked for");
    let error = resolve(&["--wait=webhook", "--reach=none"], None).unwrap_err();
    assert!(error.contains("--wait webhook") && error.contains("use dns"), "{error}");
}
