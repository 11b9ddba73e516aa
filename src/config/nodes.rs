//! How many nodes of which kind.

use std::collections::BTreeMap;

use hoist_phases::spec::{MAX_NODE_NUMBER, NodeKind, NodeSpec, Taint, VmSize};

use super::file::NodeGroup;
use super::node_labels;
use super::problem::{Problem, Problems};
use super::units;

/// What the flags of `up` say about nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeFlags {
    pub count: Option<String>,
    pub kind: Option<String>,
    pub size: SizeFlags,
    pub image: Option<String>,
}

/// What a node is made of, before it has its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    pub kind: NodeKind,
    pub image: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
}

impl Template {
    fn new(kind: NodeKind, image: Option<String>) -> Self {
        Self { kind, image, labels: BTreeMap::new(), taints: Vec::new() }
    }

    fn is_of(&self, node: &NodeSpec) -> bool {
        let Self { kind, image, labels, taints } = self;
        (node.kind, &node.image, &node.labels, &node.taints) == (*kind, image, labels, taints)
    }
}

/// The size of virtual machines, as written.
#[derive(Debug, Clone, Default)]
pub struct SizeFlags {
    pub cpus: Option<u16>,
    pub memory: Option<String>,
    pub disk: Option<String>,
}

/// One node in a container.
pub(super) fn default() -> Vec<NodeSpec> {
    NodeSpec::new(1, NodeKind::Container).into_iter().collect()
}

/// The nodes asked for; `None` when nothing is asked for.
pub(super) fn wanted(
    flags: NodeFlags,
    groups: Option<Vec<NodeGroup>>,
    problems: &mut Problems,
) -> Option<Vec<Template>> {
    let NodeFlags { count: count_flag, kind: kind_flag, size, image: image_flag } = flags;
    let sized = size.cpus.is_some() || size.memory.is_some() || size.disk.is_some();
    let flag_kind = match kind_flag {
        None if sized && groups.is_none() => {
            let rule = "sizes belong to virtual machines; add --node-kind vm";
            problems.push(Problem::new("--cpus, --memory, --disk", "without --node-kind", rule));
            None
        }
        None => None,
        Some(text) => problems.keep(kind("--node-kind", &text, &size)),
    };
    let nodes = match (count_flag, groups) {
        (Some(text), _) => {
            let number = problems.keep(count(&text))?;
            let kind = flag_kind.unwrap_or(NodeKind::Container);
            vec![Template::new(kind, image_flag); number]
        }
        (None, Some(groups)) => {
            let mut nodes = Vec::new();
            let asked: u64 = groups.iter().map(|group| u64::from(group.count.unwrap_or(1))).sum();
            if asked > u64::from(MAX_NODE_NUMBER) {
                problems.push(too_many(asked));
                return None;
            }
            for (index, group) in groups.into_iter().enumerate() {
                let NodeGroup { kind: text, count, cpus, memory, disk, image, labels, taints } = group;
                // A flag's size wins over the group's.
                let size = SizeFlags {
                    cpus: size.cpus.or(cpus),
                    memory: size.memory.clone().or(memory),
                    disk: size.disk.clone().or(disk),
                };
                let text = text.as_deref().unwrap_or("container");
                let group_kind = match flag_kind {
                    Some(kind) => kind,
                    None => problems
                        .keep(kind(&format!("nodes[{index}].kind"), text, &size))
                        .unwrap_or(NodeKind::Container),
                };
                let template = Template {
                    kind: group_kind,
                    image: image_flag.clone().or(image),
                    labels: labels.unwrap_or_default(),
                    taints: taints.unwrap_or_default(),
                };
                node_labels::check(&format!("nodes[{index}]"), &template.labels, &template.taints, problems);
                let number = usize::try_from(count.unwrap_or(1)).unwrap_or_default();
                nodes.extend(std::iter::repeat_n(template, number));
            }
            nodes
        }
        (None, None) if flag_kind.is_none() && image_flag.is_none() => return None,
        (None, None) => vec![Template::new(flag_kind.unwrap_or(NodeKind::Container), image_flag)],
    };
    Some(nodes)
}

fn too_many(asked: u64) -> Problem {
    Problem::new("nodes", asked, format_args!("at most {MAX_NODE_NUMBER} fit the node network"))
}

/// Gives the nodes their numbers. Those that are there already, with gaps where some were
/// removed, keep theirs when as many of the same are asked for.
pub(super) fn keep_numbers(present: &[NodeSpec], wanted: Vec<Template>) -> Vec<NodeSpec> {
    let same = |(node, template): (&NodeSpec, &Template)| template.is_of(node);
    if present.len() == wanted.len() && present.iter().zip(&wanted).all(same) {
        return present.to_vec();
    }
    let numbered = (1_u32..).zip(wanted);
    numbered
        .filter_map(|(number, Template { kind, image, labels, taints })| {
            Some(NodeSpec::new(number, kind).ok()?.with_image(image).with_marks(labels, taints))
        })
        .collect()
}

fn count(text: &str) -> Result<usize, Problem> {
    let number = if text == "none" { Some(0) } else { text.parse().ok() };
    number.filter(|number| *number <= usize::from(MAX_NODE_NUMBER)).ok_or_else(|| {
        let rule = format!("must be a number from 0 to {MAX_NODE_NUMBER}, or none");
        Problem::new("--nodes", format_args!("{text:?}"), rule)
    })
}

/// A kind by its name, with the size that goes with it.
///
/// # Errors
/// When there is no such kind, a size is given to a container, or it is no size a node can boot with.
pub fn kind(field: &str, text: &str, size: &SizeFlags) -> Result<NodeKind, Problem> {
    let SizeFlags { cpus, memory, disk } = size;
    match text {
        "container" if cpus.is_some() || memory.is_some() || disk.is_some() => Err(Problem::new(
            field,
            format_args!("{text:?}"),
            "cpus, memory and disk are those of virtual machines; a container node takes what the host has",
        )),
        "container" => Ok(NodeKind::Container),
        "vm" => {
            let defaults = VmSize::default();
            let quantity = |field, text: &Option<String>, unit: u64, default| {
                let Some(text) = text else { return Ok(default) };
                let bytes =
                    units::bytes(text).map_err(|rule| Problem::new(field, format_args!("{text:?}"), rule))?;
                u32::try_from(bytes / unit).map_err(|_| {
                    Problem::new(field, format_args!("{text:?}"), "is more than any machine has")
                })
            };
            let size = VmSize {
                cpus: cpus.unwrap_or(defaults.cpus),
                memory_mib: quantity("memory", memory, 1 << 20, defaults.memory_mib)?,
                disk_gib: quantity("disk", disk, 1 << 30, defaults.disk_gib)?,
            };
            Ok(NodeKind::Vm(size.checked()?))
        }
        _ => Err(Problem::new(field, format_args!("{text:?}"), "must be container or vm")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(nodes: &[NodeSpec]) -> Vec<u8> {
        nodes.iter().map(NodeSpec::number).collect()
    }

    fn kinds(flag: &str) -> Option<usize> {
        let flags = NodeFlags { count: Some(flag.to_owned()), ..NodeFlags::default() };
        wanted(flags, None, &mut Problems::default()).map(|kinds| kinds.len())
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
        let groups = Some(vec![NodeGroup { count: Some(3), ..NodeGroup::default() }, NodeGroup::default()]);
        let count = |flag: Option<&str>| {
            let flags = NodeFlags { count: flag.map(str::to_owned), ..NodeFlags::default() };
            wanted(flags, groups.clone(), &mut Problems::default()).map(|kinds| kinds.len())
        };
        assert_eq!(count(None), Some(4));
        assert_eq!(count(Some("2")), Some(2));
    }

    #[test]
    fn numbers_stay_while_the_count_does() {
        let node = |n| NodeSpec::new(n, NodeKind::Container);
        let present: Vec<_> = [node(1), node(3)].into_iter().flatten().collect();
        let of = |image: Option<&str>| Template::new(NodeKind::Container, image.map(str::to_owned));
        assert_eq!(numbers(&keep_numbers(&present, vec![of(None); 2])), [1, 3]);
        assert_eq!(numbers(&keep_numbers(&present, vec![of(None); 3])), [1, 2, 3]);
        assert_eq!(numbers(&keep_numbers(&present, vec![of(Some("other")); 2])), [1, 2]);
    }

    #[test]
    fn virtual_machines_have_a_size() {
        let memory = |text: &str| SizeFlags { memory: Some(text.to_owned()), ..SizeFlags::default() };
        let vm = |memory_mib| NodeKind::Vm(VmSize { memory_mib, ..VmSize::default() });
        assert_eq!(kind("kind", "vm", &SizeFlags::default()), Ok(vm(2048)));
        assert_eq!(kind("kind", "vm", &memory("4Gi")), Ok(vm(4096)));
        for bad in ["100Mi", "x", "99999Ti"] {
            assert!(kind("kind", "vm", &memory(bad)).is_err(), "{bad:?} was accepted");
        }
        assert!(kind("kind", "container", &memory("4Gi")).is_err());
    }
}
