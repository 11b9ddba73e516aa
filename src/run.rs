//! The name of this run of the program: in each line of its log, each event and each export, so that
//! what belongs together is found again.

use std::sync::OnceLock;

use crate::digest;

/// Bytes of chance in it: two of a CI system's runs don't meet.
const BYTES: usize = 6;

/// The same as long as the process lives: twelve hexadecimal digits.
pub fn id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let mut bytes = [0; BYTES];
        // It names and protects nothing: without chance the process and its moment do.
        if ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).is_err() {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let seed = format!("{} {}", std::process::id(), now.as_nanos());
            return digest::of_bytes(seed.as_bytes()).chars().take(2 * BYTES).collect();
        }
        digest::hex(&bytes)
    })
}
