//! Several clusters on one engine.

use std::collections::BTreeSet;

use crate::support::{Hoist, containers, things};

#[test]
fn kind_1596_four_creates_at_once_share_nothing() {
    let hoists: Vec<_> = (1..=4).map(|n| Hoist::new(&format!("par{n}"))).collect();
    let ups: Vec<_> = hoists.iter().map(|hoist| hoist.start(&["up", "--nodes", "0"])).collect();
    for (hoist, up) in hoists.iter().zip(ups) {
        let done = crate::support::wait(up);
        assert_eq!(done.code, Some(0), "{}: {}", hoist.name, done.stderr);
    }
    let servers: BTreeSet<_> = hoists
        .iter()
        .map(|hoist| hoist.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]))
        .collect();
    assert_eq!(servers.len(), 4, "{servers:?}");
    for hoist in &hoists {
        hoist.kubectl(&["create", "configmap", &hoist.name]);
    }
    for hoist in &hoists {
        let found = hoist.kubectl(&["get", "configmaps", "-n", "default", "-o", "name"]);
        let own = found.lines().filter(|line| line.contains("/e2e-up-")).collect::<Vec<_>>();
        assert_eq!(own, [format!("configmap/{}", hoist.name)]);
    }

    let (first, others) = hoists.split_first().expect("four");
    let before: Vec<_> = others.iter().map(|hoist| containers(&hoist.name)).collect();
    first.ok(&["down"]);
    assert_eq!(things(&first.name), Vec::<String>::new());
    let after: Vec<_> = others.iter().map(|hoist| containers(&hoist.name)).collect();
    assert_eq!(before, after);
    for hoist in others {
        assert_eq!(hoist.kubectl(&["get", "--raw", "/readyz"]), "ok");
    }
    std::thread::scope(|scope| {
        for hoist in others {
            scope.spawn(|| hoist.ok(&["down"]));
        }
    });
}
