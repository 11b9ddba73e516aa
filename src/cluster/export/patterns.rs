//! What looks like a secret, by its form or by the name of the field that it is the value of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::redact::REDACTED;

/// Ends of the names of fields and variables whose values are secret, in small letters and without
/// what joins words.
const NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "clientkeydata",
    "privatekey",
    "accesskey",
    "secretkey",
    "apikey",
    "credential",
    "credentials",
    "authorization",
    "bearer",
];

/// A shorter word after `Bearer` is rather one of a sentence.
const SHORTEST_BEARER: usize = 16;

const PEM: (&str, &str, &str) = ("-----BEGIN ", "PRIVATE KEY-----", "-----END ");

/// How PEM begins in Base64.
const PEM_BASE64: &str = "LS0tLS1CRUdJTi";

/// How the header of a JSON Web Token begins in Base64: `{"`.
const JWT: &str = "eyJ";

/// `--token`, `clientSecret`, `DB_PASSWORD`; not what only names a Secret, or a file or kind of token.
pub(super) fn names_a_secret(name: &str) -> bool {
    let joins = |c: &char| c.is_whitespace() || matches!(c, '"' | '\'' | '-' | '_' | '.');
    let name: String = name.chars().filter(|c| !joins(c)).collect::<String>().to_lowercase();
    NAMES.iter().any(|word| name.ends_with(word))
}

pub(super) fn private_keys(text: &str) -> String {
    let (begin, kind, end) = PEM;
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(kind) {
        let start = rest[..at].rfind(begin).unwrap_or(at);
        let after = &rest[at + kind.len()..];
        clean.push_str(&rest[..start]);
        clean.push_str(REDACTED);
        // One that is cut short goes to the end.
        let stop = after.find(end).and_then(|stop| Some(stop + after[stop..].find(kind)? + kind.len()));
        rest = &after[stop.unwrap_or(after.len())..];
    }
    clean.push_str(rest);
    clean
}

/// Words that can only be a token or an encoded key.
pub(super) fn words(text: &str) -> String {
    let of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '/' | '=');
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = "";
    while let Some(start) = rest.find(of_word) {
        let word = rest[start..].split(|c| !of_word(c)).next().unwrap_or_default();
        clean.push_str(&rest[..start]);
        // `--token=…` is one word.
        let (name, value) = word.split_once('=').filter(|(_, v)| is_secret(v)).unwrap_or(("", word));
        match is_secret(value) || authorizes(before, value) {
            true if name.is_empty() => clean.push_str(REDACTED),
            true => {
                clean.push_str(name);
                clean.push('=');
                clean.push_str(REDACTED);
            }
            false => clean.push_str(word),
        }
        before = word;
        rest = &rest[start + word.len()..];
    }
    clean.push_str(rest);
    clean
}

/// What follows the scheme in the header `Authorization` (RFC 7617, RFC 6750).
fn authorizes(scheme: &str, word: &str) -> bool {
    let user = || STANDARD.decode(word).is_ok_and(|decoded| decoded.contains(&b':'));
    let of_letters = || word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
    (scheme.eq_ignore_ascii_case("bearer") && word.len() >= SHORTEST_BEARER && !of_letters())
        || (scheme.eq_ignore_ascii_case("basic") && user())
}

fn is_secret(word: &str) -> bool {
    let lower = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    // Names of events end in as many hexadecimal digits. A token of those alone is known as the cluster's.
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let bootstrap = word.split_once('.').is_some_and(|(id, secret)| {
        id.len() == 6 && secret.len() == 16 && lower(id) && lower(secret) && !hex(secret)
    });
    let jwt = word.starts_with(JWT) && word.split('.').count() == 3;
    let key = || {
        let whole = &word[..word.len() - word.len() % 4];
        let decoded = STANDARD.decode(whole.get(..64).unwrap_or(whole)).unwrap_or_default();
        String::from_utf8_lossy(&decoded).contains(PEM.1.trim_end_matches('-'))
    };
    bootstrap || jwt || word.starts_with(PEM_BASE64) && key()
}
