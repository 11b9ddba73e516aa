//! Certificates as OpenSSL sees them, and CAs that OpenSSL made. Real `openssl`, real files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use hoist_phases::pki::{
    CERTS, CommonName, Pki, PkiError, PkiInputs, Purpose, Reconciled, San, SanRule, reconcile,
};
use hoist_phases::ports::Files;
use time::OffsetDateTime;

mod users_ca;

fn inputs() -> PkiInputs {
    let sans = |texts: &[&str]| texts.iter().map(|text| San::parse(text).unwrap()).collect();
    PkiInputs {
        host_name: "hoist-t".to_owned(),
        api_server: sans(&["kubernetes", "localhost", "*.example.com", "127.0.0.1", "fd00::1", "10.96.0.1"]),
        etcd: sans(&["localhost", "127.0.0.1"]),
        konnectivity: sans(&["192.168.66.2"]),
    }
}

fn run(files: &Files) -> Result<Reconciled, PkiError> {
    reconcile(files, &inputs(), OffsetDateTime::now_utc())
}

/// A directory with the files of a run, and `openssl` at work in it.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(pki: &Pki) -> Self {
        let dir = Self::new();
        for spec in CERTS {
            dir.write(&format!("{}.crt", spec.base), pki.cert(spec.id));
            dir.write(&format!("{}.key", spec.base), pki.key(spec.id));
        }
        dir.write("sa.key", pki.service_account_key());
        dir.write("sa.pub", pki.service_account_public());
        dir
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }

    fn try_openssl(&self, arguments: &[&str]) -> Output {
        Command::new("openssl")
            .args(arguments)
            .current_dir(self.path())
            .output()
            .expect("openssl must be installed for these tests")
    }

    /// What `openssl` writes; it must succeed.
    fn openssl(&self, arguments: &str) -> String {
        let output = self.try_openssl(&arguments.split_whitespace().collect::<Vec<_>>());
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "openssl {arguments}: {out}{err}");
        out.into_owned()
    }
}

#[test]
fn chains_and_purposes_hold() {
    let dir = Dir::with(&run(&Files::new()).unwrap().pki);
    for spec in CERTS {
        let base = spec.base;
        let ca = spec.issuer.unwrap_or(spec.id).spec().base;
        let verify = |purpose: &str| {
            let wanted = format!("{base}.crt");
            let trust = format!("{ca}.crt");
            let strict = ["verify", "-x509_strict", "-CAfile", &trust, "-purpose", purpose, &wanted];
            dir.try_openssl(&strict).status.success()
        };
        for (purpose, holds) in
            [("sslserver", spec.purpose.is_server()), ("sslclient", spec.purpose.is_client())]
        {
            if spec.purpose != Purpose::Ca {
                assert_eq!(verify(purpose), holds, "{base} as {purpose}");
            }
        }
        assert!(spec.purpose != Purpose::Ca || verify("any"), "{base}");
        for other in CERTS.iter().filter(|other| other.purpose == Purpose::Ca && other.base != ca) {
            let trust = format!("{}.crt", other.base);
            let accepted =
                dir.try_openssl(&["verify", "-CAfile", &trust, &format!("{base}.crt")]).status.success();
            assert!(!accepted, "{base} is accepted by {trust}");
        }
    }
}

#[test]
fn keys_belong_to_their_certificates_and_are_p256() {
    let dir = Dir::with(&run(&Files::new()).unwrap().pki);
    let mut seen = BTreeMap::new();
    for spec in CERTS {
        let public = dir.openssl(&format!("x509 -in {}.crt -noout -pubkey", spec.base));
        assert_eq!(dir.openssl(&format!("pkey -in {}.key -pubout", spec.base)), public, "{}", spec.base);
        let text = dir.openssl(&format!("pkey -in {}.key -noout -text_pub", spec.base));
        assert!(text.contains("prime256v1"), "{}: {text}", spec.base);
        let twin = seen.insert(public, spec.base);
        assert_eq!(twin, None, "{} shares its key", spec.base);
    }
    assert_eq!(dir.openssl("pkey -in sa.key -pubout").as_bytes(), dir.read("sa.pub"));
}

#[test]
fn openssl_reads_the_subject_names_and_usages_of_the_table() {
    let dir = Dir::with(&run(&Files::new()).unwrap().pki);
    for spec in CERTS {
        let base = spec.base;
        let common_name = match spec.common_name {
            CommonName::Fixed(name) => name,
            CommonName::HostName => "hoist-t",
        };
        let organization = spec.organization.map(|name| format!("O={name},")).unwrap_or_default();
        let subject = dir.openssl(&format!("x509 -in {base}.crt -noout -subject -nameopt RFC2253,-dn_rev"));
        assert_eq!(subject.trim(), format!("subject={organization}CN={common_name}"), "{base}");

        let text = dir.openssl(&format!("x509 -in {base}.crt -noout -text"));
        let has =
            |wanted: &str, yes: bool| assert_eq!(text.contains(wanted), yes, "{base}: {wanted}: {text}");
        let ca = spec.purpose == Purpose::Ca;
        has("X509v3 Key Usage: critical", true);
        has("Digital Signature, Certificate Sign, CRL Sign", ca);
        has("Key Encipherment", false);
        has("CA:TRUE", ca);
        has("CA:FALSE", !ca);
        has("TLS Web Server Authentication", spec.purpose.is_server());
        has("TLS Web Client Authentication", spec.purpose.is_client());
        has("X509v3 Authority Key Identifier", true);
        has("X509v3 Subject Key Identifier", true);
        has("X509v3 Subject Alternative Name", spec.sans != SanRule::None);
    }
    for (kind, name, valid) in [
        ("-verify_hostname", "localhost", true),
        ("-verify_hostname", "api.example.com", true),
        ("-verify_hostname", "example.org", false),
        ("-verify_ip", "127.0.0.1", true),
        ("-verify_ip", "fd00::1", true),
        ("-verify_ip", "10.96.0.1", true),
        ("-verify_ip", "10.96.0.2", false),
    ] {
        let output = dir.try_openssl(&["verify", "-CAfile", "ca.crt", kind, name, "apiserver.crt"]);
        assert_eq!(output.status.success(), valid, "{name}");
    }
}

#[test]
fn k8s_76714_lifetimes_are_back_dated_by_five_minutes_and_end_after_one_or_ten_years() {
    let dir = Dir::with(&run(&Files::new()).unwrap().pki);
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for spec in CERTS {
        let ends_within = |seconds: i64| {
            let file = format!("{}.crt", spec.base);
            let checked = ["x509", "-in", &file, "-noout", "-checkend", &seconds.to_string()];
            !dir.try_openssl(&checked).status.success()
        };
        let days = if spec.purpose == Purpose::Ca { 3650 } else { 365 };
        assert!(!ends_within(days * 86_400 - 60) && ends_within(days * 86_400 + 60), "{}", spec.base);

        let valid_at = |when: i64| {
            let ca = format!("{}.crt", spec.issuer.unwrap_or(spec.id).spec().base);
            let at = when.to_string();
            let file = format!("{}.crt", spec.base);
            dir.try_openssl(&["verify", "-CAfile", &ca, "-attime", &at, &file]).status.success()
        };
        assert!(valid_at(now - 240) && !valid_at(now - 360), "{}", spec.base);
    }
}

#[test]
fn the_ca_hash_is_what_kubeadms_documentation_computes() {
    let pki = run(&Files::new()).unwrap().pki;
    let dir = Dir::with(&pki);
    dir.write("ca.pub", dir.openssl("x509 -in ca.crt -noout -pubkey").as_bytes());
    dir.openssl("pkey -pubin -in ca.pub -outform DER -out ca.spki");
    let digest = dir.openssl("dgst -sha256 -r ca.spki");
    let hash = digest.split_whitespace().next().unwrap();
    assert_eq!(pki.ca_cert_hash(), format!("sha256:{hash}"));
}
