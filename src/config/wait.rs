//! How much has to answer before `up` returns.

use hoist_phases::spec::{ClusterSpec, Cni, Reach};

use super::problem::{Problem, Problems};
use super::resolve::Given;
use crate::cluster::ready::Level;

/// The level asked for, or the highest that this cluster reaches by itself.
pub(super) fn level(given: Option<Given<String>>, spec: &ClusterSpec, problems: &mut Problems) -> Level {
    let highest = if spec.nodes.is_empty() || spec.cni == Cni::None { Level::Api } else { Level::Dns };
    let Some(Given { field, value }) = given else {
        return highest;
    };
    match value.parse::<Level>() {
        Err(_) => {
            let names = Level::ALL.map(|level| level.to_string()).join(", ");
            problems.push(Problem::new(
                field,
                format_args!("{value:?}"),
                format_args!("must be one of {names}"),
            ));
        }
        Ok(level @ (Level::Nodes | Level::Dns | Level::Webhook)) if spec.nodes.is_empty() => {
            problems.push(Problem::new(field, level, "a cluster without nodes never gets there; use api"));
        }
        Ok(level @ (Level::Nodes | Level::Dns | Level::Webhook)) if spec.cni == Cni::None => {
            let rule = "without a CNI no node gets Ready until you install one; use api";
            problems.push(Problem::new(field, level, rule));
        }
        Ok(level @ Level::Webhook) if spec.reach == Reach::None => {
            let rule = "with reach none the API server never reaches pods; use dns";
            problems.push(Problem::new(field, level, rule));
        }
        Ok(level) => return level,
    }
    highest
}
