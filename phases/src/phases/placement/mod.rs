//! Puts into Deployments what they don't state about where they run: for those that hoist applies
//! by [`rules`], for everybody's in the namespaces of the configuration by a
//! [`policy`] of the API server, from Kubernetes 1.36 on.

pub mod policy;
mod rules;

use std::borrow::Cow;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::object::Object;
use crate::phases::{Context, apply};
use crate::spec::{ClusterSpec, PlacementPolicy};

pub use rules::{Placed, place};

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
pub fn own<'a>(spec: &ClusterSpec, objects: &'a [Object]) -> Cow<'a, [Object]> {
    let Some(policy) = active(spec) else { return Cow::Borrowed(objects) };
    let placed = objects.iter().map(|object| {
        let namespace = object.reference().namespace.as_deref().unwrap_or("default");
        if !policy.covers(namespace) {
            return object.clone();
        }
        let mut value = object.value().clone();
        let placed = place(&mut value, Some(policy));
        object.with_additions(value, placed.replicas)
    });
    Cow::Owned(placed.collect())
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
            let api = cx.outputs.api.get()?;
            let deleted = apply::delete_own(api.as_ref(), &objects, apply::DEADLINE).await?;
            return Ok(Outcome::changed(deleted > 0));
        }
        apply::phase(cx, &objects).await
    }
    .boxed()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
