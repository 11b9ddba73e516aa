//! CAs and keys that a user brings, made by OpenSSL.

use hoist_phases::pki::{CERTS, CertId};
use hoist_phases::ports::Files;

use super::{Dir, run};

/// Makes a key with `make` (into `ca.key`) and a CA certificate for it.
fn users_ca(make: &[&str]) -> Dir {
    let dir = Dir::new();
    for step in make {
        dir.openssl(step);
    }
    let arguments = "req -x509 -new -key ca.key -days 30 -out ca.crt -subj /C=CH/O=Example/CN=Example-CA \
                     -addext keyUsage=critical,keyCertSign,cRLSign";
    dir.openssl(arguments);
    dir
}

fn files(dir: &Dir) -> Files {
    ["ca.crt", "ca.key"].map(|name| (format!("pki/{name}"), dir.read(name))).into()
}

/// kamaji#1249: keys in PKCS#8 or SEC1 were refused.
#[test]
fn kamaji_1249_a_users_ca_is_taken_in_every_encoding() {
    let cases: [(&str, &str, &[&str]); 9] = [
        ("RSA PKCS#1", "BEGIN RSA PRIVATE KEY", &["genrsa -traditional -out ca.key 2048"]),
        (
            "RSA PKCS#8",
            "BEGIN PRIVATE KEY",
            &["genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out ca.key"],
        ),
        (
            "P-256 SEC1 after its parameters",
            "BEGIN EC PARAMETERS",
            &["ecparam -name prime256v1 -genkey -out ca.key"],
        ),
        ("P-256 SEC1", "BEGIN EC PRIVATE KEY", &["ecparam -name prime256v1 -genkey -noout -out ca.key"]),
        (
            "P-256 SEC1 without the public point",
            "BEGIN EC PRIVATE KEY",
            &["ecparam -name prime256v1 -genkey -noout -out a.key", "ec -in a.key -no_public -out ca.key"],
        ),
        (
            "P-256 PKCS#8",
            "BEGIN PRIVATE KEY",
            &["genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ca.key"],
        ),
        (
            "P-256 PKCS#8 without the public point",
            "BEGIN PRIVATE KEY",
            &[
                "ecparam -name prime256v1 -genkey -noout -out a.key",
                "ec -in a.key -no_public -out b.key",
                "pkcs8 -topk8 -nocrypt -in b.key -out ca.key",
            ],
        ),
        ("P-384 SEC1", "BEGIN EC PRIVATE KEY", &["ecparam -name secp384r1 -genkey -noout -out ca.key"]),
        (
            "P-384 PKCS#8",
            "BEGIN PRIVATE KEY",
            &["genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out ca.key"],
        ),
    ];
    for (case, label, make) in cases {
        let dir = users_ca(make);
        let given = files(&dir);
        assert!(
            String::from_utf8_lossy(&given["pki/ca.key"]).contains(label),
            "{case} is not what was meant"
        );
        let pki = run(&given).unwrap_or_else(|error| panic!("{case}: {error}")).pki;
        assert_eq!(
            (pki.cert(CertId::Ca), pki.key(CertId::Ca)),
            (&*given["pki/ca.crt"], &*given["pki/ca.key"])
        );
        let issued = Dir::with(&pki);
        for spec in CERTS.iter().filter(|spec| spec.issuer == Some(CertId::Ca)) {
            issued.openssl(&format!("verify -CAfile ca.crt {}.crt", spec.base));
        }
    }
}

#[test]
fn keys_that_can_not_sign_here_are_refused_by_name() {
    let cases: [(&str, &str, &[&str]); 5] = [
        ("RSA of 1024 bits", "unsupported private key", &["genrsa -out ca.key 1024"]),
        ("P-521", "unsupported private key", &["ecparam -name secp521r1 -genkey -noout -out ca.key"]),
        ("Ed25519", "unsupported private key", &["genpkey -algorithm ED25519 -out ca.key"]),
        (
            "PKCS#8 with a passphrase",
            "is encrypted",
            &["genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes128 -pass pass:x -out secret.key"],
        ),
        (
            "PKCS#1 with a passphrase",
            "is encrypted",
            &["genrsa -traditional -aes128 -passout pass:x -out secret.key 2048"],
        ),
    ];
    let plain = "ecparam -name prime256v1 -genkey -noout -out ca.key";
    for (case, message, make) in cases {
        let encrypted = message == "is encrypted";
        let dir = if encrypted { users_ca(&[plain, make[0]]) } else { users_ca(make) };
        let mut given = files(&dir);
        if encrypted {
            given.insert("pki/ca.key".to_owned(), dir.read("secret.key"));
        }
        let error = run(&given).expect_err(case).to_string();
        assert!(error.starts_with("reading pki/ca.key: ") && error.contains(message), "{case}: {error}");
    }
}

#[test]
fn another_cas_key_is_a_mismatch_with_or_without_its_public_point() {
    let given = files(&users_ca(&["ecparam -name prime256v1 -genkey -noout -out ca.key"]));
    let other = users_ca(&[
        "ecparam -name prime256v1 -genkey -noout -out ca.key",
        "ec -in ca.key -no_public -out bare.key",
        "genrsa -traditional -out rsa.key 2048",
    ]);
    for key in ["ca.key", "bare.key", "rsa.key"] {
        let mut given = given.clone();
        given.insert("pki/ca.key".to_owned(), other.read(key));
        let error = run(&given).expect_err(key).to_string();
        assert_eq!(error, "using pki/ca.crt: the key in pki/ca.key is not the one it was made for", "{key}");
    }
}

#[test]
fn leaves_name_their_issuer_byte_for_byte_whatever_its_subject() {
    let subjects = [
        "/DC=com/DC=example/CN=Example-CA",
        "/O=A/OU=B/OU=C+CN=D",
        "/CN=a/emailAddress=ca@example.com",
        "/CN=\u{e4}\u{1f40b}",
    ];
    for subject in subjects {
        let dir = Dir::new();
        dir.openssl("ecparam -name prime256v1 -genkey -noout -out ca.key");
        let make = [
            "req",
            "-x509",
            "-new",
            "-utf8",
            "-multivalue-rdn",
            "-key",
            "ca.key",
            "-days",
            "30",
            "-out",
            "ca.crt",
            "-addext",
            "keyUsage=critical,keyCertSign",
        ];
        let made = dir.try_openssl(&[&make[..], &["-subj", subject]].concat());
        assert!(made.status.success(), "{subject}: {}", String::from_utf8_lossy(&made.stderr));
        let issued = Dir::with(&run(&files(&dir)).unwrap_or_else(|error| panic!("{subject}: {error}")).pki);
        issued.openssl("verify -x509_strict -CAfile ca.crt apiserver.crt admin.crt scheduler.crt");
        let again = run(&stored(&issued)).unwrap();
        assert_eq!(again.write.len(), 0, "{subject}: {again:?}");
    }
}

/// The files that [`Dir::with`] wrote, as the state directory would have them.
fn stored(dir: &Dir) -> Files {
    let names = CERTS.iter().flat_map(|spec| ["crt", "key"].map(|end| format!("{}.{end}", spec.base)));
    let names = names.chain(["sa.key".to_owned(), "sa.pub".to_owned()]);
    names.map(|name| (format!("pki/{name}"), dir.read(&name))).collect()
}

#[test]
fn a_service_account_key_of_the_user_is_taken_in_every_encoding() {
    for make in
        ["genrsa -traditional -out sa.key 2048", "ecparam -name prime256v1 -genkey -noout -out sa.key"]
    {
        let dir = Dir::new();
        dir.openssl(make);
        let pki = run(&[("pki/sa.key".to_owned(), dir.read("sa.key"))].into()).unwrap().pki;
        assert_eq!(pki.service_account_key(), dir.read("sa.key"), "{make}");
        let public = dir.openssl("pkey -in sa.key -pubout");
        assert_eq!(String::from_utf8_lossy(pki.service_account_public()), public, "{make}");
    }
}
