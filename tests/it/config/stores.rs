//! Where the API's objects are kept.

use super::*;

/// PEM of no real key, with the name of the file before it, as a comment.
fn keys() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, kind) in [("ca", "CERTIFICATE"), ("cert", "CERTIFICATE"), ("key", "EC PRIVATE KEY")] {
        std::fs::write(
            dir.path().join(name),
            format!("{name}\n-----BEGIN {kind}-----\nMAA=\n-----END {kind}-----\n"),
        )
        .unwrap();
    }
    dir
}

#[test]
fn an_etcd_elsewhere_needs_its_endpoints_and_three_files() {
    let dir = keys();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (ca, cert, key) = (at("ca"), at("cert"), at("key"));
    let external = |prefix: &str| {
        format!(
            "etcd: {{external: {{endpoints: ['https://10.0.0.5:2379'], {prefix}ca: {ca}, cert: {cert}, key: {key}}}}}"
        )
    };
    let by_file = resolve(&[], Some(&external("prefix: /a, "))).unwrap();
    let given = [format!("--etcd-ca={ca}"), format!("--etcd-cert={cert}"), format!("--etcd-key={key}")];
    let given = given.iter().map(String::as_str);
    let given: Vec<_> = given.chain(["--etcd-endpoint=https://10.0.0.5:2379", "--etcd-prefix=/a"]).collect();
    let by_flag = resolve(&given, None).unwrap();
    assert_eq!(shown(&by_file), shown(&by_flag));
    let spec = by_file.spec;
    let etcd = spec.etcd.backend.external().unwrap();
    assert_eq!((etcd.prefix.as_str(), etcd.endpoints.len()), ("/a", 1));
    assert!(etcd.ca.contains("ca") && etcd.cert.contains("cert") && etcd.key.expose().contains("key"));
    assert!(!format!("{spec:?}").contains("EC PRIVATE"), "a key is never shown");
    let named = resolve(&[], Some(&external(""))).unwrap().spec;
    assert_eq!(named.etcd.backend.external().unwrap().prefix, "/hoist/t");

    // Once known, the keys stay; another endpoint needs no new cluster, another prefix does.
    let again = parse_file(
        Path::new("c.yaml"),
        &format!("{HEADER}etcd: {{external: {{endpoints: ['https://10.0.0.6:2379']}}}}"),
    );
    let again = settings(flags(&[]), Some(again.unwrap()), spec.clone(), None).unwrap().spec;
    assert_eq!(again.etcd.backend.external().unwrap().key, etcd.key);
    assert!(check_conflict(&spec, &again).is_ok());
    let other = parse_file(Path::new("c.yaml"), &format!("{HEADER}{}", external("prefix: /b, ")));
    let other = settings(flags(&[]), Some(other.unwrap()), spec.clone(), None).unwrap().spec;
    let fields = check_conflict(&spec, &other).unwrap_err().differences;
    assert_eq!(
        fields.iter().map(|difference| difference.field).collect::<Vec<_>>(),
        ["etcd.external.prefix"]
    );
}

#[test]
fn what_a_store_has_no_use_for_is_refused_by_name() {
    let wrong = |yaml: &str, fields: &[&str]| {
        let error = resolve(&[], Some(yaml)).unwrap_err();
        for field in fields {
            assert!(error.contains(field), "{field}: {error}");
        }
    };
    wrong("etcd: {backend: sqlite}", &["etcd.backend \"sqlite\": must be etcd or kine"]);
    wrong("etcd: {backend: kine, quota: 512Mi}", &["etcd.quota 512Mi: kine has no quota"]);
    wrong(
        "etcd: {external: {endpoints: ['http://10.0.0.5:2379']}}",
        &[
            "etcd.external.endpoints \"http://10.0.0.5:2379\": must be https://",
            "etcd.external.ca: must name a file",
            "etcd.external.cert: ",
            "etcd.external.key: ",
        ],
    );
    wrong(
        "etcd: {external: {ca: /nowhere/ca.crt}}",
        &[
            "etcd.external.ca \"/nowhere/ca.crt\": there is no such file",
            "etcd.external.endpoints: must name",
        ],
    );
    let dir = keys();
    let key = dir.path().join("key");
    wrong(&format!("etcd: {{external: {{ca: {}}}}}", key.display()), &["must hold certificates in PEM"]);
    wrong(
        "etcd: {durable: true, tmpfsSize: 2Gi, backend: kine, external: {prefix: nope}}",
        &[
            "etcd.backend kine: beside etcd.external",
            "etcd.durable true: beside etcd.external",
            "etcd.tmpfsSize 2Gi",
            "etcd.external.prefix \"nope\"",
        ],
    );
}

#[test]
fn kine_keeps_its_data_where_etcd_would() {
    let spec = resolve(&["--etcd-backend=kine", "--durable-etcd"], None).unwrap().spec;
    assert!(spec.etcd.durable && spec.runs(Component::Kine) && !spec.runs(Component::Etcd));
    let error = resolve(&[], Some("etcd: {backend: kine}\ncomponents: {kine: {memory: 512Mi}}")).unwrap_err();
    assert!(error.contains("components.kine.memory"), "{error}");
    let etcd = resolve(&[], None).unwrap().spec;
    let fields = check_conflict(&etcd, &resolve(&["--etcd-backend=kine"], None).unwrap().spec)
        .unwrap_err()
        .differences;
    assert_eq!(fields.iter().map(|difference| difference.field).collect::<Vec<_>>(), ["etcd.backend"]);
}

#[test]
fn a_durable_etcd_has_a_quota_of_its_own() {
    let quota = |base: ClusterSpec, yaml: &str| {
        let file = parse_file(Path::new("c.yaml"), &format!("{HEADER}{yaml}")).unwrap();
        settings(flags(&[]), Some(file), base, None).unwrap().spec
    };
    assert_eq!(quota(base(), "etcd: {durable: true}").etcd.quota_bytes, 2 << 30);
    let given = quota(base(), "etcd: {durable: true, quota: 5Gi}");
    assert_eq!(given.etcd.quota_bytes, 5 << 30);
    let again = quota(given, "etcd: {durable: true}");
    assert_eq!(again.etcd.quota_bytes, 5 << 30, "what a cluster has stays when nothing is said");
}

#[test]
fn project_infra_2815_a_quota_that_fills_the_file_system() {
    let error = resolve(&[], Some("etcd: {tmpfsSize: 1Gi, quota: 1Gi}")).unwrap_err();
    assert!(error.contains("etcd.quota 1024Mi") && error.contains("896Mi"), "{error}");
    assert!(resolve(&[], Some("etcd: {durable: true, quota: 8Gi}")).is_ok());
    let error = resolve(&[], Some("components: {etcd: {memory: 1Gi}}")).unwrap_err();
    assert!(error.contains("components.etcd.memory"), "{error}");
}
