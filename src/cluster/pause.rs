//! Freezes all containers of a cluster and lets them go on.
//!
//! Clients are frozen before those they ask, and go on after them. Nodes go on before the
//! controller-manager, so that they have reported by the time it judges them.

use futures_util::future::join_all;
use hoist_phases::phases::machines;
use hoist_phases::phases::network::attach;
use hoist_phases::ports::{ContainerState, Runtime, RuntimeError, Status, label};
use hoist_phases::spec::Component;

/// Place in the order of going on; unknown helpers go on last.
fn class(container: &ContainerState) -> u8 {
    let Some(role) = container.labels.get(label::ROLE).map(String::as_str) else { return 5 };
    let is = |component: Component| role == component.name();
    if is(Component::Owner) || is(Component::Dnsmasq) || role == attach::ROLE {
        0
    } else if is(Component::Etcd) || is(Component::Kine) {
        1
    } else if is(Component::ApiServer) || is(Component::Konnectivity) || is(Component::Registry) {
        2
    } else if role == machines::ROLE {
        3
    } else if is(Component::ControllerManager) || is(Component::Scheduler) || is(Component::Steward) {
        4
    } else {
        5
    }
}

/// Freezes what runs, and gives the number of containers that this took. When one can't be frozen,
/// all go on.
///
/// # Errors
/// The first refusal of the engine's.
pub async fn pause(runtime: &dyn Runtime, cluster: &str) -> Result<usize, RuntimeError> {
    let mut running = runtime.list(Some(cluster)).await?;
    running.retain(|container| container.status == Status::Running);
    running.sort_by_key(|container| std::cmp::Reverse(class(container)));
    for same in running.chunk_by(|a, b| class(a) == class(b)) {
        let results = join_all(same.iter().map(|container| runtime.pause(&container.name))).await;
        if let Some(error) = results.into_iter().find_map(Result::err) {
            // The refusal matters more than one on the way back, which the next `up` tells again.
            let _ = resume(runtime, cluster).await;
            return Err(error);
        }
    }
    Ok(running.len())
}

/// Lets go on what is frozen, and gives the number of containers that this took.
///
/// # Errors
/// The first refusal of the engine's; the others go on all the same.
pub async fn resume(runtime: &dyn Runtime, cluster: &str) -> Result<usize, RuntimeError> {
    let mut frozen = runtime.list(Some(cluster)).await?;
    frozen.retain(|container| container.status == Status::Paused);
    frozen.sort_by_key(class);
    let mut refused = None;
    for same in frozen.chunk_by(|a, b| class(a) == class(b)) {
        let results = join_all(same.iter().map(|container| runtime.unpause(&container.name))).await;
        refused = refused.or(results.into_iter().find_map(Result::err));
    }
    refused.map_or(Ok(frozen.len()), Err)
}
