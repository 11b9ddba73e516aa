//! Certificates and kubeconfigs.
//!
//! [`CERTS`] lists every certificate of a cluster; [`reconcile()`] compares the files of the state
//! directory with it and issues what is missing or no longer fits; [`Pki`] hands each component
//! the keys that it uses. Nothing here reads or writes files, and nothing here signs for nodes:
//! that is kube-controller-manager's part.

mod bundle;
mod der;
mod error;
mod issue;
mod key;
mod kubeconfig;
mod reconcile;
pub mod rotation;
mod sans;
pub mod survey;
mod table;
#[cfg(test)]
mod tests;
mod x509;

pub use bundle::{CONTAINER_PKI_DIR, Pki};
pub use error::PkiError;
pub use issue::{BACKDATE, CA_LIFETIME, LEAF_LIFETIME};
pub use kubeconfig::{CLUSTER_NAME, EntryNames, Kubeconfig, KubeconfigError, Kubeconfigs};
pub use reconcile::{Action, RENEW_BEFORE, Reason, Reconciled, SA_KEY, SA_PUB, reconcile};
pub use sans::{PkiInputs, San, SanError};
pub use table::{
    CERTS, CLUSTER_ADMINS, CertId, CertSpec, CommonName, FRONT_PROXY_CLIENT, KONNECTIVITY_SERVER,
    KUBELET_CLIENT, Purpose, STEWARD, SYSTEM_MASTERS, SanRule, Use,
};
