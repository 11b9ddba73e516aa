//! What a node that has joined knows the cluster by, and is known by: made anew the way `kubeadm join` makes
//! it, by the kubelet's TLS bootstrap, while its pods run on.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::bootstrap_config::server;
use super::machines;
use crate::pki::{CONTAINER_PKI_DIR, CertId, Pki};
use crate::ports::{ExecOutput, Runtime, RuntimeError};
use crate::spec::{ClusterSpec, NodeSpec};

/// Time for the kubelet to ask for a certificate and get it signed.
const WITHIN: Duration = Duration::from_secs(120);

#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(
        "{node}: its kubelet got no new certificate and has the one from before again (exit code {code}); see `hoist \
         logs {node}` and try again: {output}"
    )]
    Refused { node: String, code: i64, output: String },
}

/// Lets a node trust the CAs that the cluster has now, and gets its kubelet a certificate that the present
/// one has signed. The cluster's bootstrap token has to be valid.
///
/// # Errors
/// When the node can't be reached, or its kubelet has no certificate within two minutes; it has the one from
/// before again then.
pub async fn renew(
    runtime: &dyn Runtime,
    spec: &ClusterSpec,
    node: &NodeSpec,
    pki: &Pki,
) -> Result<(), CredentialsError> {
    let run = async |script: &str, stdin: &[u8]| {
        let command = ["/bin/sh", "-euc", script];
        let ExecOutput { code, stdout, stderr } =
            machines::exec(runtime, &spec.name, node, &command, stdin).await?;
        let output = stdout + &stderr;
        let refused = || CredentialsError::Refused { node: node.name(), code, output };
        if code == 0 { Ok(()) } else { Err(refused()) }
    };
    let trusted = pki.trusted(CertId::Ca);
    run(&format!("cat >{CONTAINER_PKI_DIR}/ca.crt"), trusted).await?;
    run(&bootstrap(), kubeconfig(spec, trusted).as_bytes()).await
}

/// The kubelet turns to its bootstrap kubeconfig when its own names a certificate that isn't there, and writes its own
/// anew then (Kubernetes documentation, "TLS bootstrapping"; kubelet 1.36). The kubeconfig stays where it is all the
/// time: by it a node is known to have joined.
fn bootstrap() -> String {
    let tries = WITHIN.as_millis() / 50;
    format!(
        "umask 077; bootstrap=/etc/kubernetes/bootstrap-kubelet.conf; cd /var/lib/kubelet/pki; mkdir -p before; \
         trap 'rm -f $bootstrap; [ -e kubelet-client-current.pem ] || {{ mv before/* .; systemctl restart kubelet; }}; \
         rm -rf before' EXIT; cat >$bootstrap; \
         [ ! -e kubelet-client-current.pem ] || mv kubelet-client-* before; systemctl restart kubelet; \
         left={tries}; until [ -e kubelet-client-current.pem ]; do left=$((left - 1)); \
         [ $left -gt 0 ] || {{ journalctl --unit kubelet --lines 20 --no-pager >&2; exit 1; }}; sleep 0.05; done"
    )
}

/// As `kubeadm join` writes it, as JSON, which is YAML too.
fn kubeconfig(spec: &ClusterSpec, trusted: &[u8]) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "kubernetes",
            "cluster": { "certificate-authority-data": STANDARD.encode(trusted), "server": server(spec) },
        }],
        "users": [{ "name": "tls-bootstrap-token-user", "user": { "token": spec.token.expose() } }],
        "contexts": [{
            "name": "bootstrap",
            "context": { "cluster": "kubernetes", "user": "tls-bootstrap-token-user" },
        }],
        "current-context": "bootstrap",
    })
    .to_string()
}
