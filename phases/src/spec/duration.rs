use serde::{Deserialize, Serialize};

/// Lifetime of the bootstrap token in seconds; 24 hours by default, as kubeadm's (`kubeadm token create --ttl`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenTtl(pub u64);

impl Default for TokenTtl {
    fn default() -> Self {
        Self(24 * 60 * 60)
    }
}
