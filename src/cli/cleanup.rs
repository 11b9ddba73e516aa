//! Takes back what a failed run has made.

use std::time::Duration;

use hoist_phases::causes;
use hoist_phases::ports::KubeConnect as _;
use hoist_phases::spec::{ClusterSpec, NodeSpec};

use super::session::Session;
use crate::cluster::down::{SETTLE, Snapshot, down_since};
use crate::cluster::kube::Connector;
use crate::error::BoxError;
use crate::nodes::drain::node_ref;
use crate::report;
use crate::runtime::Engine;
use crate::store::StateDir;

/// Removes what came into being since `before`, and says what it did. What stays behind is only
/// told: the error of the run itself matters more.
pub(super) async fn take_back(engine: &Engine, state: &StateDir, before: &Snapshot) {
    match down_since(engine, state, before, SETTLE).await {
        Ok(removal) => match removal.into_result() {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => report::tell(format_args!(
                "removed what this run had made ({} things); keep it with --retain",
                removed.len()
            )),
            Err(left) => report::tell(format_args!("warning: {left}")),
        },
        Err(error) => {
            report::tell(format_args!("warning: what this run had made is still there: {error}"));
        }
    }
}

/// How long the API of a cluster that a run failed on may take to forget its nodes.
const FORGET_WITHIN: Duration = Duration::from_secs(20);

/// Removes the Node objects of nodes that a failed run was to add: their machines are gone, and a
/// node of the same name would find itself taken. What stays behind is only told.
pub(super) async fn forget_nodes(session: &Session, tried: &ClusterSpec, present: &ClusterSpec) {
    let names = added(tried, present);
    if names.is_empty() {
        return;
    }
    let forget = async {
        let api = Connector.connect(&session.kubeconfig()?).await?;
        for name in &names {
            api.delete(&node_ref(name)).await?;
        }
        Ok::<_, BoxError>(())
    };
    let why = match tokio::time::timeout(FORGET_WITHIN, forget).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => causes(error.as_ref()),
        Err(_) => format!("no answer within {} s", FORGET_WITHIN.as_secs()),
    };
    let names = names.join(", ");
    report::tell(format_args!("warning: the cluster may still list {names}, which are gone: {why}"));
}

/// Names of the nodes that only `tried` has.
fn added(tried: &ClusterSpec, present: &ClusterSpec) -> Vec<String> {
    let was_there = |node: &&NodeSpec| present.nodes.iter().any(|other| other.number() == node.number());
    tried.nodes.iter().filter(|node| !was_there(node)).map(|node| node.name().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use hoist_phases::spec::{BootstrapToken, ClusterName, NodeKind};

    use super::*;

    #[test]
    fn a_failed_node_add_forgets_the_new_nodes_only() -> Result<(), BoxError> {
        let spec = |numbers: &[u32]| {
            let token = BootstrapToken::generate().map_err(|_| "no random numbers")?;
            let mut spec = crate::config::defaults(ClusterName::new("c")?, token);
            let nodes = numbers.iter().map(|number| NodeSpec::new(*number, NodeKind::Container));
            spec.nodes = nodes.collect::<Result<_, _>>()?;
            Ok::<_, BoxError>(spec)
        };
        assert_eq!(added(&spec(&[1, 2, 4])?, &spec(&[1, 3])?), ["node02", "node04"]);
        assert!(added(&spec(&[1])?, &spec(&[1])?).is_empty());
        Ok(())
    }
}
