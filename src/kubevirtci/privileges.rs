//! How much a container of a node may do: everything, where the engine can give that. An engine
//! that lacks a capability itself refuses privileged containers; then it is everything it has.

use bollard::container::LogOutput;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::TryStreamExt as _;
use hoist_phases::ports::{Runtime as _, RuntimeError};

use super::{Cluster, containers};
use crate::error::BoxError;
use crate::host::capabilities;
use crate::report;

/// A container that isn't privileged has none of the host's devices: it makes the two it needs.
const DEVICES: &str = "mkdir -p /dev/net; \
    [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200; [ -e /dev/kvm ] || mknod /dev/kvm c 10 232; ";

/// The container that finds out; gone before any other is made.
pub(super) const PROBE: &str = "probe";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Privileges {
    All,
    /// All but the named capabilities.
    Without(Vec<&'static str>),
}

impl Privileges {
    /// The part of a container's configuration that is about them.
    pub(super) fn host_config(&self) -> HostConfig {
        match self {
            Self::All => HostConfig { privileged: Some(true), ..HostConfig::default() },
            Self::Without(missing) => HostConfig {
                cap_add: Some(vec!["ALL".to_owned()]),
                cap_drop: Some(missing.iter().map(|name| (*name).to_owned()).collect()),
                device_cgroup_rules: Some(vec!["a *:* rwm".to_owned()]),
                security_opt: Some(
                    ["seccomp=unconfined", "apparmor=unconfined", "label=disable"]
                        .map(str::to_owned)
                        .to_vec(),
                ),
                // Empty lists, not absent ones: absent means the engine's own masks.
                masked_paths: Some(Vec::new()),
                readonly_paths: Some(Vec::new()),
                ..HostConfig::default()
            },
        }
    }

    /// A shell command as a container's own.
    pub(super) fn command(&self, command: &str) -> Vec<String> {
        let devices = if *self == Self::All { "" } else { DEVICES };
        vec!["/bin/bash".to_owned(), "-c".to_owned(), format!("{devices}{command}")]
    }

    /// What the engine can give, found out by asking for it.
    pub(super) async fn of_engine(cluster: &Cluster, image: &str) -> Result<Self, BoxError> {
        let privileged = HostConfig { privileged: Some(true), ..HostConfig::default() };
        let Err(refused) = probe(cluster, image, privileged, &["true"]).await else { return Ok(Self::All) };
        // The first process of the engine's host has what the engine can give.
        let host = HostConfig { pid_mode: Some("host".to_owned()), ..HostConfig::default() };
        let status = probe(cluster, image, host, &["cat", "/proc/1/status"]).await?;
        let missing = missing(&status);
        if missing.is_empty() {
            return Err(refused);
        }
        report::tell(format_args!(
            "warning: the engine refuses privileged containers: it has no {}. The nodes' containers get everything else; \
             what needs these in them will fail",
            missing.join(", ")
        ));
        Ok(Self::Without(missing))
    }
}

/// Runs a command in a container of its own and gives what it printed.
async fn probe(
    cluster: &Cluster,
    image: &str,
    host: HostConfig,
    command: &[&str],
) -> Result<String, BoxError> {
    let (name, docker) = (cluster.container(PROBE), cluster.engine.docker());
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        host_config: Some(HostConfig { network_mode: Some("none".to_owned()), ..host }),
        ..ContainerCreateBody::default()
    };
    containers::create(cluster, PROBE, body).await?;
    let printed = async {
        cluster.engine.start(&name).await?;
        cluster.engine.wait(&name).await?;
        let options = LogsOptionsBuilder::new().stdout(true).build();
        let parts: Vec<LogOutput> = docker.logs(&name, Some(options)).try_collect().await?;
        Ok::<_, BoxError>(parts.iter().map(ToString::to_string).collect())
    }
    .await;
    let removed: Result<(), RuntimeError> = cluster.engine.remove(&name).await;
    removed?;
    printed
}

/// The capabilities outside the bounding set that proc(5) tells of as `CapBnd`.
fn missing(status: &str) -> Vec<&'static str> {
    let bounding = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    bounding
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .map(capabilities::missing)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_read_from_the_bounding_set() {
        assert_eq!(missing("CapEff:\t0\nCapBnd:\t000001ffffffffff\n"), Vec::<&str>::new());
        assert_eq!(missing("CapBnd:\t000001fffeffffff\n"), ["SYS_RESOURCE"]);
        assert_eq!(missing("Name:\tinit\n"), Vec::<&str>::new());
    }

    #[test]
    fn only_a_container_without_devices_makes_them() {
        assert_eq!(Privileges::All.command("x")[2], "x");
        assert!(Privileges::Without(vec!["BPF"]).command("x")[2].contains("mknod /dev/net/tun"));
        assert_eq!(Privileges::All.host_config().privileged, Some(true));
        assert_eq!(Privileges::Without(vec!["BPF"]).host_config().privileged, None);
    }
}
