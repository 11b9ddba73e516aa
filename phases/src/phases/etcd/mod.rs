//! etcd: where the API's objects are kept. A single member of the cluster's own on the loopback of
//! the shared namespace, or kine in its place, both TLS with client certificates; or somebody else's,
//! which is only asked whether it answers.

pub(super) mod external;
mod kine;
mod tool;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::containers;
use crate::phases::flags::Flags;
use crate::phases::network::etcd_data;
use crate::phases::{Context, PhaseId, control_plane, wait};
use crate::pki::CONTAINER_PKI_DIR;
use crate::ports::{ContainerSpec, FileEntry};
use crate::spec::{Backend, ClusterSpec, Component};

pub use tool::{Tool, ToolError};

pub(super) const CLIENT_PORT: u16 = 2379;
pub(super) const PEER_PORT: u16 = 2380;
pub(super) const METRICS_PORT: u16 = 2381;

/// How long etcd may take to answer before nobody asks it for alarms.
const ALARM_DEADLINE: Duration = Duration::from_secs(10);

/// Where etcd's data lie in its volume: etcd sets the mode of its data directory, and a mount point
/// isn't its own.
pub const MEMBER: &str = "/var/lib/etcd/member-data";

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let network = cx.outputs.network.get()?;
        if let Some(external) = cx.spec.etcd.backend.external() {
            return external::check(cx, external).await;
        }
        let files = |component| Ok::<_, PhaseError>(cx.outputs.pki.get()?.files_for(component));
        let store = cx.spec.etcd.backend.component().map(files).transpose()?.unwrap_or_default();
        let Some((component, spec)) = container(&cx.spec, store, network.nofile) else {
            return Ok(Outcome::Unchanged);
        };
        let (role, name) = (component.name(), spec.name.clone());
        let was_there = cx.ports.runtime.inspect(&name).await?.is_some();
        let changed = containers::reconcile(&cx.ports.runtime, &cx.spec.name, role, spec).await?;
        if was_there && component == Component::Etcd && disarm(cx, &name).await? {
            cx.events.step(
                PhaseId::Etcd,
                "etcd was full; it takes writes again, as far as there is room".to_owned(),
            );
        }
        cx.outputs.etcd.set(());
        // Whether it serves is seen by the API server, which waits for it and says so.
        Ok(Outcome::changed(changed))
    }
    .boxed()
}

/// Takes back the alarm that etcd raised when it was full, and keeps up whatever quota it is given: past that it
/// raises it again at the next write. `true` when there was one. An image without the tool can't tell.
async fn disarm(cx: &Context, etcd: &str) -> Result<bool, PhaseError> {
    let runtime = &cx.ports.runtime;
    let ctl = async |command: &str| {
        let command = ["/usr/local/bin/etcdctl", "--command-timeout=3s", "alarm", command];
        runtime.exec(etcd, &command, &[]).await
    };
    let listed = wait::until(ALARM_DEADLINE, || async {
        // One that ends meanwhile, or never serves, is told of by those who wait for it.
        let Ok(output) = ctl("list").await else { return Ok(wait::Poll::Ready(String::new())) };
        Ok(match output.code {
            0 => wait::Poll::Ready(output.stdout),
            1 => wait::Poll::Pending(output.stderr),
            _ => wait::Poll::Ready(String::new()),
        })
    });
    // A disarm takes back all alarms, and data that is corrupt is for people to look at.
    let full = listed.await.is_ok_and(|alarms| alarms.contains("NOSPACE") && !alarms.contains("CORRUPT"));
    Ok(full && ctl("disarm").await?.code == 0)
}

/// The container of the store, with these keys; none when the store is somebody else's.
pub(super) fn container(
    spec: &ClusterSpec,
    files: Vec<FileEntry>,
    nofile: u64,
) -> Option<(Component, ContainerSpec)> {
    let component = spec.etcd.backend.component()?;
    let flags = if component == Component::Kine { kine::flags(spec) } else { flags(spec) };
    let mut container = control_plane::container(spec, component, flags, files, nofile);
    container.mounts.extend(etcd_data(spec));
    match component {
        Component::Kine => container.env.extend(kine::environment()),
        _ => container.env.extend(environment()),
    }
    Some((component, container))
}

/// What the API server dials.
pub fn servers(spec: &ClusterSpec) -> String {
    match &spec.etcd.backend {
        Backend::Etcd | Backend::Kine => format!("https://127.0.0.1:{CLIENT_PORT}"),
        Backend::External(external) => external.endpoints.join(","),
    }
}

/// Who the member is, for a tool that makes its data.
pub fn member_flags(spec: &ClusterSpec) -> Vec<String> {
    let flags = flags(spec);
    let names = ["name", "initial-cluster", "initial-cluster-token", "initial-advertise-peer-urls"];
    names.iter().filter_map(|name| flags.get(name).map(|value| format!("--{name}={value}"))).collect()
}

/// What etcdctl reads, so that `docker exec …-etcd etcdctl` needs no flags.
fn environment() -> [(String, String); 3] {
    let pki = format!("{CONTAINER_PKI_DIR}/etcd");
    [("CACERT", "ca.crt"), ("CERT", "server.crt"), ("KEY", "server.key")]
        .map(|(name, file)| (format!("ETCDCTL_{name}"), format!("{pki}/{file}")))
}

/// Flags of etcd 3.6 and 3.7 (etcd.io, "Configuration options").
pub(super) fn flags(spec: &ClusterSpec) -> Flags {
    let pki = format!("{CONTAINER_PKI_DIR}/etcd");
    let client = format!("https://127.0.0.1:{CLIENT_PORT}");
    let peer = format!("https://127.0.0.1:{PEER_PORT}");
    let name = spec.host_name();
    let mut flags = Flags::new([
        ("name", name.clone()),
        ("data-dir", MEMBER.to_owned()),
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
