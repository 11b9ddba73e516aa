//! Pods that no node can take because none has a label that they ask for. The scheduler only says
//! how many nodes "didn't match Pod's node affinity/selector".

use hoist_phases::spec::{ELSEWHERE, ROLE_LABEL_PREFIX};
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use serde_json::{Map, Value};

use super::{Facts, Finding, State, Told, Verdict, cluster, count};
use crate::cluster::selector::{is_met, shown};

pub(super) fn check(facts: &Facts) -> Verdict {
    let cluster = cluster::of(facts)?;
    let (pods, nodes) = (cluster.pods.as_ref()?, cluster.nodes.as_ref()?);
    let unplaced = pods.iter().filter(|pod| is_unplaced(pod)).count();
    let seen = format!("{}, {unplaced} without a node", count(pods.len(), "pod"));
    Ok(Told { seen, findings: findings(pods, nodes) })
}

fn findings(pods: &[Value], nodes: &[Value]) -> Vec<Finding> {
    pods.iter().filter(|pod| is_unplaced(pod)).filter_map(|pod| finding(pod, nodes)).collect()
}

/// The scheduler has tried and found no node.
fn is_unplaced(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let unschedulable =
        |c: &Value| c["type"] == "PodScheduled" && c["status"] == "False" && c["reason"] == "Unschedulable";
    pod["status"]["phase"] == "Pending" && conditions.into_iter().flatten().any(unschedulable)
}

fn finding(pod: &Value, nodes: &[Value]) -> Option<Finding> {
    let Unmet { shown: wanted, key, absent } = unmet(&pod["spec"], nodes)?;
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    Some(Finding {
        state: State::Fail,
        reason: format!(
            "pod {}/{} waits for a node with {wanted}, and none has it",
            text("namespace"),
            text("name")
        ),
        remedy: remedy(&key, absent),
    })
}

/// What a pod asks for.
struct Unmet {
    shown: String,
    /// Of the label that the remedy speaks of.
    key: String,
    /// Whether the label, or its value, is in the way.
    absent: bool,
}

fn remedy(key: &str, absent: bool) -> String {
    match key.strip_prefix(ROLE_LABEL_PREFIX) {
        Some(ELSEWHERE) if absent => {
            "give the cluster a node in its own network: `hoist node add`".to_owned()
        }
        Some(role) if absent => format!(
            "take the role {role} from a node in `placement.roles` of the configuration and run `hoist up` \
             again, or change what the pod asks for"
        ),
        None if absent => {
            format!("`hoist kubectl label node NAME {key}-`, or change what the pod asks for")
        }
        Some(role) => format!(
            "give nodes the role {role} in `placement.roles` of the configuration, without --no-roles, and \
             run `hoist up` again"
        ),
        None => format!("`hoist kubectl label node NAME {key}=VALUE`, or change what the pod asks for"),
    }
}

/// What a pod asks of a node that no node has; `None` when some node has it all, or only the
/// whole of it is more than any has.
fn unmet(spec: &Value, nodes: &[Value]) -> Option<Unmet> {
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    for (key, value) in selector {
        if !nodes.iter().any(|node| labels(node).and_then(|has| has.get(key)) == Some(value)) {
            let shown = format!("{key}={}", value.as_str().unwrap_or_default());
            return Some(Unmet { shown, key: key.clone(), absent: false });
        }
    }
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let required: NodeSelector = serde_json::from_value(required.clone()).ok()?;
    // One of the terms has to be met, and all expressions of that one.
    let terms = Some(required.node_selector_terms).filter(|terms| !terms.is_empty())?;
    let unmet: Vec<_> = terms.iter().map(|term| unmet_expression(term, nodes)).collect::<Option<_>>()?;
    let first = unmet.first()?;
    Some(Unmet {
        shown: unmet.iter().map(|expression| shown(expression)).collect::<Vec<_>>().join(" or "),
        key: first.key.clone(),
        absent: matches!(first.operator.as_str(), "DoesNotExist" | "NotIn"),
    })
}

/// The first expression of a term that no node meets.
fn unmet_expression<'a>(term: &'a NodeSelectorTerm, nodes: &[Value]) -> Option<&'a NodeSelectorRequirement> {
    let value = |node, key: &str| labels(node).and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let unmet = |expression: &&NodeSelectorRequirement| {
        !nodes.iter().any(|node| is_met(expression, value(node, &expression.key)))
    };
    term.match_expressions.iter().flatten().find(unmet)
}

fn labels(node: &Value) -> Option<&Map<String, Value>> {
    node["metadata"]["labels"].as_object()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Seen {
        pods: Vec<Value>,
        nodes: Vec<Value>,
    }

    fn check(seen: &Seen) -> Vec<Finding> {
        findings(&seen.pods, &seen.nodes)
    }

    fn facts(spec: Value) -> Seen {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let pod = json!({
            "metadata": {"namespace": "n", "name": "p"}, "spec": spec,
            "status": {"phase": "Pending", "conditions": [condition]},
        });
        let node = |labels: Value| json!({"metadata": {"labels": labels}});
        let nodes = vec![node(json!({"disk": "ssd", "cores": "4"})), node(json!({"zone": "a"}))];
        Seen { pods: vec![pod], nodes }
    }

    fn terms(terms: &[&[Value]]) -> Value {
        let terms: Vec<_> = terms.iter().map(|all| json!({"matchExpressions": all})).collect();
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    fn reason(spec: Value) -> String {
        let found = check(&facts(spec));
        found.first().map(|finding| finding.reason.clone()).unwrap_or_default()
    }

    #[test]
    fn the_role_that_no_node_has_is_named_with_the_remedy() {
        let exists = json!({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"});
        let found = check(&facts(terms(&[&[exists]])));
        assert_eq!(
            found[0].reason,
            "pod n/p waits for a node with node-role.kubernetes.io/control-plane, and none has it"
        );
        assert!(found[0].remedy.contains("placement.roles"), "{}", found[0].remedy);
    }

    #[test]
    fn a_label_of_a_node_selector_is_named_with_its_value() {
        assert!(reason(json!({"nodeSelector": {"disk": "hdd"}})).contains("disk=hdd"));
        assert_eq!(reason(json!({"nodeSelector": {"disk": "ssd"}})), "", "other causes are not its business");
        assert_eq!(reason(json!({})), "");
    }

    #[test]
    fn a_label_in_the_way_is_to_be_taken_off() {
        for (operator, key, remedy) in [
            ("DoesNotExist", "os", "label node NAME os-"),
            ("NotIn", "os", "label node NAME os-"),
            ("Exists", "gpu", "label node NAME gpu=VALUE"),
            ("DoesNotExist", "node-role.kubernetes.io/worker", "take the role worker"),
            ("DoesNotExist", "node-role.kubernetes.io/elsewhere", "`hoist node add`"),
        ] {
            let mut facts =
                facts(terms(&[&[json!({"key": key, "operator": operator, "values": ["linux"]})]]));
            for node in &mut facts.nodes {
                node["metadata"]["labels"] = json!({"os": "linux", "node-role.kubernetes.io/worker": "",
                    "node-role.kubernetes.io/elsewhere": ""});
            }
            let found = check(&facts);
            assert!(found.iter().any(|finding| finding.remedy.contains(remedy)), "{operator}: {found:?}");
        }
    }

    #[test]
    fn one_term_that_can_be_met_is_enough() {
        let is = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let no = is("disk", "In", &["hdd"]);
        assert_eq!(reason(terms(&[std::slice::from_ref(&no), &[is("zone", "Exists", &[])]])), "");
        let two = reason(terms(&[&[no], &[is("cores", "Gt", &["8"])]]));
        assert!(two.contains("disk in (hdd) or cores > 8"), "{two}");
        assert_eq!(reason(terms(&[&[is("cores", "Gt", &["3"])]])), "");
        assert_eq!(reason(terms(&[&[is("zone", "NotIn", &["a"])]])), "");
        assert_eq!(reason(terms(&[&[is("zone", "DoesNotExist", &[])]])), "");
    }

    #[test]
    fn pods_that_run_or_were_not_tried_yet_are_passed_over() {
        let mut facts = facts(json!({"nodeSelector": {"disk": "hdd"}}));
        facts.pods[0]["status"]["phase"] = json!("Running");
        assert_eq!(check(&facts), []);
        facts.pods[0]["status"] = json!({"phase": "Pending"});
        assert_eq!(check(&facts), []);
    }
}
