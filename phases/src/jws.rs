//! Detached JSON Web Signatures, as `cluster-info` carries them.
//!
//! Only what token discovery needs: HS256 with the content left out (RFC 7515, appendix F),
//! byte for byte as the bootstrapsigner controller makes it, so that the controller finds nothing
//! to change. It isn't a general JOSE library and verifies nothing but its own form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use crate::spec::BootstrapToken;

/// Signs `content` with the secret half of `token`: `header..signature`.
///
/// The header's fields stand in alphabetical order; the signer compares text, not meaning.
pub fn sign_detached(content: &str, token: &BootstrapToken) -> String {
    // Nothing to escape: a token id is six letters or digits.
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, token.id()));
    let payload = URL_SAFE_NO_PAD.encode(content);
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.secret().as_bytes());
    let tag = hmac::sign(&key, format!("{header}.{payload}").as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

/// Whether `signature` is what [`sign_detached`] makes of `content`.
pub fn verify_detached(signature: &str, content: &str, token: &BootstrapToken) -> bool {
    sign_detached(content, token) == signature
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with Python's hmac module from the same inputs.
    const VECTOR: &str =
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..K1chermAQEq0rdqy-ehj0VDfmA_ytv8Wzh9g26FldrE";

    #[test]
    fn signs_as_others_do() -> Result<(), crate::spec::TokenError> {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef")?;
        assert_eq!(sign_detached("apiVersion: v1\n", &token), VECTOR);
        assert!(verify_detached(VECTOR, "apiVersion: v1\n", &token));
        Ok(())
    }

    #[test]
    fn refuses_other_content_and_tokens() -> Result<(), crate::spec::TokenError> {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef")?;
        assert!(!verify_detached(VECTOR, "apiVersion: v1", &token));
        for other in ["abcdef.0123456789abcdeg", "abcdeg.0123456789abcdef"] {
            assert!(!verify_detached(VECTOR, "apiVersion: v1\n", &BootstrapToken::parse(other)?), "{other}");
        }
        Ok(())
    }
}
