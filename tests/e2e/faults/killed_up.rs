//! `up` that is ended at every boundary of its phases, at calls within them, and beside another.

use std::time::Instant;

use hoist_phases::phases::PHASES;
use serde_json::Value;

use super::{CONFLICT, SOON, status};
use crate::support::{Hoist, tell, things, until, wait};

/// Which of the calls to engine and API end a run: every so many.
const EVERY: usize = 4;

fn killed_at(place: &str, number: usize) {
    let hoist = Hoist::new("fault").env("HOIST_FAULT", place);
    let up = hoist.run(&["up", "--nodes", "1", "--wait", "nodes"]);
    assert_eq!(up.code, None, "{place}: up wasn't killed: {}", up.stderr);
    // Every other time the cluster is taken down as it is, otherwise finished first.
    if number.is_multiple_of(2) {
        let begin = Instant::now();
        let hoist = Heir(&hoist);
        hoist.ok(&["up", "--nodes", "1"]);
        let (code, status) = status(hoist.0);
        assert_eq!(code, Some(0), "{place}: {status}");
        tell(&format!("up killed at {place}: another finished it in {} ms", begin.elapsed().as_millis()));
    }
    let begin = Instant::now();
    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new(), "{place}");
    assert!(!hoist.state().exists(), "{place}");
    tell(&format!("up killed at {place}: down took {} ms", begin.elapsed().as_millis()));
}

/// The same cluster without the fault.
struct Heir<'a>(&'a Hoist);

impl Heir<'_> {
    fn ok(&self, args: &[&str]) {
        let mut command = self.0.command(args);
        let done = crate::support::Done::of({
            command.env_remove("HOIST_FAULT");
            command
        });
        assert_eq!(done.code, Some(0), "hoist {args:?}: {}", done.stderr);
    }
}

#[test]
fn k3d_683_an_up_killed_between_phases_is_finished_or_taken_down() {
    let ends = PHASES.iter().map(|phase| format!("finished:{}", phase.id));
    // Where one phase begins, another has ended: the beginnings of those that run side by side.
    let begins =
        ["network", "etcd", "control-plane", "machines", "nodes"].map(|phase| format!("started:{phase}"));
    for (number, place) in begins.into_iter().chain(ends).enumerate() {
        killed_at(&place, number);
    }
}

#[test]
fn an_up_killed_within_phases_is_finished_or_taken_down() {
    let hoist = Hoist::new("calls");
    let profile = hoist.home().join("up.json");
    hoist.ok(&["up", "--nodes", "1", "--wait", "nodes", "--profile", &profile.display().to_string()]);
    let trace: Value = serde_json::from_slice(&std::fs::read(profile).expect("a profile")).expect("JSON");
    let is_call = |event: &&Value| event["cat"] == "engine" || event["cat"] == "api";
    let calls = trace["traceEvents"].as_array().expect("events").iter().filter(is_call).count();
    hoist.ok(&["down"]);
    // The last third asks whether the cluster is ready yet; how often differs from run to run.
    let places = (1..calls * 2 / 3).step_by(EVERY).map(|call| format!("call:{call}"));
    for (number, place) in places.enumerate() {
        killed_at(&place, number);
    }
}

/// One has the lock, the other says so.
#[test]
fn two_ups_of_one_name_do_not_break_each_other() {
    let hoist = Hoist::new("twice");
    let first = hoist.start(&["up", "--nodes", "1"]);
    until("the first is at work", SOON, || {
        if things(&hoist.name).is_empty() { Err("nothing is made".to_owned()) } else { Ok(()) }
    });
    let second = hoist.run(&["up", "--nodes", "1"]);
    assert_eq!(second.code, Some(CONFLICT), "{}", second.stderr);
    assert!(second.stderr.contains("another hoist is at work"), "{}", second.stderr);
    let first = wait(first);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(status(&hoist).0, Some(0));
}
