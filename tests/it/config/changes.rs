//! What may change of a cluster that is there.

use super::*;

#[test]
fn what_is_not_said_stays_as_it_is() {
    let mut present = base();
    present.networking.pod_subnet = "10.1.0.0/16".parse().unwrap();
    let again = settings(flags(&[]), None, present.clone(), None).unwrap();
    assert_eq!(again.spec, present);
    assert_eq!(check_conflict(&present, &again.spec), Ok(()));
}

#[test]
fn a_machine_does_not_change_its_size_under_its_pods() {
    let vm = ["--node-kind=vm", "--memory=4Gi"];
    let present = resolve(&vm, None).unwrap().spec;
    for other in [["--memory=2Gi", "--cpus=2"], ["--memory=4Gi", "--cpus=3"], ["--memory=4Gi", "--disk=30Gi"]]
    {
        let args = [&["--node-kind=vm"], &other[..]].concat();
        let wanted = settings(flags(&args), None, present.clone(), None).unwrap().spec;
        let differences = check_conflict(&present, &wanted).unwrap_err().differences;
        assert_eq!(differences.iter().map(|one| one.field).collect::<Vec<_>>(), ["nodes"], "{other:?}");
    }
    let same = settings(flags(&vm), None, present.clone(), None).unwrap().spec;
    assert_eq!(check_conflict(&present, &same), Ok(()));
}

#[test]
fn a_conflict_names_each_field_and_the_way_out() {
    let present = base();
    let args = ["--nodes=2", "--pod-subnet=10.1.0.0/16", "--kubernetes=v1.35.4", "--durable-etcd"];
    let wanted = settings(flags(&args), None, present.clone(), Some(Cni::None)).unwrap().spec;
    let conflict = check_conflict(&present, &wanted).unwrap_err();
    let fields: Vec<_> = conflict.differences.iter().map(|difference| difference.field).collect();
    assert_eq!(fields, ["kubernetes", "networking.podSubnet", "etcd.durable", "cni", "nodes"]);
    assert!(conflict.hints().iter().any(|hint| hint.contains("hoist down --name t")));
    let version = settings(flags(&["--kubernetes=v1.37.2"]), None, present.clone(), None).unwrap().spec;
    let hints = check_conflict(&present, &version).as_ref().map_err(Conflict::hints).unwrap_err();
    assert!(
        hints.len() == 1 && hints[0].contains("hoist upgrade --name t --kubernetes v1.37.2"),
        "{hints:?}"
    );
    let only_nodes = settings(flags(&["--nodes=2"]), None, present.clone(), None).unwrap().spec;
    let hints = check_conflict(&present, &only_nodes).as_ref().map_err(Conflict::hints).unwrap_err();
    assert!(hints.len() == 1 && hints[0].contains("hoist node add"), "{hints:?}");
}

#[test]
fn an_upgraded_cluster_is_what_its_file_says_with_the_new_version() {
    let mut present = base();
    present.kubernetes = KubernetesVersion::parse("v1.35.4").unwrap();
    let upgraded = rules::upgraded(&present, KubernetesVersion::parse("v1.36.3").unwrap(), true);
    let of = |version: &str| {
        let args = ["--nodes=1", &format!("--kubernetes={version}")];
        settings(flags(&args), None, upgraded.clone(), None).unwrap().spec
    };
    assert_eq!(of("v1.36.3"), upgraded, "nodes and what is held stay recorded");
    let fields = check_conflict(&upgraded, &of("v1.35.4")).unwrap_err().differences;
    assert_eq!(fields.iter().map(|one| one.field).collect::<Vec<_>>(), ["kubernetes"]);
}

#[test]
fn kamaji_1165_and_641_arguments_and_sans_may_change() {
    let present = base();
    let yaml = "extraSans: [a.example]\ncomponents: {kube-scheduler: {extraArgs: {v: '4'}}}\n";
    let file = parse_file(Path::new("c.yaml"), &format!("{HEADER}{yaml}")).unwrap();
    let wanted = settings(flags(&["--token-ttl=1h"]), Some(file), present.clone(), None).unwrap().spec;
    assert_ne!(present, wanted);
    assert_eq!(check_conflict(&present, &wanted), Ok(()));
}
