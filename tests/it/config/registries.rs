//! Where images of nodes come from.

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
