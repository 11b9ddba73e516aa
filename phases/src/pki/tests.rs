//! The table, and what becomes of certificates when their surroundings change.

use std::collections::{BTreeMap, BTreeSet};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::x509::Parsed;
use super::*;
use crate::ports::Files;

type TestResult = Result<(), Box<dyn std::error::Error>>;

const NOW: OffsetDateTime = datetime!(2030-01-01 12:00 UTC);

fn inputs() -> PkiInputs {
    let sans = |texts: &[&str]| texts.iter().filter_map(|text| San::parse(text).ok()).collect();
    PkiInputs {
        host_name: "hoist-t".to_owned(),
        api_server: sans(&["kubernetes", "localhost", "127.0.0.1", "::1", "10.96.0.1"]),
        etcd: sans(&["localhost", "127.0.0.1"]),
        konnectivity: sans(&["192.168.66.2"]),
    }
}

fn run(files: &Files, now: OffsetDateTime) -> Result<Reconciled, PkiError> {
    reconcile(files, &inputs(), now)
}

/// The state directory after a run that began with `files`.
fn after(files: &Files, reconciled: &Reconciled) -> Files {
    let mut files = files.clone();
    files.extend(reconciled.write.iter().cloned());
    files
}

fn fresh() -> Result<Files, PkiError> {
    Ok(after(&Files::new(), &run(&Files::new(), NOW)?))
}

/// Everything but what was kept.
fn changed(reconciled: &Reconciled) -> BTreeMap<CertId, Action> {
    reconciled.actions.iter().copied().filter(|(_, action)| *action != Action::Kept).collect()
}

fn leaves_of(ca: CertId) -> BTreeSet<CertId> {
    CERTS.iter().filter(|spec| spec.issuer == Some(ca)).map(|spec| spec.id).collect()
}

/// A CA as a user might bring it.
fn users_ca(change: impl FnOnce(&mut CertificateParams)) -> Result<(Vec<u8>, Vec<u8>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Example Ltd");
    params.distinguished_name.push(DnType::CommonName, "Example CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = NOW - Duration::days(1);
    params.not_after = NOW + Duration::days(1000);
    change(&mut params);
    Ok((params.self_signed(&key)?.pem().into_bytes(), key.serialize_pem().into_bytes()))
}

fn with_ca(cert: &[u8], key: &[u8]) -> Files {
    [("pki/ca.crt", cert), ("pki/ca.key", key)].map(|(path, pem)| (path.to_owned(), pem.to_vec())).into()
}

#[test]
fn every_row_becomes_what_it_says() -> TestResult {
    let expected: [(&str, &str, &str, &str, &str); 15] = [
        ("ca", "kubernetes", "", "", "ca"),
        ("front-proxy-ca", "front-proxy-ca", "", "", "ca"),
        ("etcd/ca", "etcd-ca", "", "", "ca"),
        ("apiserver", "kube-apiserver", "", "ca", "server"),
        ("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "", "ca", "client"),
        ("front-proxy-client", "front-proxy-client", "", "front-proxy-ca", "client"),
        ("etcd/server", "hoist-t", "", "etcd/ca", "server client"),
        ("apiserver-etcd-client", "kube-apiserver-etcd-client", "", "etcd/ca", "client"),
        ("admin", "kubernetes-admin", "kubeadm:cluster-admins", "ca", "client"),
        ("super-admin", "kubernetes-super-admin", "system:masters", "ca", "client"),
        ("controller-manager", "system:kube-controller-manager", "", "ca", "client"),
        ("scheduler", "system:kube-scheduler", "", "ca", "client"),
        ("konnectivity-server", "konnectivity-server", "", "ca", "server"),
        ("konnectivity-client", "system:konnectivity-server", "", "ca", "client"),
        ("steward", "hoist:steward", "", "ca", "client"),
    ];
    let pki = run(&Files::new(), NOW)?.pki;
    assert_eq!(CERTS.len(), expected.len());
    for (spec, (base, name, organization, issuer, purpose)) in CERTS.iter().zip(expected) {
        let cert = Parsed::read(base, pki.cert(spec.id))?;
        assert_eq!(spec.base, base);
        assert_eq!(cert.common_name, name, "{base}");
        assert_eq!(cert.organizations.concat(), organization, "{base}");
        assert_eq!(spec.issuer.map(CertId::spec).map_or("", |ca| ca.base), issuer, "{base}");
        let ca = spec.issuer.unwrap_or(spec.id);
        assert!(cert.is_signed_by(&Parsed::read("", pki.cert(ca))?), "{base}");

        let (_, read) = X509Certificate::from_der(&cert.der)?;
        let usage = read.key_usage()?.map(|usage| (usage.critical, usage.value.to_string()));
        let extended =
            read.extended_key_usage()?.map(|usage| (usage.value.server_auth, usage.value.client_auth));
        let (bits, wanted) = match purpose {
            "ca" => ("Digital Signature, Key Cert Sign, CRL Sign", None),
            _ => ("Digital Signature", Some((purpose.contains("server"), purpose.contains("client")))),
        };
        assert_eq!(usage, Some((true, bits.to_owned())), "{base}");
        assert_eq!(extended, wanted, "{base}");
        assert_eq!(read.is_ca(), purpose == "ca", "{base}");

        let lifetime = if purpose == "ca" { Duration::days(3650) } else { Duration::days(365) };
        assert_eq!(cert.not_before, NOW - Duration::minutes(5), "{base}");
        assert_eq!(cert.not_after, NOW + lifetime, "{base}");
        let sans = match base {
            "apiserver" => inputs().api_server,
            "etcd/server" => inputs().etcd,
            "konnectivity-server" => inputs().konnectivity,
            _ => BTreeSet::new(),
        };
        assert_eq!(cert.sans, sans, "{base}");
    }
    Ok(())
}

#[test]
fn a_second_run_writes_nothing() -> TestResult {
    let files = fresh()?;
    let again = run(&files, NOW + Duration::days(300))?;
    assert_eq!((again.write.len(), changed(&again)), (0, BTreeMap::new()));
    Ok(())
}

/// kamaji#641: the certificate was kept when the names changed.
#[test]
fn kamaji_641_changed_names_reissue_that_leaf_alone() -> TestResult {
    let files = fresh()?;
    for change in ["added", "removed"] {
        let mut inputs = inputs();
        match change {
            "added" => inputs.api_server.extend(San::parse("api.example.com").ok()),
            _ => inputs.api_server.retain(|san| *san != San::Dns("localhost".to_owned())),
        }
        let reconciled = reconcile(&files, &inputs, NOW)?;
        let wanted = [(CertId::ApiServer, Action::Reissued(Reason::NamesChanged))].into();
        assert_eq!(changed(&reconciled), wanted, "{change}");
        let paths: Vec<_> = reconciled.write.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["pki/apiserver.key", "pki/apiserver.crt"], "{change}");
        assert_eq!(Parsed::read("", reconciled.pki.cert(CertId::ApiServer))?.sans, inputs.api_server);
    }
    Ok(())
}

#[test]
fn a_leaf_is_renewed_in_its_last_month_and_no_sooner() -> TestResult {
    let files = fresh()?;
    let end = NOW + LEAF_LIFETIME;
    assert_eq!(changed(&run(&files, end - RENEW_BEFORE)?), BTreeMap::new());
    for now in [end - RENEW_BEFORE + Duration::SECOND, end + Duration::days(1)] {
        let reconciled = run(&files, now)?;
        let all: BTreeMap<_, _> = CERTS
            .iter()
            .filter(|spec| spec.issuer.is_some())
            .map(|spec| (spec.id, Action::Reissued(Reason::Expires)))
            .collect();
        assert_eq!(changed(&reconciled), all);
        assert_eq!(changed(&run(&after(&files, &reconciled), now)?), BTreeMap::new());
    }
    Ok(())
}

#[test]
fn a_leaf_never_outlives_its_ca_and_is_not_renewed_in_vain() -> TestResult {
    let end = NOW + Duration::days(10);
    let (cert, key) = users_ca(|params| params.not_after = end)?;
    let files = with_ca(&cert, &key);
    let first = run(&files, NOW)?;
    for id in leaves_of(CertId::Ca) {
        assert_eq!(Parsed::read("", first.pki.cert(id))?.not_after, end, "{id}");
    }
    assert_eq!(changed(&run(&after(&files, &first), NOW + Duration::days(5))?), BTreeMap::new());
    Ok(())
}

#[test]
fn a_changed_ca_reissues_what_it_signed() -> TestResult {
    let mut files = fresh()?;
    let (cert, key) = users_ca(|_| ())?;
    files.extend(with_ca(&cert, &key));
    let reconciled = run(&files, NOW)?;
    let wanted: BTreeMap<_, _> =
        leaves_of(CertId::Ca).into_iter().map(|id| (id, Action::Reissued(Reason::CaChanged))).collect();
    assert_eq!(changed(&reconciled), wanted);
    assert_eq!(reconciled.pki.cert(CertId::Ca), cert);
    assert_eq!(reconciled.pki.key(CertId::Ca), key);

    // Same name, other key: only the signature tells them apart.
    let (cert, key) = users_ca(|_| ())?;
    let mut files = after(&files, &reconciled);
    files.extend(with_ca(&cert, &key));
    assert_eq!(changed(&run(&files, NOW)?), wanted);
    Ok(())
}

#[test]
fn a_leaf_that_does_not_fit_is_issued_anew() -> TestResult {
    let files = fresh()?;
    let other = files.get("pki/scheduler.key").cloned().unwrap_or_default();
    let cert_of = |path: &str| files.get(path).cloned().unwrap_or_default();
    let (admin, scheduler) = ("pki/admin.crt", "pki/admin.key");
    // New content by path; `None` removes the file.
    type Changes = Vec<(&'static str, Option<Vec<u8>>)>;
    let cases: [(&str, Changes, Reason); 6] = [
        ("key lost", vec![(scheduler, None)], Reason::KeyMissing),
        ("key of another", vec![(scheduler, Some(other.clone()))], Reason::KeyMismatch),
        ("key cut short", vec![(scheduler, Some(other[..40].to_vec()))], Reason::KeyMismatch),
        ("certificate cut short", vec![(admin, Some(cert_of(admin)[..90].to_vec()))], Reason::Unreadable),
        ("no certificate", vec![(admin, Some(b"\n".to_vec()))], Reason::Unreadable),
        (
            "another's certificate and key",
            vec![(admin, Some(cert_of("pki/scheduler.crt"))), (scheduler, Some(other.clone()))],
            Reason::SubjectChanged,
        ),
    ];
    for (case, changes, reason) in cases {
        let mut files = files.clone();
        for (path, content) in changes {
            files.remove(path);
            files.extend(content.map(|content| (path.to_owned(), content)));
        }
        let reconciled = run(&files, NOW)?;
        assert_eq!(changed(&reconciled), [(CertId::Admin, Action::Reissued(reason))].into(), "{case}");
        assert_eq!(changed(&run(&after(&files, &reconciled), NOW)?), BTreeMap::new(), "{case}");
    }
    Ok(())
}

#[test]
fn a_ca_that_can_not_be_used_is_refused_by_name() -> TestResult {
    let (cert, key) = users_ca(|_| ())?;
    let (other, _) = users_ca(|_| ())?;
    let (expired, expired_key) = users_ca(|params| params.not_after = NOW - Duration::SECOND)?;
    let (early, early_key) = users_ca(|params| params.not_before = NOW + Duration::SECOND)?;
    let (leaf, leaf_key) = users_ca(|params| params.is_ca = IsCa::ExplicitNoCa)?;
    let (unsigning, unsigning_key) = users_ca(|params| params.key_usages = vec![KeyUsagePurpose::CrlSign])?;
    let (nameless, nameless_key) = users_ca(|params| params.distinguished_name = DistinguishedName::new())?;
    let two = [cert.clone(), other.clone()].concat();
    let encrypted =
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n".to_vec();
    let cases: [(&str, &[u8], &[u8]); 11] = [
        ("using pki/ca.crt: the CA expired at 2030-01-01 11:59:59", &expired, &expired_key),
        ("using pki/ca.crt: the CA is valid only from 2030-01-01 12:00:01", &early, &early_key),
        ("using pki/ca.crt: not a CA certificate", &leaf, &leaf_key),
        ("using pki/ca.crt: not a CA certificate", &unsigning, &unsigning_key),
        ("using pki/ca.crt: its subject", &nameless, &nameless_key),
        ("using pki/ca.crt: the key in pki/ca.key is not the one", &other, &key),
        ("reading pki/ca.crt: 2 certificates", &two, &key),
        ("reading pki/ca.crt: no certificate", &key, &key),
        ("reading pki/ca.key: no private key", &cert, &cert),
        ("reading pki/ca.key: not valid PEM", &cert, &key[..60]),
        ("reading pki/ca.key: the private key is encrypted", &cert, &encrypted),
    ];
    for (message, cert, key) in cases {
        let error = run(&with_ca(cert, key), NOW).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with(message), "wanted {message:?}, got {error:?}");
    }
    Ok(())
}

#[test]
fn half_a_ca_is_refused() -> TestResult {
    let (cert, key) = users_ca(|_| ())?;
    for missing in ["pki/ca.key", "pki/ca.crt", "pki/etcd/ca.key", "pki/front-proxy-ca.crt"] {
        let mut files = after(&with_ca(&cert, &key), &run(&with_ca(&cert, &key), NOW)?);
        files.remove(missing);
        let error = run(&files, NOW).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(missing) && error.contains("is missing"), "{missing}: {error:?}");
    }
    Ok(())
}

#[test]
fn the_service_account_key_is_kept_and_its_public_half_mended() -> TestResult {
    let files = fresh()?;
    for public in [None, Some(b"stale".to_vec())] {
        let mut files = files.clone();
        files.remove(SA_PUB);
        files.extend(public.map(|public| (SA_PUB.to_owned(), public)));
        let reconciled = run(&files, NOW)?;
        let wanted = files_of(&after(&files, &reconciled), SA_PUB);
        assert_eq!(reconciled.write, [(SA_PUB.to_owned(), wanted.clone())]);
        assert!(wanted.starts_with(b"-----BEGIN PUBLIC KEY-----"));
        assert_eq!(reconciled.pki.service_account_key(), files_of(&files, SA_KEY));
    }
    Ok(())
}

fn files_of(files: &Files, path: &str) -> Vec<u8> {
    files.get(path).cloned().unwrap_or_default()
}

#[test]
fn debug_shows_no_key() -> TestResult {
    let reconciled = run(&Files::new(), NOW)?;
    let kubeconfigs = Kubeconfigs::new(&reconciled.pki, ([127, 0, 0, 1], 40123).into(), 6443)?;
    let one = Kubeconfig::with_kubeadm_names(&reconciled.pki, CertId::Admin, "https://a:1");
    let shown = format!("{reconciled:?} {:?} {kubeconfigs:?} {one:?}", reconciled.pki);
    assert!(shown.contains("sha256:") && shown.contains("https://127.0.0.1:40123"));
    assert!(!shown.contains("PRIVATE") && !shown.contains("LS0t") && shown.len() < 4000, "{shown}");
    Ok(())
}
