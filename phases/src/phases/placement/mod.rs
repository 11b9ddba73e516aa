//! Puts into Deployments what they don't state about where they run: for those that hoist applies
//! by [`rules`], for everybody's in the namespaces of the configuration by a
//! [`policy`] of the API server, from Kubernetes 1.36 on.

pub mod policy;
mod rules;

use std::borrow::Cow;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join_all};

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::object::{Object, ObjectError};
use crate::phases::{Context, apply};
use crate::ports::{KubeApi, KubeError};
use crate::spec::{ClusterSpec, PlacementPolicy};

pub use rules::place;

#[derive(Debug, thiserror::Error)]
#[error("the placement policy, which is off now, can't be deleted")]
pub struct DeleteError(#[source] KubeError);

/// What a cluster whose API server has no such policies does instead; `None` when there is
/// nothing to say.
pub fn limitation(spec: &ClusterSpec) -> Option<String> {
    let policy = active(spec).filter(|_| !spec.kubernetes.has_mutating_policies())?;
    Some(format!(
        "placement.policy: Kubernetes {} has no MutatingAdmissionPolicy in v1 (1.36 has): in {} only what hoist itself applies is placed; `hoist apply --spread` does it for yours",
        spec.kubernetes,
        policy.namespaces.join(", "),
    ))
}

fn active(spec: &ClusterSpec) -> Option<&PlacementPolicy> {
    spec.placement.policy.as_ref().filter(|policy| !policy.namespaces.is_empty())
}

/// Objects of hoist's own with the policy's rules put into those that it covers.
///
/// # Errors
/// Never for objects that were made before.
pub fn own<'a>(spec: &ClusterSpec, objects: &'a [Object]) -> Result<Cow<'a, [Object]>, ObjectError> {
    let Some(policy) = active(spec) else { return Ok(Cow::Borrowed(objects)) };
    let placed = objects.iter().map(|object| {
        let mut value = object.value().clone();
        let namespace = object.reference().namespace.as_deref().unwrap_or("default");
        let changed = policy.covers(namespace) && place(&mut value, Some(policy));
        if changed { Object::new(&value) } else { Ok(object.clone()) }
    });
    placed.collect::<Result<Vec<_>, _>>().map(Cow::Owned)
}

/// Applies the policy, or deletes one that was turned off.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let Some(policy) = &cx.spec.placement.policy else {
            return Ok(Outcome::Skipped("no placement.policy".to_owned()));
        };
        if !cx.spec.kubernetes.has_mutating_policies() {
            let limitation = limitation(&cx.spec);
            return Ok(limitation.map_or(Outcome::Unchanged, Outcome::Skipped));
        }
        let objects = policy::objects(policy)?;
        if policy.namespaces.is_empty() {
            return delete(cx.outputs.api.get()?.as_ref(), &objects).await;
        }
        apply::phase(cx, &objects).await
    }
    .boxed()
}

async fn delete(api: &dyn KubeApi, objects: &[Object]) -> Result<Outcome, PhaseError> {
    let live = try_join_all(objects.iter().map(|object| api.get(object.reference())));
    let live = live.await.map_err(DeleteError)?;
    let present: Vec<_> = objects.iter().zip(live).filter(|(_, live)| live.is_some()).collect();
    let gone = try_join_all(present.iter().map(|(object, _)| api.delete(object.reference())));
    Ok(Outcome::changed(!gone.await.map_err(DeleteError)?.is_empty()))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
