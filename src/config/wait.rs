//! How much has to answer before `up` returns.

use hoist_phases::spec::{ClusterSpec, Cni, Reach};

use super::problem::{Problem, Problems};
use crate::cluster::ready::Level;

/// The level asked for, or the highest that this cluster reaches by itself.
pub(super) fn level(text: Option<String>, spec: &ClusterSpec, problems: &mut Problems) -> Level {
    let highest = if spec.nodes.is_empty() || spec.cni == Cni::None { Level::Api } else { Level::Dns };
    let Some(text) = text else { return highest };
    match text.parse::<Level>() {
        Err(_) => {
            let names = Level::ALL.map(|level| level.to_string()).join(", ");
            problems.push(Problem::new(
                "wait",
                format_args!("{text:?}"),
                format_args!("must be one of {names}"),
            ));
        }
        Ok(level @ (Level::Nodes | Level::Dns | Level::Webhook)) if spec.nodes.is_empty() => {
            problems.push(Problem::new("wait", level, "a cluster without nodes never gets there; use api"));
        }
        Ok(level @ (Level::Nodes | Level::Dns | Level::Webhook)) if spec.cni == Cni::None => {
            let rule = "without a CNI no node gets Ready until you install one; use api";
            problems.push(Problem::new("wait", level, rule));
        }
        Ok(level @ Level::Webhook) if spec.reach == Reach::None => {
            let rule = "with reach none the API server never reaches pods; use dns";
            problems.push(Problem::new("wait", level, rule));
        }
        Ok(level) => return level,
    }
    highest
}
