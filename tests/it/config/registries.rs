//! Where images of nodes come from.

use hoist::config::view;

use super::*;

fn refused(yaml: &str, words: &[&str]) {
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for word in words {
        assert!(error.contains(word), "{word:?} is not in {error}");
    }
}

#[test]
fn a_port_of_the_registry_is_its_own() {
    refused("registry: {port: 5001}", &["line 3, column 12: registry.port 5001: there is no registry"]);
    refused(
        "registry: {enabled: true, port: 5001}\nports: [{host: 5001, port: 80}]",
        &["registry.port 5001: leads elsewhere"],
    );
    refused(
        "registry: {enabled: true, port: 5001}\nlistenAddress: 0.0.0.0:5001",
        &["registry.port 5001: leads elsewhere"],
    );
    refused("registry: {enabled: true, port: 65536}", &["registry.port 65536: must be 65535 or less"]);
    refused("registry: {enable: true}", &["did you mean enabled?"]);
}

#[test]
fn a_registry_has_its_name_and_configuration_to_itself() {
    refused(
        "registry: {enabled: true}\nnetworking: {dnsRecords: {registry: [10.0.0.1]}}",
        &["networking.dnsRecords registry: is the name of the cluster's own registry"],
    );
    refused("components: {registry: {extraArgs: {v: 1}}}", &["registry", "it takes no flags"]);
    refused("owner: {attach: theirs}\nregistry: {enabled: true}", &["registry beside owner.attach theirs"]);
}

#[test]
fn a_registry_is_made_with_the_cluster_or_not_at_all() {
    let (without, with) = (base(), resolve(&["--registry"], None).unwrap().spec);
    for (present, wanted) in [(&without, &with), (&with, &without)] {
        let differences = check_conflict(present, wanted).unwrap_err().differences;
        assert_eq!(differences.iter().map(|one| one.field).collect::<Vec<_>>(), ["registry"]);
    }
    // Who says nothing leaves it as it is.
    let settings = settings(flags(&[]), None, with.clone(), None).unwrap();
    assert_eq!(settings.spec.registry, with.registry);
}

#[test]
fn mirrors_are_urls_of_registries_by_name() {
    refused(
        "images:\n  mirrors:\n    'docker.io/library': [https://a.example]\n    quay.io: [a.example, 'https://me:pw@a.example']\n    ghcr.io: []",
        &[
            "images.mirrors \"docker.io/library\": must be the name of a registry",
            "images.mirrors.quay.io \"a.example\": must be https://",
            "images.mirrors.quay.io \"https://me:pw@a.example\": must be https://",
            "images.mirrors.ghcr.io: must list at least one URL",
        ],
    );
    let error = resolve(&["--mirror=docker.io"], None).unwrap_err();
    assert!(error.contains("--mirror \"docker.io\": must be https://"), "{error}");
    refused(
        "registry: {enabled: true}\nimages: {mirrors: {'registry:5000': [https://a.example]}}",
        &["images.mirrors registry:5000: is the cluster's own registry"],
    );
}

#[test]
fn what_is_wrong_with_a_proxy_is_told_without_its_password() {
    for (yaml, told) in [
        ("proxy: {http: 'me:hush@proxy:3128'}", "proxy.http \"proxy:3128\": must be http://HOST:PORT"),
        (
            "proxy: {https: 'http://me:hush@proxy:0'}",
            "proxy.https \"http://proxy:0\": must be http://HOST:PORT",
        ),
        ("proxy: {http: 'http://me:hush@127.0.0.1:3128'}", "nodes have a loopback of their own"),
        ("proxy: {http: 'http://me:hush@localhost'}", "nodes have a loopback of their own"),
        ("proxy: {http: 'http://me:hush@[::1]:1'}", "nodes have a loopback of their own"),
        ("proxy: {http: \"http://me:hush@proxy:1\\nA=b\"}", "proxy.http"),
        ("proxy: {noProxy: [a.example]}", "proxy.noProxy a.example: there is no proxy"),
        ("proxy: {http: 'http://proxy', noProxy: ['a b']}", "proxy.noProxy \"a b\": must be a host"),
    ] {
        let error = resolve(&[], Some(yaml)).unwrap_err();
        assert!(error.contains(told) && !error.contains("hush"), "{yaml}: {error}");
    }
}

#[test]
fn a_password_of_a_proxy_is_shown_nowhere() {
    let with = resolve(&["--http-proxy=http://me:hush@proxy:3128"], None).unwrap();
    let view = view::yaml(&with, &Origin::Default);
    assert!(view.contains("http: http://proxy:3128  # --http-proxy") && !view.contains("hush"), "{view}");
    let other = resolve(&["--http-proxy=http://me:shush@proxy:3128"], None).unwrap();
    for (present, wanted) in [(&base(), &with.spec), (&with.spec, &other.spec)] {
        let conflict = check_conflict(present, wanted).unwrap_err();
        assert_eq!(conflict.differences.len(), 1);
        assert!(
            conflict.differences[0].field == "proxy" && !conflict.to_string().contains("hush"),
            "{conflict}"
        );
    }
    let steps = hoist_phases::phases::preview::preview(None, &with.spec).unwrap();
    assert!(!serde_json::to_string(&steps).unwrap().contains("hush"));
    assert!(!format!("{with:?}").contains("hush"));
}
