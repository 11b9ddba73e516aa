use serde_json::{Value, json};

use super::*;

type Check = Result<(), Box<dyn std::error::Error>>;

fn node(name: &str, spec: Value, ready: &str) -> Result<Node, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }))
}

fn nodes(names: &[&str]) -> Result<Candidates, serde_json::Error> {
    let nodes = names.iter().map(|name| node(name, json!({}), "True")).collect::<Result<Vec<_>, _>>()?;
    Ok(candidates(&nodes, &Deployment::default()))
}

/// Replicas on these nodes, the last one youngest.
fn on(places: &[&str]) -> Workload {
    let pod = |(index, node): (usize, &&str)| Replica {
        name: format!("p{index}"),
        uid: format!("u{index}"),
        node: (*node).to_owned(),
        ready: true,
        created: i64::try_from(index).unwrap_or_default(),
    };
    Workload {
        key: "n/d".to_owned(),
        namespace: "n".to_owned(),
        uid: "d".to_owned(),
        generation: 1,
        replicas: places.len(),
        settled: true,
        pods: places.iter().enumerate().map(pod).collect(),
    }
}

/// A scheduler that places each evicted pod by `place`; gives the evictions and the last verdict.
fn play(
    workload: &mut Workload,
    candidates: &Candidates,
    memory: &mut Memory,
    place: impl Fn(&Workload) -> String,
) -> (usize, Verdict) {
    let mut evictions = 0;
    loop {
        let Verdict::Evict(pod) = decide(workload, candidates, memory) else {
            return (evictions, decide(workload, candidates, memory));
        };
        assert!(workload.pods.iter().filter(|p| p.ready).count() > 1, "one ready pod stays");
        memory.note(workload, candidates, &pod);
        assert_eq!(decide(workload, candidates, memory), Verdict::Wait, "it isn't seen ending yet");
        workload.pods.retain(|other| other.uid != pod.uid);
        assert_eq!(decide(workload, candidates, memory), Verdict::Wait, "one is missing");
        evictions += 1;
        assert!(evictions < 10, "a loop");
        let name = format!("again{evictions}-{}", pod.name);
        let node = place(workload);
        workload.pods.push(Replica { uid: name.clone(), name, node, created: 100, ..pod });
    }
}

/// As preferred anti-affinity has it: where the fewest are.
fn emptiest<'a>(names: &'a [&'a str]) -> impl Fn(&Workload) -> String + 'a {
    move |workload| {
        let count = |name: &&&str| workload.pods.iter().filter(|pod| pod.node == ***name).count();
        names.iter().min_by_key(count).map_or_else(String::new, |name| (*name).to_owned())
    }
}

#[test]
fn replicas_move_one_by_one_until_each_has_a_node() -> Check {
    let names = ["a", "b", "c"];
    let (mut workload, mut memory) = (on(&["a", "a", "a", "a"]), Memory::default());
    let (evictions, end) = play(&mut workload, &nodes(&names)?, &mut memory, emptiest(&names));
    assert_eq!((evictions, end), (2, Verdict::Spread));
    Ok(())
}

#[test]
fn a_scheduler_that_does_no_better_is_asked_once() -> Check {
    let (mut workload, mut memory) = (on(&["a", "a"]), Memory::default());
    let two = nodes(&["a", "b"])?;
    let (evictions, end) = play(&mut workload, &two, &mut memory, |_| "a".to_owned());
    assert_eq!((evictions, end), (1, Verdict::Futile));
    // Once more for each change of the nodes, though not for a change back.
    let three = nodes(&["a", "b", "c"])?;
    assert_eq!(play(&mut workload, &three, &mut memory, |_| "a".to_owned()), (1, Verdict::Futile));
    assert_eq!(play(&mut workload, &two, &mut memory, |_| "a".to_owned()), (0, Verdict::Futile));
    // And for a change of the Deployment.
    workload.generation += 1;
    assert_eq!(play(&mut workload, &two, &mut memory, |_| "a".to_owned()), (1, Verdict::Futile));
    Ok(())
}

#[test]
fn after_a_node_was_away_all_is_spread_again() -> Check {
    let names = ["a", "b"];
    let (mut workload, mut memory) = (on(&["a", "a"]), Memory::default());
    let two = nodes(&names)?;
    assert_eq!(play(&mut workload, &two, &mut memory, emptiest(&names)), (1, Verdict::Spread));
    workload.pods = on(&["a", "a"]).pods;
    for pod in &mut workload.pods {
        pod.uid.push_str("-new");
    }
    assert_eq!(decide(&workload, &nodes(&["a"])?, &mut memory), Verdict::Spread, "there is one node");
    assert_eq!(play(&mut workload, &two, &mut memory, emptiest(&names)), (1, Verdict::Spread));
    Ok(())
}

#[test]
fn nothing_is_touched_while_anything_is_on_its_way() -> Check {
    let two = nodes(&["a", "b"])?;
    let verdict = |workload: &Workload| decide(workload, &two, &mut Memory::default());
    assert!(matches!(verdict(&on(&["a", "a"])), Verdict::Evict(pod) if pod.name == "p1"));
    assert_eq!(verdict(&Workload { settled: false, ..on(&["a", "a"]) }), Verdict::Wait);
    let mut unready = on(&["a", "a"]);
    unready.pods[0].ready = false;
    assert_eq!(verdict(&unready), Verdict::Wait);
    let mut missing = on(&["a", "a"]);
    missing.pods.pop();
    assert_eq!(verdict(&missing), Verdict::Wait);
    let mut surge = on(&["a", "a"]);
    surge.pods.extend(on(&["a"]).pods);
    assert_eq!(verdict(&surge), Verdict::Wait);
    assert_eq!(verdict(&on(&["a"])), Verdict::Spread, "the only one stays");
    Ok(())
}

#[test]
fn nodes_that_take_no_pods_don_t_count() -> Check {
    let nodes = [
        node("a", json!({}), "True")?,
        node("cordoned", json!({"unschedulable": true}), "True")?,
        node("dead", json!({}), "Unknown")?,
    ];
    let any = Deployment::default();
    let candidates = candidates(&nodes, &any);
    assert_eq!(candidates.names, BTreeSet::from(["a".to_owned()]));
    assert_eq!(decide(&on(&["a", "a"]), &candidates, &mut Memory::default()), Verdict::Spread);
    let tainted = node("a", json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}), "True")?;
    assert_ne!(super::candidates([&tainted], &any).fingerprint, candidates.fingerprint);
    Ok(())
}

#[test]
fn replicas_leave_a_node_that_takes_no_more() -> Check {
    let other = nodes(&["b"])?;
    assert!(matches!(decide(&on(&["closed", "closed"]), &other, &mut Memory::default()), Verdict::Evict(_)));
    assert_eq!(decide(&on(&["closed", "b"]), &other, &mut Memory::default()), Verdict::Spread);
    Ok(())
}

#[test]
fn nodes_that_the_pods_may_not_go_to_don_t_count() -> Check {
    let tainted = |effect: &str| json!({"taints": [{"key": "k", "value": "v", "effect": effect}]});
    let mut nodes = [
        node("a", json!({}), "True")?,
        node("b", json!({}), "True")?,
        node("closed", tainted("NoSchedule"), "True")?,
        node("cleared", tainted("NoExecute"), "True")?,
        node("shunned", tainted("PreferNoSchedule"), "True")?,
    ];
    nodes[1].metadata.labels.get_or_insert_default().insert("disk".to_owned(), "ssd".to_owned());
    let names = |pod: Value| -> Result<String, serde_json::Error> {
        let deployment = json!({"metadata": {}, "spec": {"selector": {}, "template": {"spec": pod}}});
        let found = candidates(&nodes, &serde_json::from_value(deployment)?).names;
        Ok(found.into_iter().collect::<Vec<_>>().join(" "))
    };
    let affinity = |terms: Value| {
        json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let everybody = "a b cleared closed shunned";
    let any_disk = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
    let is_a = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
    for (pod, wanted) in [
        (json!({}), "a b shunned"),
        (json!({"nodeSelector": {"disk": "ssd"}}), "b"),
        (json!({"nodeSelector": {"disk": "hdd"}}), ""),
        (affinity(json!([any_disk])), "b"),
        (affinity(json!([any_disk, is_a])), "a b"),
        (affinity(json!([])), ""),
        (json!({"tolerations": [{"operator": "Exists"}]}), everybody),
        (
            json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]}),
            "a b closed shunned",
        ),
        (json!({"tolerations": [{"key": "k", "value": "v"}]}), everybody),
        (json!({"tolerations": [{"key": "k", "operator": "Equal", "value": "w"}]}), "a b shunned"),
        (json!({"tolerations": [{"key": "other", "operator": "Exists"}]}), "a b shunned"),
        (json!({"tolerations": [{"key": "k", "operator": "Later", "value": "w"}]}), everybody),
    ] {
        assert_eq!(names(pod.clone())?, wanted, "{pod}");
    }
    Ok(())
}

#[test]
fn a_deployments_pods_are_found_by_their_owners() -> Check {
    let owner = |uid: &str| json!([{"apiVersion": "apps/v1", "kind": "X", "name": "x", "uid": uid}]);
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"namespace": "kube-system", "name": "coredns", "uid": "d", "generation": 3},
        "spec": {"replicas": 2, "selector": {}, "template": {}},
        "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2},
    }))?;
    let set = |uid: &str, of: &str| {
        serde_json::from_value::<ReplicaSet>(
            json!({"metadata": {"uid": uid, "ownerReferences": owner(of)}, "spec": {"selector": {}}}),
        )
    };
    let pod = |name: &str, of: &str, ending: bool| {
        let end = ending.then_some("2026-01-01T00:00:00Z");
        serde_json::from_value::<Pod>(json!({
            "metadata": {"name": name, "uid": name, "ownerReferences": owner(of), "deletionTimestamp": end},
            "spec": {"containers": [], "nodeName": "a"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
    };
    let sets = [set("s", "d")?, set("other", "e")?];
    let pods = [pod("mine", "s", false)?, pod("ending", "s", true)?, pod("theirs", "other", false)?];
    let found = workload(&deployment, &sets.iter().collect::<Vec<_>>(), &pods.iter().collect::<Vec<_>>());
    assert!(found.settled);
    assert_eq!(found.pods.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["mine"]);

    let spread = Spread::default();
    assert!(concerns(&spread, &deployment) && scope(&spread) == Some("kube-system"));
    assert!(!concerns(&Spread { enabled: false, ..Spread::default() }, &deployment));
    let mut other = deployment;
    other.metadata.namespace = Some("kubevirt".to_owned());
    assert!(!concerns(&spread, &other));
    let named = Spread { namespaces: BTreeSet::from(["kubevirt".to_owned()]), ..Spread::default() };
    assert!(concerns(&named, &other) && scope(&named).is_none());
    let labelled = Spread { labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]), ..Spread::default() };
    assert!(!concerns(&labelled, &other) && scope(&labelled).is_none());
    other.metadata.labels = Some(labelled.labels.clone());
    assert!(concerns(&labelled, &other));
    Ok(())
}
