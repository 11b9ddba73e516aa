//! etcd: a single member on the loopback of the shared namespace, TLS with client certificates.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers;
use crate::phases::flags::Flags;
use crate::phases::network::{ETCD_DATA, etcd_data};
use crate::phases::{Context, control_plane};
use crate::spec::{ClusterSpec, Component};

pub(super) const CLIENT_PORT: u16 = 2379;
pub(super) const PEER_PORT: u16 = 2380;
pub(super) const METRICS_PORT: u16 = 2381;

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let component = Component::Etcd;
        let mut spec = control_plane::container(
            &cx.spec,
            component,
            flags(&cx.spec),
            cx.outputs.pki.get()?.files_for(component),
            cx.outputs.network.get()?.nofile,
        );
        spec.mounts.push(etcd_data(&cx.spec));
        let changed = containers::reconcile(&cx.ports.runtime, &cx.spec.name, component.name(), spec).await?;
        // Whether it serves is seen by the API server, which waits for it and says so.
        Ok(Outcome::changed(changed))
    }
    .boxed()
}

/// Flags of etcd 3.6 (etcd.io, "Configuration options").
pub(super) fn flags(spec: &ClusterSpec) -> Flags {
    let pki = "/etc/kubernetes/pki/etcd";
    let client = format!("https://127.0.0.1:{CLIENT_PORT}");
    let peer = format!("https://127.0.0.1:{PEER_PORT}");
    let name = format!("hoist-{}", spec.name);
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
    ]);
    if !spec.etcd.durable {
        flags.set("unsafe-no-fsync", "true");
        // etcd refuses writes at the quota; without one it would fill the tmpfs and die.
        flags.set("quota-backend-bytes", spec.etcd.quota_bytes.to_string());
    }
    flags.overridden_by(&spec.component(Component::Etcd).extra_args)
}
