//! Runs that come to a sudden end.

use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Hoist, containers, things, until, wait};

/// Waits until `up` has made a container, or has ended, which is a failure.
fn made(hoist: &Hoist, up: &mut Child, role: &str) {
    let name = format!("hoist-{}-{role}", hoist.name);
    until(&format!("{name} is made"), Duration::from_secs(120), || {
        if let Some(status) = up.try_wait().expect("a child") {
            panic!("up ended before {name} was made: {status}");
        }
        let names: Vec<_> = containers(&hoist.name).into_iter().map(|container| container.name).collect();
        if names.contains(&name) { Ok(()) } else { Err(format!("{names:?}")) }
    });
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a child of this process");
}

#[test]
fn an_interrupted_up_leaves_nothing() {
    for (role, sent) in [("owner", Signal::INT), ("kube-apiserver", Signal::INT), ("node01", Signal::TERM)] {
        let hoist = Hoist::new("int");
        let mut up = hoist.start(&["up", "--nodes", "1"]);
        made(&hoist, &mut up, role);
        signal(&up, sent);
        let done = wait(up);
        assert_eq!(done.code, Some(130), "{role}: {}", done.stderr);
        assert_eq!(things(&hoist.name), Vec::<String>::new(), "{role}: {}", done.stderr);
        assert!(!hoist.state().exists(), "{role}");
    }
}

#[test]
fn k3d_683_a_killed_up_can_be_taken_down() {
    for role in ["owner", "etcd", "kube-apiserver", "node01"] {
        let hoist = Hoist::new("kill");
        let mut up = hoist.start(&["up", "--nodes", "1"]);
        made(&hoist, &mut up, role);
        signal(&up, Signal::KILL);
        assert_eq!(wait(up).code, None, "{role}");
        let down = hoist.run(&["down"]);
        assert_eq!(down.code, Some(0), "{role}: {}", down.stderr);
        assert_eq!(things(&hoist.name), Vec::<String>::new(), "{role}: {}", down.stderr);
        assert!(!hoist.state().exists(), "{role}");
    }
}

/// Keys may be lost with the directory that held them: labels are enough.
#[test]
fn down_works_without_the_state_directory() {
    let hoist = Hoist::new("nostate");
    hoist.ok(&["up", "--nodes", "0", "--wait", "join"]);
    std::fs::remove_dir_all(hoist.state()).expect("the state directory");
    let up = hoist.run(&["up", "--nodes", "0"]);
    assert_eq!(up.code, Some(8), "{}", up.stderr);
    assert!(up.stderr.contains("hint: ") && up.stderr.contains("hoist down"), "{}", up.stderr);
    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new());
}
