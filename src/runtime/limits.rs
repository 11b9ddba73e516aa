//! What an engine gives other than it is asked for, found out by containers that run nothing.
//!
//! Docker hands on the open files that its daemon has. Podman sets a limit of its own choice in
//! every container, and can't start any where its own hard limit is lower and it may not raise it;
//! no API tells that limit. And Podman 4.3 drops rules for devices without a word.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptions, InspectContainerOptions};
use futures_util::future::try_join_all;
use hoist_phases::ports::{ContainerSpec, RuntimeError, label};

use super::Engine;
use super::body::ulimits;
use super::info::Facts;
use super::transfer::HELPER_ROLE;
use super::trouble::status;
use super::volumes::volume_labels;

/// Hard limits that are common: systemd's for services, its older one, that of many daemons, and so
/// on down to what every Unix grants.
const TRIED: [u64; 6] = [524_288, 65_536, 32_768, 16_384, 4_096, 1_024];

/// No image has it: the limits are set before the program is looked for.
const NO_PROGRAM: &str = "/hoist-sets-limits-only";

const TRY: &str = "try the engine's limits with";

/// What was found out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Open files that a container has to be given by name; `None` where the engine's own choice works.
    pub(super) nofile: Option<u64>,
    /// Whether rules for devices get lost, so that devices have to be handed in.
    pub(super) drops_device_rules: bool,
}

/// What became of one container.
struct Trial {
    granted: bool,
    device_rules: bool,
}

impl Engine {
    /// Tried with the image of `spec` once, and only with engines that choose by themselves.
    pub(super) async fn limits(&self, spec: &ContainerSpec) -> Result<Limits, RuntimeError> {
        let facts = self.facts().await?;
        if !facts.podman {
            return Ok(Limits::default());
        }
        let found = self.limits.get_or_try_init(|| async {
            let first = self.trial(None, spec, facts).await?;
            let mut limits = Limits { nofile: None, drops_device_rules: !first.device_rules };
            if !first.granted {
                let trials = try_join_all(TRIED.map(|limit| self.trial(Some(limit), spec, facts))).await?;
                let granted = TRIED.into_iter().zip(trials).find(|(_, trial)| trial.granted);
                limits.nofile = granted.map(|(limit, _)| limit);
            }
            tracing::debug!(?limits, "found out about the engine");
            Ok(limits)
        });
        found.await.copied()
    }

    /// Makes a container with this limit and sees whether it gets as far as looking for its program.
    async fn trial(
        &self,
        limit: Option<u64>,
        spec: &ContainerSpec,
        facts: &Facts,
    ) -> Result<Trial, RuntimeError> {
        // So that `down` finds it should this process die before it is removed.
        let mut labels: HashMap<_, _> = volume_labels(spec);
        labels.insert(label::ROLE.to_owned(), HELPER_ROLE.to_owned());
        let body = ContainerCreateBody {
            image: Some(spec.image.clone()),
            entrypoint: Some(vec![NO_PROGRAM.to_owned()]),
            labels: Some(labels),
            host_config: Some(HostConfig {
                network_mode: Some("none".to_owned()),
                cap_drop: Some(vec!["ALL".to_owned()]),
                device_cgroup_rules: Some(vec!["c 1:3 r".to_owned()]),
                ulimits: limit.map(|limit| ulimits(limit, facts)),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        // What failed tells nothing of limits, and must not be remembered as if it did.
        let made = self.docker.create_container(None::<CreateContainerOptions>, body).await;
        let made = made.map_err(|error| self.not_created(TRY, &spec.image, &spec.image, error))?;
        let started = self.docker.start_container(&made.id, None).await;
        let found = self.docker.inspect_container(&made.id, None::<InspectContainerOptions>).await;
        self.remove_container(&made.id).await?;
        let failed = |error| self.failed(TRY, &spec.image, error);
        let granted = match started {
            // It has no program, so no engine lets it start.
            Err(error) if status(&error).is_none() => return Err(failed(error)),
            started => !started.is_err_and(|error| error.to_string().contains("rlimit")),
        };
        let rules = found.map_err(failed)?.host_config.and_then(|host| host.device_cgroup_rules);
        Ok(Trial { granted, device_rules: rules.is_some_and(|rules| !rules.is_empty()) })
    }
}
