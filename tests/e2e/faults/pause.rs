//! A cluster that is frozen and goes on.

use std::time::{Duration, Instant};

use super::{NOT_WELL, status};
use crate::support::{Hoist, Writer, tell, things};

/// Longer than the controller-manager waits for a node's report (40 s, and 50 s from Kubernetes 1.32 on).
const FROZEN: Duration = Duration::from_secs(55);

#[test]
fn a_paused_cluster_goes_on_where_it_was() {
    let hoist = Hoist::new("pause");
    hoist.ok(&["up", "--nodes", "1"]);
    let pods = || hoist.kubectl(&["get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.uid}"]);
    let (writer, before) = (Writer::start(&hoist), pods());
    writer.goes_on(Instant::now());

    hoist.ok(&["pause"]);
    let begin = Instant::now();
    let (code, told) = status(&hoist);
    assert_eq!((code, told["overall"].as_str()), (Some(NOT_WELL), Some("paused")), "{told}");
    // Nothing is waited for: this is the time that passes for everybody else.
    std::thread::sleep(FROZEN);
    let resumed = Instant::now();
    hoist.ok(&["resume"]);
    let after = writer.goes_on(resumed);
    tell(&format!(
        "paused for {} s: resumed in {} ms, the next write after {} ms",
        (resumed - begin).as_secs(),
        resumed.elapsed().as_millis(),
        after.as_millis()
    ));
    assert_eq!(pods(), before, "no pod was made anew");
    assert_eq!(status(&hoist).0, Some(0));

    // `up` lets it go on too.
    hoist.ok(&["pause"]);
    let up = hoist.run(&["up"]);
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    assert!(up.stderr.contains("was paused"), "{}", up.stderr);
    assert_eq!(pods(), before);
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("paused twice: none of {count} acknowledged writes lost"));

    hoist.ok(&["pause"]);
    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new());
}
