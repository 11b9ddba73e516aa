//! Plans of clusters as they are made, and of changes to one that is there.

use std::path::Path;

use hoist::cli::plan_text;
use hoist::config::{defaults, parse_file, settings};
use hoist_phases::phases::preview::preview;
use hoist_phases::phases::upgrade::rules;
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec, KubernetesVersion};

fn base() -> ClusterSpec {
    defaults(ClusterName::new("t").unwrap(), BootstrapToken::parse("abcdef.1234567890123456").unwrap())
}

fn of(base: ClusterSpec, yaml: &str) -> ClusterSpec {
    let text = format!("apiVersion: hoist.dev/v1alpha1\nkind: Cluster\n{yaml}");
    let file = parse_file(Path::new("c.yaml"), &text).unwrap();
    settings(Default::default(), Some(file), base, None).unwrap().spec
}

/// The plan of a new cluster of this file.
fn new(yaml: &str) -> String {
    plan_text(&preview(None, &of(base(), yaml)).unwrap())
}

/// The plan of a change to the default cluster.
fn change(yaml: &str) -> String {
    let present = base();
    plan_text(&preview(Some(&present), &of(present.clone(), yaml)).unwrap())
}

#[test]
fn plans_of_new_clusters() {
    for (name, yaml) in [
        ("default", ""),
        ("no_nodes", "nodes: []"),
        ("dual_stack_vms", "networking: {ipFamily: dual}\nnodes: [{kind: vm, count: 2, memory: 4Gi}]"),
        ("konnectivity", "reach: konnectivity\ncni: none"),
        ("registry", "registry: {enabled: true}"),
        ("attached", "owner: {attach: theirs}"),
    ] {
        insta::assert_snapshot!(format!("new_{name}"), new(yaml));
    }
}

#[test]
fn plan_of_an_upgrade() {
    let mut present = base();
    present.kubernetes = KubernetesVersion::parse("v1.35.4").unwrap();
    let wanted = rules::upgraded(&present, KubernetesVersion::parse("v1.36.3").unwrap(), true);
    insta::with_settings!({ filters => [(r"content [0-9a-f]{12}", "content (digest)")] }, {
        insta::assert_snapshot!("upgrade", plan_text(&preview(Some(&present), &wanted).unwrap()));
    });
}

#[test]
fn plans_of_changes() {
    for (name, yaml) in [
        ("nothing", ""),
        ("san", "extraSans: [api.example.org]"),
        ("argument", "components: {kube-scheduler: {extraArgs: {v: 4}}}"),
        ("encryption", "apiServer: {encryptionConfig: 'kind: EncryptionConfiguration'}"),
        ("reach", "reach: none"),
        ("node", "nodes: [{count: 2}]"),
    ] {
        // That a content differs is what counts; what it is changes with hoist.
        insta::with_settings!({ filters => [(r"\([0-9a-f]{12}\)", "(digest)")] }, {
            insta::assert_snapshot!(format!("change_{name}"), change(yaml));
        });
    }
}
