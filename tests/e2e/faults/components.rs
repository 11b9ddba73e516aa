//! Single components that end: the engine starts them again, and nothing is lost, in memory neither.

use std::time::Instant;

use super::{SOON, status};
use crate::support::{Hoist, Writer, exec, pid, state, tell, until};

/// As the kernel ends a process that is out of memory (exit code 137), not as the engine does, which would
/// keep it from being started again. Returns when the engine has done so.
fn crash(hoist: &Hoist, component: &str) {
    let name = format!("hoist-{}-{component}", hoist.name);
    let started = || state(&name).map(|state| state.started_at);
    let (before, process) = (started(), rustix::process::Pid::from_raw(pid(&name)).expect("a process"));
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("this host's root");
    until(&format!("{component} is started again"), SOON, || {
        if started() == before { Err(format!("{before:?}")) } else { Ok(()) }
    });
}

#[test]
fn no_acknowledged_write_is_lost_with_a_component() {
    let hoist = Hoist::new("crash");
    hoist.ok(&["up", "--nodes", "1"]);
    let writer = Writer::start(&hoist);
    writer.goes_on(Instant::now());
    for component in ["etcd", "kube-apiserver", "dnsmasq"] {
        let begin = Instant::now();
        crash(&hoist, component);
        let again = begin.elapsed();
        writer.goes_on(Instant::now());
        let (again, gap) = (again.as_millis(), writer.longest_gap(begin).as_millis());
        tell(&format!(
            "{component} killed: it ran again after {again} ms, {gap} ms without an acknowledged write"
        ));
    }
    let node = format!("hoist-{}-node01", hoist.name);
    until("a node finds the control plane by its name", SOON, || {
        let found = exec(&node, &["getent", "ahostsv4", "control-plane"]);
        if found.code == 0 { Ok(()) } else { Err(found.stdout + &found.stderr) }
    });
    until("status is well again", SOON, || {
        let (code, status) = status(&hoist);
        if code == Some(0) { Ok(()) } else { Err(status.to_string()) }
    });
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("etcd, kube-apiserver and dnsmasq killed: none of {count} acknowledged writes lost"));
}
