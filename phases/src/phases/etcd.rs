//! etcd: a single member on the loopback of the shared namespace, TLS with client certificates.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers;
use crate::phases::flags::Flags;
use crate::phases::network::{ETCD_DATA, etcd_data};
use crate::phases::{Context, control_plane};
use crate::pki::CONTAINER_PKI_DIR;
use crate::ports::{ContainerSpec, FileEntry};
use crate::spec::{ClusterSpec, Component};

pub(super) const CLIENT_PORT: u16 = 2379;
pub(super) const PEER_PORT: u16 = 2380;
pub(super) const METRICS_PORT: u16 = 2381;

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let files = cx.outputs.pki.get()?.files_for(Component::Etcd);
        let spec = container(&cx.spec, files, cx.outputs.network.get()?.nofile);
        let role = Component::Etcd.name();
        let changed = containers::reconcile(&cx.ports.runtime, &cx.spec.name, role, spec).await?;
        cx.outputs.etcd.set(());
        // Whether it serves is seen by the API server, which waits for it and says so.
        Ok(Outcome::changed(changed))
    }
    .boxed()
}

/// Its container, with these keys.
pub(super) fn container(spec: &ClusterSpec, files: Vec<FileEntry>, nofile: u64) -> ContainerSpec {
    let mut container = control_plane::container(spec, Component::Etcd, flags(spec), files, nofile);
    container.mounts.push(etcd_data(spec));
    container
}

/// Flags of etcd 3.6 and 3.7 (etcd.io, "Configuration options").
pub(super) fn flags(spec: &ClusterSpec) -> Flags {
    let pki = format!("{CONTAINER_PKI_DIR}/etcd");
    let client = format!("https://127.0.0.1:{CLIENT_PORT}");
    let peer = format!("https://127.0.0.1:{PEER_PORT}");
    let name = spec.host_name();
    let mut flags = Flags::new([
        ("name", name.clone()),
        // A subdirectory: etcd sets the mode of its data directory, and a mount point isn't its own.
        ("data-dir", format!("{ETCD_DATA}/member-data")),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("{name}={peer}")),
        ("listen-metrics-urls", format!("http://127.0.0.1:{METRICS_PORT}")),
        ("cert-file", format!("{pki}/server.crt")),
        ("key-file", format!("{pki}/server.key")),
        ("trusted-ca-file", format!("{pki}/ca.crt")),
        ("client-cert-auth", "true".to_owned()),
        ("peer-cert-file", format!("{pki}/server.crt")),
        ("peer-key-file", format!("{pki}/server.key")),
        ("peer-trusted-ca-file", format!("{pki}/ca.crt")),
        ("peer-client-cert-auth", "true".to_owned()),
        // etcd refuses writes at the quota; without one it would fill the tmpfs and die.
        ("quota-backend-bytes", spec.etcd.quota_bytes.to_string()),
    ]);
    if !spec.etcd.syncs() {
        flags.set("unsafe-no-fsync", "true");
    }
    flags.overridden_by(&spec.component(Component::Etcd).extra_args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::test_spec;

    #[test]
    fn the_quota_holds_for_a_durable_etcd_too() {
        let mut spec = test_spec();
        spec.etcd.quota_bytes = 5 << 30;
        for durable in [false, true] {
            spec.etcd.durable = durable;
            let args = flags(&spec).render();
            assert!(args.contains(&"--quota-backend-bytes=5368709120".to_owned()), "{args:?}");
            assert_eq!(args.contains(&"--unsafe-no-fsync=true".to_owned()), !durable);
        }
    }
}
