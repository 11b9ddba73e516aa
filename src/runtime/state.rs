//! What the engine says about containers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{self, ContainerInspectResponse, ContainerStateStatusEnum, PortMap};
use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::future::try_join_all;
use hoist_phases::ports::{ContainerState, PublishedPort, RuntimeError, Status, label};
use hoist_phases::spec::Protocol;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;

use super::Engine;
use super::trouble::status;

/// What the engine writes when there has been no such moment.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// How long Podman may take to clean up after a process.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(25);

impl Engine {
    pub(super) async fn inspect_container(&self, name: &str) -> Result<Option<ContainerState>, RuntimeError> {
        match settled(|| self.docker.inspect_container(name, None)).await {
            Ok(found) => Ok(Some(container_state(found))),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.failed("inspect container", name, error)),
        }
    }

    /// The list itself says too little, so each container is inspected; one that goes meanwhile is
    /// left out.
    pub(super) async fn list_containers(
        &self,
        cluster: Option<&str>,
    ) -> Result<Vec<ContainerState>, RuntimeError> {
        let wanted = match cluster {
            Some(cluster) => format!("{}={cluster}", label::CLUSTER),
            None => label::CLUSTER.to_owned(),
        };
        let filters = HashMap::from([("label".to_owned(), vec![wanted])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let listed = settled(|| self.docker.list_containers(Some(options.clone()))).await;
        let listed =
            listed.map_err(|e| self.failed("list containers of", cluster.unwrap_or("all clusters"), e))?;
        let ids: Vec<String> = listed.into_iter().filter_map(|container| container.id).collect();
        let states = try_join_all(ids.iter().map(|id| self.inspect_container(id))).await?;
        let mut states: Vec<_> = states.into_iter().flatten().collect();
        states.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(states)
    }
}

/// Asks again while a container is `stopped`: Podman's word, unknown to the client, for the moment
/// between the end of a process and the end of cleaning up after it.
async fn settled<T, F>(ask: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + SETTLES_WITHIN;
    loop {
        match ask().await {
            Err(Error::JsonDataError { message, .. })
                if message.contains("unknown variant `stopped`") && Instant::now() < deadline =>
            {
                tokio::time::sleep(POLL).await;
            }
            answer => return answer,
        }
    }
}

fn container_state(found: ContainerInspectResponse) -> ContainerState {
    let state = found.state.unwrap_or_default();
    let host = found.host_config.unwrap_or_default();
    let network_of = host.network_mode.as_deref().and_then(|mode| mode.strip_prefix("container:"));
    let config = found.config.unwrap_or_default();
    ContainerState {
        id: found.id.unwrap_or_default(),
        name: found.name.unwrap_or_default().trim_start_matches('/').to_owned(),
        image: config.image.unwrap_or_default(),
        labels: config.labels.unwrap_or_default().into_iter().collect(),
        restarts: found.restart_count.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        published: published(found.network_settings.and_then(|n| n.ports).unwrap_or_default()),
        started_at: state.started_at.clone().filter(|at| at != NEVER).unwrap_or_default(),
        lived: lived(&state),
        network_of: network_of.map(str::to_owned),
        status: container_status(&state),
    }
}

/// While a process runs, its last end is before its start.
fn lived(state: &models::ContainerState) -> Option<Duration> {
    let moment = |at: &Option<String>| OffsetDateTime::parse(at.as_deref()?, &Rfc3339).ok();
    (moment(&state.finished_at)? - moment(&state.started_at)?).try_into().ok()
}

/// Anything that neither runs nor waits to run has ended, dead and half-removed ones included.
fn container_status(state: &models::ContainerState) -> Status {
    match state.status {
        Some(ContainerStateStatusEnum::CREATED) => Status::Created,
        Some(ContainerStateStatusEnum::RUNNING) => Status::Running,
        Some(ContainerStateStatusEnum::PAUSED) => Status::Paused,
        Some(ContainerStateStatusEnum::RESTARTING) => {
            Status::Restarting { code: state.exit_code.unwrap_or_default() }
        }
        _ => Status::Exited {
            code: state.exit_code.unwrap_or_default(),
            oom_killed: state.oom_killed.unwrap_or_default(),
        },
    }
}

fn published(ports: PortMap) -> Vec<PublishedPort> {
    let mut published = Vec::new();
    for (port, bindings) in ports {
        let Some((container, protocol)) = inner_port(&port) else { continue };
        for binding in bindings.unwrap_or_default() {
            let ip = binding.host_ip.and_then(|ip| ip.parse::<IpAddr>().ok());
            let port = binding.host_port.and_then(|port| port.parse::<u16>().ok());
            if let (Some(ip), Some(port)) = (ip, port) {
                published.push(PublishedPort { container, host: SocketAddr::new(ip, port), protocol });
            }
        }
    }
    published.sort_by_key(|port| (port.container, port.protocol, port.host));
    published
}

/// Reads `6443/tcp`.
fn inner_port(text: &str) -> Option<(u16, Protocol)> {
    let (port, name) = text.split_once('/')?;
    let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.lower() == name)?;
    Some((port.parse().ok()?, protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_has_ended_before_it_has_a_length() {
        let state = |started: &str, finished: &str| models::ContainerState {
            started_at: Some(started.to_owned()),
            finished_at: Some(finished.to_owned()),
            ..models::ContainerState::default()
        };
        let (early, late) = ("2026-01-01T10:00:00.5Z", "2026-01-01T10:00:01.75Z");
        assert_eq!(lived(&state(early, late)), Some(Duration::from_millis(1250)));
        for (started, finished) in [(late, early), (early, NEVER), ("", "")] {
            assert_eq!(lived(&state(started, finished)), None, "{started} {finished}");
        }
        assert_eq!(lived(&models::ContainerState::default()), None);
    }
}
