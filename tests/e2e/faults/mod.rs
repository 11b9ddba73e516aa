//! Faults, and what is left of a cluster after each: `make test-faults`, since most of them end a cluster of
//! their own. What each loses, and how long it takes to mend, is told on stderr (docs/reliability.md).

mod certs;
mod components;
mod exhausted;
mod killed_up;
mod leaks;
mod namespace;
mod pause;
mod random;
mod reboot;
mod reports;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;

use crate::support::{Done, Hoist, block, containers, engine, tell};

/// The exit code of a cluster that isn't well, and of one that another hoist works on.
const NOT_WELL: i32 = 9;
const CONFLICT: i32 = 8;

/// Long enough for a machine that does other things as well.
const SOON: Duration = Duration::from_secs(120);

/// `status` as it is printed, with its exit code.
fn status(hoist: &Hoist) -> (Option<i32>, Value) {
    let done = hoist.run(&["status", "-o", "json"]);
    (done.code, serde_json::from_str(&done.stdout).unwrap_or_default())
}

/// Names of a cluster's containers.
fn names(hoist: &Hoist, which: impl Fn(&str) -> bool) -> Vec<String> {
    let role = |name: &str| name.trim_start_matches(&format!("hoist-{}-", hoist.name)).to_owned();
    let all = containers(&hoist.name).into_iter().map(|container| container.name);
    all.filter(|name| which(&role(name))).collect()
}

/// SIGKILL to all of them side by side. The engine takes that for the user's wish and starts none again.
fn kill_all(names: &[String]) {
    block(join_all(names.iter().map(|name| engine().docker().kill_container(name, None))));
}

/// `up` without flags; tells how long it took to mend a fault.
fn mend(hoist: &Hoist, fault: &str) -> Done {
    let begin = Instant::now();
    let done = hoist.run(&["up"]);
    assert_eq!(done.code, Some(0), "{fault}: {}", done.stderr);
    tell(&format!("{fault}: up mended it in {} ms", begin.elapsed().as_millis()));
    let (code, status) = status(hoist);
    assert_eq!(code, Some(0), "{fault}: {status}");
    done
}
