//! Checks that find what keeps a cluster's workloads from running, and what to do about it.
//!
//! Each check is a row of [`CHECKS`]: a pure function over [`Facts`], which are gathered once.
//! Checks only look.

mod pending;

use hoist_phases::ports::{KubeApi, KubeError};
use serde::Serialize;
use serde_json::Value;

/// What the checks know.
#[derive(Debug, Default)]
pub struct Facts {
    pub nodes: Vec<Value>,
    pub pods: Vec<Value>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What is wrong with which object, and why.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

/// A row of [`CHECKS`].
#[derive(Debug)]
pub struct Check {
    /// Stable, for scripts.
    pub id: &'static str,
    /// What is true when nothing is found.
    pub summary: &'static str,
    pub run: fn(&Facts) -> Vec<Finding>,
}

/// Every check, in the order they are told.
pub const CHECKS: &[Check] = &[Check {
    id: "pending-pods",
    summary: "every pod that waits for a node could be placed on one by its labels",
    run: pending::check,
}];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    Failed,
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    pub id: &'static str,
    pub state: State,
    pub summary: &'static str,
    pub findings: Vec<Finding>,
}

/// Gathers the facts from the API.
///
/// # Errors
/// When it doesn't answer.
pub async fn gather(api: &dyn KubeApi) -> Result<Facts, KubeError> {
    let (nodes, pods) = tokio::try_join!(api.list("v1", "Node", None), api.list("v1", "Pod", None))?;
    Ok(Facts { nodes, pods })
}

/// Runs every check.
pub fn diagnose(facts: &Facts) -> Vec<Diagnosis> {
    let diagnosis = |check: &Check| {
        let findings = (check.run)(facts);
        let state = if findings.is_empty() { State::Ok } else { State::Failed };
        Diagnosis { id: check.id, state, summary: check.summary, findings }
    };
    CHECKS.iter().map(diagnosis).collect()
}
