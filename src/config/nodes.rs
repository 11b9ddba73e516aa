//! How many nodes of which kind.

use hoist_phases::spec::{MAX_NODE_NUMBER, NodeKind, NodeSpec};

use super::file::NodeGroup;
use super::problem::{Problem, Problems};

/// One node in a container.
pub(super) fn default() -> Vec<NodeSpec> {
    NodeSpec::new(1, NodeKind::Container).into_iter().collect()
}

/// The kinds asked for, one entry a node; `None` when nothing is asked for.
pub(super) fn wanted(
    count_flag: Option<String>,
    kind_flag: Option<String>,
    groups: Option<Vec<NodeGroup>>,
    problems: &mut Problems,
) -> Option<Vec<NodeKind>> {
    let flag_kind =
        kind_flag.map(|text| problems.keep(kind("--node-kind", &text)).unwrap_or(NodeKind::Container));
    let kinds = match (count_flag, groups) {
        (Some(text), _) => {
            let number = problems.keep(count(&text))?;
            vec![flag_kind.unwrap_or(NodeKind::Container); number]
        }
        (None, Some(groups)) => {
            let mut kinds = Vec::new();
            for group in groups {
                let text = group.kind.as_deref().unwrap_or("container");
                let group_kind = problems.keep(kind("nodes[].kind", text)).unwrap_or(NodeKind::Container);
                let number = usize::try_from(group.count.unwrap_or(1)).unwrap_or(usize::MAX);
                // Judged below; the clamp only keeps an absurd number from taking memory.
                let number = number.min(usize::from(MAX_NODE_NUMBER) + 1);
                kinds.extend(std::iter::repeat_n(flag_kind.unwrap_or(group_kind), number));
            }
            kinds
        }
        (None, None) => vec![flag_kind?],
    };
    if kinds.len() > usize::from(MAX_NODE_NUMBER) {
        problems.push(Problem::new(
            "nodes",
            kinds.len(),
            format_args!("at most {MAX_NODE_NUMBER} fit the node network"),
        ));
        return None;
    }
    Some(kinds)
}

/// Gives the kinds their numbers. Nodes that are there already, with gaps where some were
/// removed, keep theirs when as many of the same kinds are asked for.
pub(super) fn keep_numbers(present: &[NodeSpec], wanted: Vec<NodeKind>) -> Vec<NodeSpec> {
    if present.iter().map(|node| node.kind).eq(wanted.iter().copied()) {
        return present.to_vec();
    }
    (1_u32..).zip(wanted).filter_map(|(number, kind)| NodeSpec::new(number, kind).ok()).collect()
}

fn count(text: &str) -> Result<usize, Problem> {
    let number = if text == "none" { Some(0) } else { text.parse().ok() };
    number.filter(|number| *number <= usize::from(MAX_NODE_NUMBER)).ok_or_else(|| {
        let rule = format!("must be a number from 0 to {MAX_NODE_NUMBER}, or none");
        Problem::new("--nodes", format_args!("{text:?}"), rule)
    })
}

fn kind(field: &str, text: &str) -> Result<NodeKind, Problem> {
    match text {
        "container" => Ok(NodeKind::Container),
        _ => Err(Problem::new(field, format_args!("{text:?}"), "must be container")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(nodes: &[NodeSpec]) -> Vec<u8> {
        nodes.iter().map(NodeSpec::number).collect()
    }

    fn kinds(flag: &str) -> Option<usize> {
        wanted(Some(flag.to_owned()), None, None, &mut Problems::default()).map(|kinds| kinds.len())
    }

    #[test]
    fn counts() {
        assert_eq!(kinds("none"), Some(0));
        assert_eq!(kinds("0"), Some(0));
        assert_eq!(kinds("99"), Some(99));
        for bad in ["100", "-1", "", "two", "1.0"] {
            assert_eq!(kinds(bad), None, "{bad:?} was accepted");
        }
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let groups =
            Some(vec![NodeGroup { kind: None, count: Some(3) }, NodeGroup { kind: None, count: None }]);
        let count = |flag: Option<&str>| {
            wanted(flag.map(str::to_owned), None, groups.clone(), &mut Problems::default())
                .map(|kinds| kinds.len())
        };
        assert_eq!(count(None), Some(4));
        assert_eq!(count(Some("2")), Some(2));
    }

    #[test]
    fn numbers_stay_while_the_count_does() {
        let node = |n| NodeSpec::new(n, NodeKind::Container);
        let present: Vec<_> = [node(1), node(3)].into_iter().flatten().collect();
        assert_eq!(numbers(&keep_numbers(&present, vec![NodeKind::Container; 2])), [1, 3]);
        assert_eq!(numbers(&keep_numbers(&present, vec![NodeKind::Container; 3])), [1, 2, 3]);
    }
}
