//! Certificates and kubeconfigs.

/// All keys and certificates of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Pki {}

/// The kubeconfig files of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Kubeconfigs {}
