//! Files that are not what they should be.

use super::*;

#[test]
fn an_unknown_field_is_refused_with_its_place() {
    let error = resolve(&[], Some("networking:\n  podSubnett: 10.1.0.0/16\n")).unwrap_err();
    assert!(error.contains("c.yaml, line 4, column 3"), "{error}");
    assert!(error.contains("podSubnett"), "{error}");
}

#[test]
fn a_file_for_something_else_is_refused() {
    let parse = |text: &str| parse_file(Path::new("c.yaml"), text).map(|_| ()).unwrap_err().to_string();
    let error = parse("apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n");
    assert_eq!(
        error,
        r#"configuration file c.yaml: apiVersion is "kind.x-k8s.io/v1alpha4", must be "hoist.dev/v1alpha1""#
    );
    assert!(parse("apiVersion: hoist.dev/v1alpha1\nkind: Node\n").contains("kind is \"Node\""));
    assert!(parse("kind: Cluster\n").contains("apiVersion"));
    assert!(parse("a: [").contains("line "));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let yaml = "
extraSans: ['not a name']
etcd: {tmpfsSize: 64Mi}
components: {kubelet: {}, owner: {extraArgs: {x: y}}}
";
    let args = [
        "--kubernetes=v1.20.0",
        "--pod-subnet=192.168.66.0/24",
        "--service-subnet=10.96.0.1/12",
        "--nodes=100",
        "--skip-phase=nope",
        "--wait=soon",
        "--timeout=5",
        "--token-ttl=x",
        "--kube-proxy-mode=ipvs",
        "--node-kind=pod",
    ];
    let error = resolve(&args, Some(yaml)).unwrap_err();
    for part in [
        "not a name",
        "tmpfsSize",
        "components.kubelet",
        "owner",
        "v1.20.0",
        "192.168.66.0/24",
        "--service-subnet",
        "100",
        "nope",
        "soon",
        "--timeout",
        "--token-ttl",
        "ipvs",
        "--node-kind",
    ] {
        assert!(error.contains(part), "{part} is missing from:\n{error}");
    }
    let problems = error.lines().filter(|line| line.starts_with("- ")).count();
    assert!(error.starts_with(&format!("{problems} settings are wrong\n- ")), "{error}");
}

#[test]
fn a_token_is_not_echoed() {
    let error = resolve(&["--token=ABCDEF.supersecretvalue"], None).unwrap_err();
    assert!(error.contains("token") && !error.contains("supersecret"), "{error}");
}

#[test]
fn every_mistake_of_shape_is_told_with_its_place() {
    let yaml = "\
networking:
  podSubnett: 10.1.0.0/16
  nodeMaskSizeIpv4: 300
etcd: {durable: 'yes', quota: 8Gb}
retain: [true]
components:
  etcd: {extraArgs: {v: [2]}}
nodes:
- {kind: container, cont: 2}
placement: {roles: [{count: 1}]}
progress: pretty
";
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for wanted in [
        "c.yaml, line 4, column 3: networking.podSubnett: unknown field; did you mean podSubnet?",
        "c.yaml, line 5, column 3: networking.nodeMaskSizeIpv4 300: must be 255 or less",
        "c.yaml, line 6, column 8: etcd.durable: is text, must be true or false",
        "c.yaml, line 6, column 24: etcd.quota \"8Gb\": must be a size such as",
        "c.yaml, line 7, column 1: retain: is a list, must be true or false",
        "c.yaml, line 9, column 22: components.etcd.extraArgs.v: is a list, must be text or a number",
        "c.yaml, line 11, column 21: nodes[0].cont: unknown field; did you mean count?",
        "c.yaml, line 12, column 21: placement.roles[0].role: is missing",
        "c.yaml, line 13, column 1: progress: \"pretty\" is none of its values; there are auto, plain, json",
    ] {
        assert!(error.contains(wanted), "{wanted} is missing from:\n{error}");
    }
    assert!(error.starts_with("9 settings are wrong"), "{error}");
}

#[test]
fn numbers_in_place_of_text_hide_no_other_mistake() {
    let yaml = "etcd: {quota: 1}\ntimeout: 0\nnope: 1\nnodes: [{count: 254}]\n";
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for wanted in ["timeout 0: must be longer", "nope: unknown field", "nodes 254: at most 99"] {
        assert!(error.contains(wanted), "{wanted} is missing from:\n{error}");
    }
}

#[test]
fn a_device_that_never_ends_is_no_file() {
    let error = hoist::config::read_file(Path::new("/dev/zero")).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("is larger than 8 MiB"), "{error}: {cause}");
}

#[test]
fn text_is_taken_as_it_is_written() {
    let yaml = "components: {etcd: {extraArgs: {a: 0644, b: 1.10, c: true, d: ~}}}\ntokenTtl: 0\n";
    let spec = resolve(&[], Some(&yaml.replace(", d: ~", ""))).unwrap().spec;
    let args = spec.component(Component::Etcd).extra_args;
    assert_eq!(args.values().collect::<Vec<_>>(), ["0644", "1.10", "true"]);
    assert_eq!(spec.token_ttl.0, 0);
}

/// Commenting out what is in a section is no mistake.
#[test]
fn an_empty_section_says_nothing() {
    let plain = shown(&resolve(&[], None).unwrap());
    for section in ["networking", "etcd", "apiServer", "kubelet", "components", "placement", "owner", "nodes"]
    {
        let settings =
            resolve(&[], Some(&format!("{section}:\n"))).unwrap_or_else(|e| panic!("{section}: {e}"));
        assert_eq!(shown(&settings), plain, "{section}");
    }
    let settings = resolve(&[], Some("components:\n  kube-apiserver:\n    extraArgs:\n")).unwrap();
    assert_eq!(shown(&settings), plain);
}

#[test]
fn names_of_a_file_do_not_reach_the_terminal_as_they_are() {
    let error = resolve(&[], Some("\"\\e[31mkey\\nx\": 1\n")).unwrap_err();
    assert!(!error.contains('\u{1b}') && error.contains("u{1b}[31mkey\\nx"), "{error:?}");
}
