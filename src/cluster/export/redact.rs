//! Takes secrets out of what is exported: by what is known to be one, and by what looks like one.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::patterns::{names_a_secret, private_keys, words};

/// What stands in a secret's place.
pub(super) const REDACTED: &str = "[redacted]";

/// Bytes. A shorter text may be any word: taking it out everywhere would spoil what is left.
const SHORTEST: usize = 8;

/// Fields of Secrets that are public, by the end of their names.
const PUBLIC: [&str; 4] = [".crt", "namespace", "token-id", "expiration"];

/// Of a bootstrap token's Secret only this is one (the rest are user and group names, and uses).
const TOKEN_TYPE: (&str, &str) = ("bootstrap.kubernetes.io/token", "token-secret");

/// Knows the secrets of one cluster.
#[derive(Default)]
pub struct Redactor {
    known: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor of {} secrets", self.known.len())
    }
}

impl Redactor {
    /// Takes out this text wherever it stands.
    pub fn learn(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST && !self.known.iter().any(|known| known == secret) {
            self.known.push(secret.to_owned());
            // What contains another goes first.
            self.known.sort_by_key(|known| std::cmp::Reverse(known.len()));
        }
    }

    /// Takes out what Secrets hold, as it is and in Base64.
    pub fn learn_secrets(&mut self, secrets: &[Value]) {
        for secret in secrets {
            for (name, value) in secret["data"].as_object().into_iter().flatten() {
                let public = PUBLIC.iter().any(|end| name.ends_with(end));
                let other = secret["type"] == TOKEN_TYPE.0 && name != TOKEN_TYPE.1;
                let Some(encoded) = value.as_str().filter(|_| !public && !other) else { continue };
                let Ok(bytes) = STANDARD.decode(encoded) else { continue };
                // Of what is no text, these are the only forms that a text can have.
                if bytes.len() >= SHORTEST {
                    for form in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
                        self.learn(&form.encode(&bytes));
                    }
                }
                if let Ok(text) = String::from_utf8(bytes) {
                    self.learn(&text);
                }
            }
        }
    }

    /// A log, or any text that somebody wrote.
    pub fn text(&self, text: &str) -> String {
        let mut text = Cow::Borrowed(text);
        for known in &self.known {
            if text.contains(known.as_str()) {
                text = text.replace(known.as_str(), REDACTED).into();
            }
        }
        words(&private_keys(&text))
    }

    /// Settings, in YAML or as arguments: what fields with telling names hold goes too.
    pub fn settings(&self, text: &str) -> String {
        let lines = text.split_inclusive('\n').map(|line| match line.split_once([':', '=']) {
            Some((name, value)) if names_a_secret(name) && !value.trim().is_empty() => {
                let end = if line.ends_with('\n') { "\n" } else { "" };
                format!("{name}{} {REDACTED}{end}", &line[name.len()..=name.len()])
            }
            _ => line.to_owned(),
        });
        self.text(&lines.collect::<String>())
    }

    /// An object of the API, or whatever else is JSON: each of its texts, and what Secrets hold.
    pub fn object(&self, value: &mut Value) {
        if value["kind"] == "Secret" {
            for field in ["data", "stringData"] {
                for held in
                    value.get_mut(field).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
                {
                    *held = REDACTED.into();
                }
            }
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            // It is the whole object once more.
            let applied = "kubectl.kubernetes.io/last-applied-configuration";
            metadata.get_mut("annotations").and_then(Value::as_object_mut).map(|all| all.remove(applied));
        }
        self.each(value);
    }

    fn each(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.settings(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.each(item)),
            Value::Object(members) => {
                // A variable of a container.
                let secret = members.get("name").and_then(Value::as_str).is_some_and(names_a_secret);
                for (name, member) in members {
                    // Whatever they are called: `DSN` has a password in it.
                    if name == "env" {
                        literals(member);
                    }
                    match member {
                        Value::String(text) if (names_a_secret(name) || secret && name == "value") => {
                            *text = REDACTED.to_owned();
                        }
                        other => self.each(other),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Takes out the values of a container's variables; where they come from stays.
fn literals(env: &mut Value) {
    for variable in env.as_array_mut().into_iter().flatten() {
        if let Some(Value::String(value)) = variable.get_mut("value").filter(|value| **value != "") {
            *value = REDACTED.to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIA==\n-----END EC PRIVATE KEY-----\n";

    #[test]
    fn what_looks_like_a_secret_goes_and_the_rest_stays() {
        let redactor = Redactor::default();
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, clean) in [
            ("join with abcdef.0123456789uvwxyz now", "join with [redacted] now".to_owned()),
            ("--token=abcdef.0123456789uvwxyz", "--token=[redacted]".to_owned()),
            ("Bearer eyJhbGciOi.eyJpc3Mi.c2ln, he said", "Bearer [redacted], he said".to_owned()),
            (&format!("a\n{KEY}b"), "a\n[redacted]\nb".to_owned()),
            (&KEY[..40], "[redacted]".to_owned()),
            (&format!("client-key: {}", STANDARD.encode(KEY)), "client-key: [redacted]".to_owned()),
            (certificate, certificate.to_owned()),
            ("authorization: bearer 0123456789abcdef-x", "authorization: bearer [redacted]".to_owned()),
            ("Basic dXNlcjpwYXNz", "Basic [redacted]".to_owned()),
            ("bearer authentication-is basic", "bearer authentication-is basic".to_owned()),
            (&STANDARD.encode(certificate), STANDARD.encode(certificate)),
            ("node01.189d3ac5b7e2f046", "node01.189d3ac5b7e2f046".to_owned()),
            ("k8s.io/api v1.36.3 node01.hoist", "k8s.io/api v1.36.3 node01.hoist".to_owned()),
        ] {
            assert_eq!(redactor.text(text), clean, "{text}");
        }
    }

    #[test]
    fn what_a_secret_holds_is_known_everywhere() {
        let mut redactor = Redactor::default();
        let encoded = STANDARD.encode("correct horse");
        redactor.learn_secrets(&[
            json!({"kind": "Secret", "data": {"p": encoded, "ca.crt": STANDARD.encode("public text"), "s": "YWJj"}}),
            json!({"kind": "Secret", "type": TOKEN_TYPE.0, "data": {"auth-extra-groups": STANDARD.encode("system:nodes")}}),
        ]);
        let text = format!("said correct horse, {encoded}, public text, abc, system:nodes");
        assert_eq!(redactor.text(&text), "said [redacted], [redacted], public text, abc, system:nodes");
        redactor.learn("short");
        assert_eq!(redactor.text("short"), "short");
    }

    #[test]
    fn a_secret_that_is_no_text_is_known_by_its_base64() {
        let mut redactor = Redactor::default();
        let bytes = [0xff; 10];
        redactor.learn_secrets(&[json!({"kind": "Secret", "data": {"k": STANDARD.encode(bytes)}})]);
        for form in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
            assert_eq!(redactor.text(&format!("it is {}.", form.encode(bytes))), "it is [redacted].");
        }
    }

    #[test]
    fn fields_are_known_by_the_ends_of_their_names() {
        let redactor = Redactor::default();
        for name in [
            "aws_secret_access_key",
            "apiKey",
            "API-KEY",
            "credentials",
            "sshPassphrase",
            "Authorization",
            "proxy-bearer",
            "client-key-data",
            "private_key",
            "--token",
        ] {
            assert_eq!(redactor.settings(&format!("{name}: any\n")), format!("{name}: [redacted]\n"));
            let mut object = json!({"spec": {name: "any"}});
            redactor.object(&mut object);
            assert_eq!(object["spec"][name], REDACTED, "{name}");
        }
        for kept in ["secretName: any\n", "tokenFile: /a\n", "authorization-mode: RBAC\n", "authorization:\n"]
        {
            assert_eq!(redactor.settings(kept), kept);
        }
    }

    #[test]
    fn objects_keep_what_is_no_secret() {
        let redactor = Redactor::default();
        let mut secret = json!({"kind": "Secret", "metadata": {"name": "s", "managedFields": [1], "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{data: …}", "a": "b"}}, "data": {"k": "dmFsdWU="}});
        redactor.object(&mut secret);
        assert_eq!(
            secret,
            json!({"kind": "Secret", "metadata": {"name": "s", "annotations": {"a": "b"}}, "data": {"k": REDACTED}})
        );
        let mut map = json!({"kind": "ConfigMap", "data": {
            "kubeconfig": "users:\n- user:\n    token: very-secret\n    tokenFile: /a\n", "level": "password: \n"}});
        redactor.object(&mut map);
        assert_eq!(map["data"]["kubeconfig"], "users:\n- user:\n    token: [redacted]\n    tokenFile: /a\n");
        assert_eq!(map["data"]["level"], "password: \n");
        let mut pod = json!({"spec": {"containers": [{"env": [
            {"name": "DSN", "value": "db://a:b@c"}, {"name": "NONE", "value": ""},
            {"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}],
            "volumeMounts": [{"name": "token", "mountPath": "/t"}], "secretName": "s"}]}});
        redactor.object(&mut pod);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            container["env"],
            json!([{"name": "DSN", "value": REDACTED}, {"name": "NONE", "value": ""},
                {"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}])
        );
        assert_eq!(
            (&container["volumeMounts"][0]["mountPath"], &container["secretName"]),
            (&json!("/t"), &json!("s"))
        );
    }
}
