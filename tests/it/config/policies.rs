//! Authentication and encryption of the API server.

use super::{HEADER, base, flags, resolve};
use hoist::config::{Origin, check_conflict, parse_file, settings, view};
use hoist_phases::spec::ClusterSpec;
use std::path::Path;

const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";

#[tokio::test]
async fn oidc_in_short_is_an_authentication_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("hoist.yaml");
    let finish = async |fields: &str| {
        std::fs::write(&config, format!("{HEADER}{fields}")).unwrap();
        let args = flags(&["--config", config.to_str().unwrap()]);
        let (document, name) = hoist::config::begin(&Default::default(), &args).unwrap();
        hoist::config::finish(args, document, name, None).await.map_err(|error| error.to_string())
    };
    let yaml = "apiServer:\n  oidc: {issuerUrl: 'https://a.example', clientId: hoist, ca: a.crt}\n";
    let error = finish(yaml).await.unwrap_err();
    assert!(error.contains("line 4, column 59: apiServer.oidc.ca"), "{error}");
    assert!(error.ends_with("there is no such file"), "{error}");

    std::fs::write(dir.path().join("a.crt"), "no certificate").unwrap();
    let error = finish(&yaml.replace("https", "http")).await.unwrap_err();
    for wanted in
        ["apiServer.oidc.issuerUrl \"http://a.example\": must be https://", "must hold certificates"]
    {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }

    std::fs::write(dir.path().join("a.crt"), AUTHORITY).unwrap();
    let both = format!("{yaml}  authenticationConfig: 'kind: AuthenticationConfiguration'\n");
    let error = finish(&both).await.unwrap_err();
    assert!(error.contains("apiServer.oidc: stands beside apiServer.authenticationConfig"), "{error}");

    let settings = finish(yaml).await.unwrap();
    let text = settings.spec.api_server.authentication_config.clone().unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["jwt"][0]["issuer"]["certificateAuthority"], AUTHORITY);
    let lines = view::lines(&settings, &Origin::Default);
    let line = lines.iter().find(|line| line.field == "apiServer.authenticationConfig").unwrap();
    assert!(line.origin.ends_with("line 4, column 3"), "{}", line.origin);

    let flags = "components: {kube-apiserver: {extraArgs: {oidc-client-id: other}}}\n";
    let error = finish(&format!("{yaml}{flags}")).await.unwrap_err();
    assert!(error.contains("extraArgs.oidc-client-id") && error.contains("authenticationConfig"), "{error}");
}

/// A cluster that is there with this encryption; none at all when empty.
fn with(providers: &str) -> ClusterSpec {
    if providers.is_empty() {
        return resolve(&[], None).unwrap().spec;
    }
    resolve(&[], Some(&encryption(providers))).unwrap().spec
}

fn encryption(providers: &str) -> String {
    format!(
        "apiServer:\n  encryptionConfig: |\n    kind: EncryptionConfiguration\n    resources:\n    \
         - {{resources: [secrets], providers: [{providers}]}}\n"
    )
}

#[test]
fn encryption_that_could_not_read_what_is_there_is_refused() {
    const ONE: &str = "{secretbox: {keys: [{name: one, secret: MQ==}]}}";
    const TWO: &str = "{secretbox: {keys: [{name: two, secret: Mg==}]}}";
    const ROTATED: &str = "{secretbox: {keys: [{name: two, secret: Mg==}, {name: one, secret: MQ==}]}}";
    const CLEAR: &str = "{identity: {}}";
    let after = |present: &str, wanted: &str| {
        let file = parse_file(Path::new("c.yaml"), &format!("{HEADER}{}", encryption(wanted))).unwrap();
        let wanted = settings(flags(&[]), Some(file), with(present), None).unwrap().spec;
        check_conflict(&with(present), &wanted).map_err(|conflict| {
            let hints = conflict.hints().join("\n");
            format!("{conflict}\n{hints}")
        })
    };
    let both = format!("{ONE}, {CLEAR}");
    for (present, wanted) in
        [("", both.as_str()), (&both, &both), (&both, ONE), (ONE, ROTATED), (ONE, &format!("{CLEAR}, {ONE}"))]
    {
        assert_eq!(after(present, wanted), Ok(()), "{present} -> {wanted}");
    }
    for (present, wanted) in [("", ONE), (ONE, TWO), (&format!("{CLEAR}, {ONE}"), ONE), (ONE, CLEAR)] {
        let error = after(present, wanted).unwrap_err();
        assert!(error.contains("apiServer.encryptionConfig") && error.contains("secrets"), "{error}");
        assert!(error.contains("behind the one that is to write"), "{error}");
        assert!(!error.contains("MQ==") && !error.contains("Mg=="), "a key: {error}");
    }
    // A new cluster has nothing in the clear.
    assert_eq!(
        with(ONE).api_server.encryption_config.is_some(),
        base().api_server.encryption_config.is_none()
    );
}
