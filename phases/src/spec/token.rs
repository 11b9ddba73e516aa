use std::fmt;

use serde::{Deserialize, Serialize};

/// A bootstrap token, `[a-z0-9]{6}.[a-z0-9]{16}` (Kubernetes documentation, "Authenticating with
/// Bootstrap Tokens"). Its secret half never appears in `Debug` or `Display`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BootstrapToken {
    id: String,
    secret: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenError {
    // The value is not repeated: a mistyped token is still nearly a secret.
    #[error("token: must look like abcdef.0123456789abcdef, that is [a-z0-9]{{6}}.[a-z0-9]{{16}}")]
    Malformed,
}

impl BootstrapToken {
    /// Checks a token given by the user.
    ///
    /// # Errors
    /// When it isn't of the documented form.
    pub fn parse(token: &str) -> Result<Self, TokenError> {
        let part =
            |s: &str, len| s.len() == len && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        match token.split_once('.') {
            Some((id, secret)) if part(id, 6) && part(secret, 16) => {
                Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
            }
            _ => Err(TokenError::Malformed),
        }
    }

    /// Makes a token from the operating system's random source.
    ///
    /// # Errors
    /// When the random source fails.
    pub fn generate() -> Result<Self, ring::error::Unspecified> {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let random = ring::rand::SystemRandom::new();
        let mut text = String::with_capacity(22);
        while text.len() < 22 {
            let [byte] = ring::rand::generate::<[u8; 1]>(&random)?.expose();
            // 252 is the largest multiple of 36 in a byte: rejecting the rest keeps letters equally likely.
            if byte < 252 {
                text.push(char::from(ALPHABET[usize::from(byte % 36)]));
            }
        }
        let (id, secret) = text.split_at(6);
        Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// The public half: names the Secret and the signature in cluster-info.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The whole token, for a place that is meant to hold it.
    pub fn expose(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.<secret>", self.id)
    }
}

impl TryFrom<String> for BootstrapToken {
    type Error = TokenError;
    fn try_from(token: String) -> Result<Self, TokenError> {
        Self::parse(&token)
    }
}

impl From<BootstrapToken> for String {
    fn from(token: BootstrapToken) -> Self {
        token.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tokens_are_valid_and_differ() {
        let make = || BootstrapToken::generate().map(|token| token.expose());
        let (one, two) = (make().unwrap_or_default(), make().unwrap_or_default());
        assert!(BootstrapToken::parse(&one).is_ok());
        assert_ne!(one, two);
    }

    #[test]
    fn refuses_other_forms_without_echoing_them() {
        for bad in ["", "zzzzzz", "ABCDEF.1234567890123456", "abcdef.999", "abcdef.12345678901234567"] {
            let error = BootstrapToken::parse(bad).map(|_| ()).map_err(|e| e.to_string());
            assert!(error.as_ref().is_err_and(|e| bad.is_empty() || !e.contains(bad)), "{bad}: {error:?}");
        }
    }

    #[test]
    fn debug_hides_the_secret() {
        let token = BootstrapToken::parse("abcdef.1234567890123456");
        assert_eq!(token.map(|t| format!("{t:?}")), Ok("abcdef.<secret>".to_owned()));
    }
}
