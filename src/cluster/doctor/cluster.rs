//! Nodes and requests of a cluster that is there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::machine::skewed;
use super::{ClusterFacts, Facts, Silent, State, Told, Verdict, count};

/// Conditions that end the life of a request (certificates.k8s.io/v1).
const ANSWERS: [&str; 3] = ["Approved", "Denied", "Failed"];

/// The cluster's facts; checks of clusters run only where there is one.
pub(super) fn of(facts: &Facts) -> Result<&ClusterFacts, Silent> {
    facts.cluster.as_ref().ok_or_else(|| Silent::Skipped("there is no cluster".to_owned()))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn addresses(facts: &Facts) -> Verdict {
    let nodes = of(facts)?.nodes.as_ref()?;
    let mut owners: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        let internal = addresses.filter(|address| address["type"] == "InternalIP");
        let addresses = internal.filter_map(|address| Some(("address", address["address"].as_str()?)));
        let ranges = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
        let ranges = ranges.filter_map(|range| Some(("range of pods", range.as_str()?)));
        for thing in addresses.chain(ranges) {
            owners.entry(thing).or_default().push(name(node));
        }
    }
    let mut told = Told::new(count(nodes.len(), "node"));
    for ((what, value), names) in owners.into_iter().filter(|(_, names)| names.len() > 1) {
        told = told.with(
            State::Fail,
            format!("{what} {value} is that of {}", names.join(" and ")),
            "remove all of them but one with `hoist kubectl delete node NAME`, and let the others join again under names and \
             addresses of their own",
        );
    }
    Ok(told)
}

pub(super) fn clocks(facts: &Facts) -> Verdict {
    let clocks = of(facts)?.clocks.as_ref()?;
    if clocks.is_empty() {
        return Err(Silent::Skipped("hoist runs none of its nodes' machines".to_owned()));
    }
    let mut told = Told::new(count(clocks.len(), "machine"));
    let mut silent = Vec::new();
    for (name, clock) in clocks {
        match clock {
            Ok(skew) => told.findings.extend(skewed(&format!("{name}'s clock"), *skew).findings),
            Err(why) => silent.push(format!("{name} can't be asked: {why}")),
        }
    }
    if told.findings.is_empty() && !silent.is_empty() {
        return Err(Silent::Unknown(silent.join("; ")));
    }
    told.seen = [vec![told.seen], silent].concat().join("; ");
    Ok(told)
}

pub(super) fn requests(facts: &Facts) -> Verdict {
    let requests = of(facts)?.requests.as_ref()?;
    let answered = |request: &&Value| {
        let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter_map(|one| one["type"].as_str()).any(|kind| ANSWERS.contains(&kind))
    };
    let waiting: Vec<_> = requests.iter().filter(|request| !answered(request)).collect();
    let mut told = Told::new(format!("{}, {} waiting", count(requests.len(), "request"), waiting.len()));
    for request in waiting {
        let text = |field: &str| request["spec"][field].as_str().unwrap_or_default();
        told = told.with(
            State::Warn,
            format!(
                "{} of {} for {} waits since {}",
                name(request),
                text("username"),
                text("signerName"),
                request["metadata"]["creationTimestamp"].as_str().unwrap_or_default()
            ),
            format!(
                "look at it with `hoist kubectl describe csr {0}`, then `hoist kubectl certificate approve {0}` or deny it",
                name(request)
            ),
        );
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{facts, judged};
    use super::super::{Facts, Skew};
    use super::*;
    use crate::error::BoxError;

    type Check = Result<(), BoxError>;

    fn with(set: impl FnOnce(&mut ClusterFacts)) -> Result<Facts, BoxError> {
        let mut facts = facts()?;
        let mut cluster = ClusterFacts::unknown("not looked at");
        set(&mut cluster);
        facts.cluster = Some(cluster);
        Ok(facts)
    }

    #[test]
    fn an_address_of_two_nodes_is_told_with_both() -> Check {
        let node = |name: &str, address: &str, range: &str| {
            json!({"metadata": {"name": name}, "spec": {"podCIDRs": [range]},
                   "status": {"addresses": [{"type": "InternalIP", "address": address},
                                            {"type": "Hostname", "address": "same"}]}})
        };
        let one = node("a", "192.168.66.101", "10.244.0.0/24");
        for (other, state, words) in [
            (node("b", "192.168.66.102", "10.244.1.0/24"), State::Ok, "2 nodes"),
            (
                node("b", "192.168.66.101", "10.244.1.0/24"),
                State::Fail,
                "address 192.168.66.101 is that of a and b",
            ),
            (node("b", "192.168.66.102", "10.244.0.0/24"), State::Fail, "range of pods 10.244.0.0/24"),
        ] {
            let (told, said) = judged(&with(|c| c.nodes = Ok(vec![one.clone(), other]))?, "node-addresses");
            assert!(told == state && said.contains(words), "{said}");
        }
        Ok(())
    }

    #[test]
    fn a_request_nobody_has_answered_warns() -> Check {
        let request = |conditions: Value| {
            json!({"metadata": {"name": "csr-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
                   "spec": {"username": "u", "signerName": "example.com/s"}, "status": {"conditions": conditions}})
        };
        for (conditions, state) in [
            (json!(null), State::Warn),
            (json!([{"type": "Approved"}]), State::Ok),
            (json!([{"type": "Denied"}]), State::Ok),
            (json!([{"type": "Other"}]), State::Warn),
        ] {
            let (told, said) = judged(&with(|c| c.requests = Ok(vec![request(conditions)]))?, "pending-csrs");
            assert_eq!(told, state, "{said}");
        }
        Ok(())
    }

    #[test]
    fn a_machine_that_can_not_be_asked_hides_no_other() -> Check {
        let clock =
            |name: &str, clock: Result<i64, &str>| (name.to_owned(), clock.map(Skew).map_err(str::to_owned));
        for (clocks, state) in [
            (vec![], State::Skipped),
            (vec![clock("a", Ok(0)), clock("b", Ok(1999))], State::Ok),
            (vec![clock("a", Ok(0)), clock("b", Err("it doesn't run"))], State::Unknown),
            (vec![clock("a", Ok(-2000)), clock("b", Err("it doesn't run"))], State::Warn),
            (vec![clock("a", Ok(2000)), clock("b", Ok(300_000))], State::Fail),
        ] {
            assert_eq!(judged(&with(|c| c.clocks = Ok(clocks))?, "node-clocks").0, state);
        }
        let unlisted = with(|c| c.clocks = Err("no answer".to_owned()))?;
        assert_eq!(judged(&unlisted, "node-clocks"), (State::Unknown, "no answer".to_owned()));
        Ok(())
    }
}
