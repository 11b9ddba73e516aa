//! Faults by chance under a write load, for as long as one asks: whatever happens, `status` tells the truth,
//! `up` mends it, and nothing that was acknowledged is lost but what can't be kept.

mod blows;

use std::time::{Duration, Instant};

use hoist_phases::ports::{ContainerState, Runtime as _, Status};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rustix::process::{Pid, Signal, kill_process};

use self::blows::{Blow, Round, containers, round};
use super::{NOT_WELL, SOON, status};
use crate::support::{CONTROL_PLANE, Hoist, PrivateEngine, Writer, block, tell, until, wait};

/// Seconds of each cluster, when `HOIST_FAULT_SECONDS` says nothing else.
const SECONDS: u64 = 90;

/// Longest time for `status`, whatever has happened to the cluster.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Files that no fault is a reason to make anew.
const KEPT: [&str; 5] = ["ca.crt", "ca.key", "sa.key", "apiserver.crt", "etcd/ca.crt"];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

/// Printed when the test fails, so that what led to it can be done again.
struct History {
    seed: u64,
    rounds: usize,
    lines: Vec<String>,
}

impl Drop for History {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tell(&format!("HOIST_FAULT_SEED={}, what was done:\n{}", self.seed, self.lines.join("\n")));
        }
    }
}

struct Cluster {
    hoist: Hoist,
    durable: bool,
    kept: Vec<Vec<u8>>,
}

impl Cluster {
    fn start(private: &PrivateEngine, durable: bool) -> Self {
        let what = if durable { "random-disk" } else { "random-memory" };
        let hoist = Hoist::new(what).on(private);
        let durable_flag = if durable { &["--durable-etcd"][..] } else { &[] };
        hoist.ok(&[&["up", "--nodes", "2"], durable_flag].concat());
        let kept = kept(&hoist);
        Self { hoist, durable, kept }
    }

    fn states(&self, private: &PrivateEngine) -> Vec<ContainerState> {
        let mut all = block(private.engine().list(Some(&self.hoist.name))).expect("the engine answers");
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// `status` never says that all is well while a container is down; gives its exit code and whether it
    /// says that data is lost.
    fn truth(&self, private: &PrivateEngine) -> (i32, bool) {
        let before = self.states(private);
        let begin = Instant::now();
        let (code, told) = status(&self.hoist);
        let took = begin.elapsed();
        let after = self.states(private);
        assert!(took < ANSWERS_WITHIN, "status took {} ms", took.as_millis());
        let code = code.expect("status ends by itself");
        assert!(code == 0 || code == NOT_WELL, "status ends with {code}: {told}");
        // What was down the whole time; the engine may start the others again in between.
        let down: Vec<_> = before
            .iter()
            .filter(|state| state.status != Status::Running && after.contains(state))
            .map(|state| format!("{} is {:?}", state.name, state.status))
            .collect();
        assert!(code == NOT_WELL || down.is_empty(), "status says all is well: {down:?}\n{told}");
        (code, told["problems"].to_string().contains("data lost"))
    }

    /// Blow, look, mend, look; gives a line on how it went.
    fn go(&self, private: &mut PrivateEngine, round: &Round, history: &mut History) {
        let hoist = &self.hoist;
        let writer = Writer::start(hoist);
        writer.goes_on(Instant::now());
        let words = round.blow.strike(private, hoist);
        history.rounds += 1;
        let (begin, number) = (Instant::now(), history.rounds);
        history.lines.push(format!("{number}: {words}; killed up: {:?}", round.killed_up));
        if let Blow::Cable(_) = round.blow {
            // The cluster takes 40 s to judge a node that is silent.
            until("a node without a link is told of", SOON, || match self.truth(private) {
                (NOT_WELL, _) => Ok(()),
                (code, _) => Err(code.to_string()),
            });
        }
        let (mut code, mut lost) = self.truth(private);
        if let Some(after) = round.killed_up {
            kill_up(hoist, after);
            let (now, lost_now) = self.truth(private);
            (code, lost) = (now, lost || lost_now);
        }
        round.blow.undo(private, hoist);
        let up = hoist.run(&["up"]);
        assert_eq!(up.code, Some(0), "{words}: {}", up.stderr);
        lost |= up.stderr.contains("data of cluster");
        until("all is well after up", SOON, || match self.truth(private) {
            (0, _) => Ok(()),
            (code, _) => Err(format!("exit code {code}: {}", hoist.run(&["status"]).stdout)),
        });
        let mended = begin.elapsed();
        writer.goes_on(Instant::now());

        assert!(!(lost && self.durable), "data on disk is told to be lost");
        let writes = if lost { writer.count() } else { writer.nothing_is_lost(hoist) };
        hoist.kubectl(&[
            "delete",
            "--raw",
            "/api/v1/namespaces/default/configmaps?labelSelector=written%3Dyes",
        ]);
        assert!(kept(hoist) == self.kept, "keys or certificates were made anew");
        let line = format!(
            "round {number}: {words}: status {code}, up {}mended it in {} ms, {}",
            if round.killed_up.is_some() { "(the second) " } else { "" },
            mended.as_millis(),
            if lost { "data lost, as told".to_owned() } else { format!("none of {writes} writes lost") }
        );
        tell(&line);
        history.lines.push(line);
    }

    fn end(self, private: &PrivateEngine) {
        self.hoist.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s"]);
        self.hoist.ok(&["down"]);
        assert_eq!(containers(private, &self.hoist), Vec::<String>::new());
        let volumes = block(private.engine().volumes(&self.hoist.name)).expect("the engine answers");
        assert_eq!(volumes, Vec::<String>::new());
        assert!(!self.hoist.state().exists());
    }
}

fn kept(hoist: &Hoist) -> Vec<Vec<u8>> {
    KEPT.iter().map(|name| std::fs::read(hoist.state().join("pki").join(name)).expect("it is kept")).collect()
}

/// Starts an `up` and kills it, if it hasn't ended before.
fn kill_up(hoist: &Hoist, after: Duration) {
    let up = hoist.start(&["up"]);
    // It is a moment by chance that is wanted, not a state.
    std::thread::sleep(after);
    let _ = kill_process(Pid::from_child(&up), Signal::KILL);
    wait(up);
}

#[test]
fn whatever_happens_is_told_and_mended() {
    let seed = number("HOIST_FAULT_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        u64::try_from(now.as_millis()).expect("a time of this age")
    });
    let seconds = number("HOIST_FAULT_SECONDS").unwrap_or(SECONDS);
    tell(&format!("HOIST_FAULT_SEED={seed}"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut history = History { seed, rounds: 0, lines: Vec::new() };

    let mut private = PrivateEngine::start(&[&CONTROL_PLANE[..], &["node"]].concat());
    for durable in [true, false] {
        let cluster = Cluster::start(&private, durable);
        history.lines.push(format!("a cluster, durable: {durable}"));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            let round = round().new_tree(&mut runner).expect("a round").current();
            cluster.go(&mut private, &round, &mut history);
        }
        cluster.end(&private);
    }
}
