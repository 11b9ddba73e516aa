//! `hoist doctor` on this machine, and with the shared cluster. What each check makes of a value is tested beside it.

use serde_json::Value;

use crate::support::{Done, Hoist, alone, calm};

/// What each check came to, by its id.
fn checks(done: &Done) -> Vec<Value> {
    serde_json::from_str(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", done.stdout, done.stderr))
}

fn check<'a>(checks: &'a [Value], id: &str) -> &'a Value {
    checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no check {id}"))
}

#[test]
fn of_a_healthy_cluster_no_check_fails_and_everything_is_found_out() {
    let (shared, _calm) = calm();
    let done = shared.hoist.run(&["doctor", "-o", "json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let checks = checks(&done);
    for check in &checks {
        assert_ne!(check["state"], "fail", "{check}");
        // Whether virtual machines run is asked in an image that need not be there.
        assert!(check["state"] != "unknown" || check["id"] == "kvm", "{check}");
    }
    for id in
        ["node-addresses", "node-clocks", "pending-csrs", "pending-pods", "cidr-overlap", "image-platforms"]
    {
        assert_eq!(check(&checks, id)["state"], "ok", "{}", check(&checks, id));
    }
    let proxies = check(&checks, "proxies")["reason"].to_string();
    assert!(proxies.contains("HTTPS_PROXY=http://127.0.0.1:9"), "{proxies}");
}

#[test]
fn a_request_for_a_certificate_that_waits_is_told() {
    let (shared, _alone) = alone();
    // Nobody signs for this signer.
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = rcgen::CertificateParams::new(Vec::new()).expect("parameters").serialize_request(&key);
    let pem = request.expect("a request").pem().expect("PEM");
    let object = serde_json::json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "nobody-answers"},
        "spec": {"request": base64(&pem), "signerName": "example.com/nobody", "usages": ["client auth"]},
    });
    shared.hoist.create(&object.to_string());
    let done = shared.hoist.run(&["doctor", "-o", "json"]);
    shared.hoist.kubectl(&["delete", "csr", "nobody-answers"]);
    assert_eq!(done.code, Some(0), "a warning changes no exit code: {}", done.stderr);
    let checks = checks(&done);
    let check = check(&checks, "pending-csrs");
    assert_eq!(check["state"], "warn");
    let finding = &check["findings"][0];
    assert!(finding["reason"].to_string().contains("nobody-answers"), "{finding}");
    assert!(finding["remedy"].to_string().contains("certificate approve nobody-answers"), "{finding}");
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn kwok_475_a_port_that_somebody_listens_on_is_told_before_up_meets_it() {
    let hoist = Hoist::new("doctor");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("an address");
    let config = hoist.config(&format!("listenAddress: {at}\nnodes: []\n"));
    let done = hoist.run(&["doctor", "--config", &config, "-o", "json"]);
    assert_eq!(done.code, Some(9), "{}", done.stderr);
    let found = checks(&done);
    assert_eq!(check(&found, "ports")["state"], "fail");
    assert!(check(&found, "ports")["findings"][0]["reason"].to_string().contains(&at.to_string()));
    assert!(found.iter().all(|check| check["scope"] == "host"), "there is no cluster");
    drop(listener);
    let done = hoist.run(&["doctor", "--config", &config, "-o", "json"]);
    assert_eq!(check(&checks(&done), "ports")["state"], "ok", "{}", done.stderr);
}
