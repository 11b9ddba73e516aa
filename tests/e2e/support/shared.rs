//! One cluster of two nodes for all checks that leave it as they found it.
//!
//! libtest has no hook for the end of a run, and a run may be killed. So a small process waits for
//! the end of this one, however it comes, at the other end of a pipe, and takes the cluster down.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::hoist::{Done, Hoist, events};

/// The token that kubevirtci's machines are started with.
pub(crate) const CONFIG_TOKEN: &str = "abcdef.1234567890123456";

/// A proxy that answers nobody: what goes there fails.
const DEAD_PROXY: &str = "http://127.0.0.1:9";

pub(crate) struct Shared {
    pub(crate) hoist: Hoist,
    /// The run of `up` that made it, with everything it can log.
    pub(crate) up: Done,
}

static SHARED: LazyLock<Result<Shared, String>> = LazyLock::new(start);

/// Checks that only look run side by side; one that disturbs the cluster runs by itself.
static TURN: RwLock<()> = RwLock::new(());

/// The shared cluster, undisturbed while the guard lives.
pub(crate) fn calm() -> (&'static Shared, RwLockReadGuard<'static, ()>) {
    let shared = shared();
    (shared, TURN.read().unwrap_or_else(PoisonError::into_inner))
}

/// The shared cluster, for a check that disturbs it and mends it again.
pub(crate) fn alone() -> (&'static Shared, RwLockWriteGuard<'static, ()>) {
    let shared = shared();
    (shared, TURN.write().unwrap_or_else(PoisonError::into_inner))
}

fn shared() -> &'static Shared {
    match &*SHARED {
        Ok(shared) => shared,
        Err(error) => panic!("the shared cluster did not come up:\n{error}"),
    }
}

fn start() -> Result<Shared, String> {
    let mut hoist = Hoist::new("shared");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        hoist = hoist.env(name, DEAD_PROXY);
    }
    take_down_at_the_end(&hoist);
    let config = hoist.config(&format!("token: {CONFIG_TOKEN}\nnodes:\n- count: 2\n"));
    let up = hoist.run(&["-vv", "up", "--config", &config, "--progress", "json"]);
    if up.code != Some(0) {
        return Err(up.stderr);
    }
    for event in events(&up.stderr) {
        if let (Some(level), Some(at)) = (event["level"].as_str(), event["atMs"].as_u64()) {
            super::tell(&format!("shared cluster: level {level} after {at} ms"));
        }
        if let (Some(phase), Some(took)) = (event["phase"].as_str(), event["elapsedMs"].as_u64()) {
            super::tell(&format!("shared cluster: phase {phase} took {took} ms"));
        }
    }
    Ok(Shared { hoist, up })
}

/// Waits for the end of the tests, then tries until no `up` of theirs is at work any more.
const REAP: &str = r#"
home=$1; shift; cat >/dev/null
tries=0; until "$@"; do tries=$((tries + 1)); [ "$tries" -lt 120 ] || break; sleep 1; done
rm -rf "$home"
"#;

/// It keeps stderr open, so that whoever reads the output of the tests to its end waits for it.
fn take_down_at_the_end(hoist: &Hoist) {
    let down = hoist.command(&["down"]);
    let mut reaper = std::process::Command::new("/bin/sh");
    reaper.args(["-c", REAP, "reaper"]);
    reaper.arg(hoist.home()).arg(down.get_program()).args(down.get_args());
    for (name, value) in down.get_envs() {
        match value {
            Some(value) => reaper.env(name, value),
            None => reaper.env_remove(name),
        };
    }
    // Ctrl-C goes to the group of the tests, not to this.
    let reaper = reaper.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).spawn();
    // The pipe's end lives as long as this process.
    std::mem::forget(reaper.expect("a shell can be started").stdin);
}
