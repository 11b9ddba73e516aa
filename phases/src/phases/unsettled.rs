//! What a run would do where an earlier one did not end well: what that one made anew is not what is
//! recorded, and how far it came is not known.

use crate::engine::PhaseError;
use crate::phases::PhaseId;
use crate::phases::preview::{Change, Item, Step, preview};
use crate::spec::ClusterSpec;

/// Why something is made again that is recorded as it is wanted.
const REASON: &str = "a run that did not end well may have left another";

/// Adds to a preview what it would keep, or not know of, and may yet be that of an earlier run.
/// `tried` are the specifications of such runs.
///
/// # Errors
/// When a manifest or configuration of the user's can't be read.
pub fn revise(
    mut steps: Vec<Step>,
    tried: &[ClusterSpec],
    wanted: &ClusterSpec,
) -> Result<Vec<Step>, PhaseError> {
    for spec in tried {
        for (step, other) in steps.iter_mut().zip(preview(Some(spec), wanted)?) {
            let items = other.items.into_iter().filter(|item| may_stay(step.phase, item));
            items.for_each(|item| add(&mut step.items, item));
        }
    }
    Ok(steps)
}

/// Nodes and containers that a failed run has added are taken back by itself.
fn may_stay(phase: PhaseId, item: &Item) -> bool {
    let taken_back = matches!(phase, PhaseId::Machines | PhaseId::Nodes)
        || (item.kind == "container" && item.change == Change::Remove);
    item.change != Change::Keep && !taken_back
}

fn add(items: &mut Vec<Item>, item: Item) {
    let because = vec![REASON.to_owned()];
    match items.iter_mut().find(|known| (&known.kind, &known.name) == (&item.kind, &item.name)) {
        Some(known) if known.change == Change::Keep => {
            (known.change, known.because) = (item.change, because);
        }
        // It is made anew in any case.
        Some(_) => {}
        None => {
            items.push(Item { because, ..item });
            items.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{NodeKind, NodeSpec, Reach, test_spec};

    type Check = Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// What a run would do for the recorded cluster after one that failed.
    fn after(tried: &ClusterSpec) -> Result<Vec<String>, PhaseError> {
        let present = test_spec();
        let steps = revise(preview(Some(&present), &present)?, std::slice::from_ref(tried), &present)?;
        let items = steps.iter().flat_map(|step| &step.items).filter(|item| item.change != Change::Keep);
        Ok(items
            .map(|item| format!("{:?} {} {}: {}", item.change, item.kind, item.name, item.because.join(",")))
            .collect())
    }

    #[test]
    fn what_a_failed_run_may_have_replaced_is_replaced() -> Check {
        let mut tried = test_spec();
        tried.extra_sans = vec!["a.example".to_owned()];
        assert_eq!(
            after(&tried)?,
            [
                format!("Replace certificate apiserver: {REASON}"),
                format!("Replace container hoist-sample-kube-apiserver: {REASON}"),
            ]
        );
        assert_eq!(after(&test_spec())?, Vec::<String>::new());
        Ok(())
    }

    #[test]
    fn what_a_failed_run_has_added_is_taken_back_by_itself_but_in_the_api() -> Check {
        let mut tried = test_spec();
        tried.nodes.push(NodeSpec::new(2, NodeKind::Container)?);
        assert_eq!(after(&tried)?, Vec::<String>::new());
        tried.reach = Reach::Konnectivity;
        let all = after(&tried)?;
        let removed = |line: &&String| line.starts_with("Remove ");
        assert!(
            all.iter().any(|line| line.starts_with("Remove DaemonSet kube-system/konnectivity-agent: ")),
            "{all:?}"
        );
        assert!(!all.iter().filter(removed).any(|line| line.starts_with("Remove container ")), "{all:?}");
        Ok(())
    }

    #[test]
    fn what_is_changed_anyway_keeps_its_own_reason() -> Check {
        let (present, mut wanted) = (test_spec(), test_spec());
        wanted.extra_sans = vec!["a.example".to_owned()];
        let steps = preview(Some(&present), &wanted)?;
        assert_eq!(revise(steps.clone(), std::slice::from_ref(&present), &wanted)?, steps);
        Ok(())
    }
}
