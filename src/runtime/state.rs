//! What the engine says about containers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use bollard::models::{self, ContainerInspectResponse, ContainerStateStatusEnum, PortMap};
use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::future::try_join_all;
use hoist_phases::ports::{ContainerState, PublishedPort, RuntimeError, Status, label};

use super::Engine;
use super::trouble::status;

/// What the engine writes when there has been no such moment.
const NEVER: &str = "0001-01-01T00:00:00Z";

impl Engine {
    pub(super) async fn inspect_container(&self, name: &str) -> Result<Option<ContainerState>, RuntimeError> {
        match self.docker.inspect_container(name, None).await {
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
        let listed = self.docker.list_containers(Some(options)).await;
        let listed =
            listed.map_err(|e| self.failed("list containers of", cluster.unwrap_or("all clusters"), e))?;
        let ids: Vec<String> = listed.into_iter().filter_map(|container| container.id).collect();
        let states = try_join_all(ids.iter().map(|id| self.inspect_container(id))).await?;
        let mut states: Vec<_> = states.into_iter().flatten().collect();
        states.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(states)
    }
}

fn container_state(found: ContainerInspectResponse) -> ContainerState {
    let state = found.state.unwrap_or_default();
    let host = found.host_config.unwrap_or_default();
    let network_of = host.network_mode.as_deref().and_then(|mode| mode.strip_prefix("container:"));
    ContainerState {
        id: found.id.unwrap_or_default(),
        name: found.name.unwrap_or_default().trim_start_matches('/').to_owned(),
        labels: found.config.and_then(|config| config.labels).unwrap_or_default().into_iter().collect(),
        restarts: found.restart_count.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        published: published(found.network_settings.and_then(|n| n.ports).unwrap_or_default()),
        started_at: state.started_at.clone().filter(|at| at != NEVER).unwrap_or_default(),
        network_of: network_of.map(str::to_owned),
        status: container_status(&state),
    }
}

/// Anything that neither runs nor waits to run has ended, dead and half-removed ones included.
fn container_status(state: &models::ContainerState) -> Status {
    match state.status {
        Some(ContainerStateStatusEnum::CREATED) => Status::Created,
        Some(ContainerStateStatusEnum::RUNNING) => Status::Running,
        Some(ContainerStateStatusEnum::PAUSED) => Status::Paused,
        Some(ContainerStateStatusEnum::RESTARTING) => Status::Restarting,
        _ => Status::Exited {
            code: state.exit_code.unwrap_or_default(),
            oom_killed: state.oom_killed.unwrap_or_default(),
        },
    }
}

fn published(ports: PortMap) -> Vec<PublishedPort> {
    let mut published = Vec::new();
    for (port, bindings) in ports {
        let Some(container) = port.strip_suffix("/tcp").and_then(|port| port.parse().ok()) else { continue };
        for binding in bindings.unwrap_or_default() {
            let ip = binding.host_ip.and_then(|ip| ip.parse::<IpAddr>().ok());
            let port = binding.host_port.and_then(|port| port.parse::<u16>().ok());
            if let (Some(ip), Some(port)) = (ip, port) {
                published.push(PublishedPort { container, host: SocketAddr::new(ip, port) });
            }
        }
    }
    published.sort_by_key(|port| (port.container, port.host));
    published
}
