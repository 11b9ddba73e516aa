//! What is done on each node, step by step: a shell script each, run as root. The provider does the
//! same; here the nodes are done side by side.

mod devices;
mod init;
mod kubelet;
mod memory;
mod network;
mod system;

use std::fmt::Write as _;
use std::time::Duration;

use hoist_phases::ports::Runtime as _;

use super::args::RunArgs;
use super::guest;
use super::{Cluster, node_name};
use crate::error::BoxError;
use crate::report;

pub(super) use init::{addons, admin_conf, init_node01, nodes_are_known};

/// One step on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// For messages: what is tried.
    pub(super) name: &'static str,
    pub(super) script: String,
    /// A cluster without it is of use all the same: a failure is only told.
    pub(super) optional: bool,
}

impl Step {
    pub(super) fn new(name: &'static str, script: impl Into<String>) -> Self {
        Self { name, script: script.into(), optional: false }
    }

    fn optional(name: &'static str, script: impl Into<String>) -> Self {
        Self { optional: true, ..Self::new(name, script) }
    }
}

/// What a node needs before it becomes part of a cluster, in order.
pub(super) fn before_join(args: &RunArgs, number: u32) -> Vec<Step> {
    let mut steps = vec![system::root_key()];
    steps.extend(system::docker_proxy(&args.docker_proxy));
    steps.extend(args.switches.enable_realtime_scheduler.then(system::realtime));
    steps.push(devices::sound_cards());
    steps.push(network::named());
    steps.push(memory::no_swap());
    steps.extend(args.switches.enable_secondary_nic_bridges.then(network::secondary_bridges));
    steps.push(system::runtime_is_up());
    steps.extend(kubelet::settings(args, number));
    steps
}

/// What can be set once the kubelet has its configuration.
pub(super) fn after_join(args: &RunArgs) -> Vec<Step> {
    let mut steps = vec![system::rook_directory()];
    steps.extend(args.switches.enable_ksm.then(|| memory::ksm(args.ksm_page_count, args.ksm_scan_interval)));
    if args.switches.enable_swap {
        steps.extend(memory::swap(args));
    }
    steps.extend(network::vsock(&args.vsock_child_ns_mode));
    steps
}

/// Turns FIPS mode on, for which a machine has to start again.
pub(super) async fn fips(cluster: &Cluster, number: u32) -> Result<(), BoxError> {
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = guest::script(cluster, number, "read the boot id", boot).await?;
    guest::script(cluster, number, "turn FIPS mode on", "fips-mode-setup --enable").await?;
    // The connection may break before the answer comes.
    let _ = guest::script(cluster, number, "start again", "systemctl reboot").await;
    let started_again = async {
        loop {
            guest::boot(cluster, number).await?;
            match guest::script(cluster, number, "read the boot id", boot).await {
                Ok(now) if now != before => return Ok::<_, BoxError>(()),
                _ => tokio::time::sleep(system::POLL).await,
            }
        }
    };
    match tokio::time::timeout(RESTART_WITHIN, started_again).await {
        Ok(result) => result,
        Err(_) => {
            let told = format!("it has not within {} s", RESTART_WITHIN.as_secs());
            Err(guest::failed(number, "start again in FIPS mode", 1, &told).into())
        }
    }
}

/// An emulated machine needs minutes.
const RESTART_WITHIN: Duration = Duration::from_secs(15 * 60);

/// Time for all steps of one login: an emulated machine needs minutes, one that hangs doesn't end.
const PROVISION_WITHIN: Duration = Duration::from_secs(30 * 60);

/// Starts a line of a node's stderr that tells which step comes next.
const STEP: &str = "::step ";
/// Starts one that tells of an optional step's failure.
const FAILED: &str = "::failed ";

/// Runs steps one after another, in one login: an emulated machine takes seconds for each.
///
/// # Errors
/// The first one that fails and isn't optional.
pub(super) async fn run(cluster: &Cluster, number: u32, steps: &[Step]) -> Result<(), BoxError> {
    let command = [guest::SSH, "sudo", "bash", "-s"];
    let (node, script) = (cluster.node(number), joined(steps));
    let provisioning = cluster.engine.exec(&node, &command, script.as_bytes());
    let Ok(output) = tokio::time::timeout(PROVISION_WITHIN, provisioning).await else {
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        let told = format!("not within {} s", PROVISION_WITHIN.as_secs());
        return Err(guest::failed(number, &names.join(", "), 1, &told).into());
    };
    let output = output?;
    for (step, told) in failed_optional(&output.stderr) {
        report::tell(format_args!("warning: {}: {step} failed: {told}", node_name(number)));
    }
    if output.code == 0 {
        return Ok(());
    }
    let (step, told) = last_step(&output.stderr);
    let text = format!("{}\n{told}", output.stdout);
    Err(guest::failed(number, step, output.code, &text).into())
}

/// The steps as one script. Each has a shell of its own, so that one's settings don't touch the next.
fn joined(steps: &[Step]) -> String {
    let mut script = String::new();
    for Step { name, script: step, optional } in steps {
        let (step, tell) = (guest::quote(step), guest::quote(&format!("{STEP}{name}")));
        let otherwise = match optional {
            true => format!("echo {} >&2", guest::quote(&format!("{FAILED}{name}"))),
            false => "exit $?".to_owned(),
        };
        let _ = writeln!(script, "echo {tell} >&2\nbash -euc {step} </dev/null || {otherwise}");
    }
    script
}

/// The step that a node was at when it stopped, and what it said.
fn last_step(stderr: &str) -> (&str, &str) {
    let Some((_, last)) = stderr.rsplit_once(STEP) else { return ("log in", stderr) };
    let (name, told) = last.split_once('\n').unwrap_or((last, ""));
    (name, told.trim())
}

/// Optional steps that failed, with what they said.
fn failed_optional(stderr: &str) -> Vec<(&str, &str)> {
    let sections = stderr.split(STEP).filter_map(|section| {
        let (told, _) = section.split_once(FAILED)?;
        let (name, told) = told.split_once('\n')?;
        Some((name, told.trim()))
    });
    sections.collect()
}

/// The shell's `until CONDITION`, with a limit in seconds, to which what the condition itself takes
/// is added: minutes in all in an emulated machine.
pub(super) fn wait_for(condition: &str, seconds: u32) -> String {
    let tries = seconds * 5;
    format!(
        "tries={tries}; until {condition}; do tries=$((tries - 1)); [ $tries -gt 0 ] || exit 1; sleep 0.2; done"
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use super::super::refuse::testing::args;
    use super::*;

    fn names(steps: &[Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    /// Every flag that a step of any machine comes from.
    const FLAGS: [&str; 9] = [
        "--docker-proxy=http://proxy:3128",
        "--enable-realtime-scheduler",
        "--enable-secondary-nic-bridges",
        "--enable-ksm",
        "--enable-swap",
        "--swap-size=2",
        "--swap-behavior=LimitedSwap",
        "--swapiness=60",
        "--vsock-child-ns-mode=local",
    ];

    #[test]
    fn a_plain_node_gets_what_every_node_gets() {
        let plain = args(&[]);
        assert_eq!(
            names(&before_join(&plain, 1)),
            [
                "let root log in",
                "bind the sound cards to vfio-pci",
                "get a name and addresses",
                "turn swap off",
                "wait for the container runtime"
            ]
        );
        // node01 keeps the kubelet's settings of the image: no static CPU manager there.
        assert_eq!(names(&before_join(&plain, 2)).last(), Some(&"set the kubelet up"));
        assert_eq!(names(&after_join(&plain)), ["make rook's directory"]);
    }

    #[test]
    fn each_flag_adds_its_step() {
        let all = args(&FLAGS);
        assert_eq!(before_join(&all, 2).len(), before_join(&args(&[]), 2).len() + 3);
        assert_eq!(
            names(&after_join(&all)),
            [
                "make rook's directory",
                "turn KSM on",
                "make a swap file",
                "turn swap on",
                "set the swappiness",
                "let the kubelet use swap",
                "set vsock's mode"
            ]
        );
    }

    #[test]
    fn a_failure_is_told_with_its_step() {
        let run = |steps: &[Step]| {
            let output = std::process::Command::new("bash").args(["-c", &joined(steps)]).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let steps = [
            Step::new("a", "true"),
            Step::optional("it's b", "echo no b >&2; false; echo unreached >&2"),
            Step::new("c", "cd /; x='it is'; echo \"$x\" >&2"),
            Step::new("d", "echo why >&2; exit 7"),
            Step::new("e", "true"),
        ];
        let (code, stderr) = run(&steps);
        assert_eq!((code, last_step(&stderr)), (Some(7), ("d", "why")));
        assert_eq!(failed_optional(&stderr), [("it's b", "no b")]);
        assert_eq!(run(&steps[..3]).0, Some(0));
        assert_eq!(last_step("no route to host"), ("log in", "no route to host"));
    }

    /// A script that bash can't read would only be found out by the one flag that needs it.
    #[test]
    fn every_script_is_well_formed() {
        let of_init = [
            "--single-stack",
            "--flannel",
            "--enable-audit",
            "--enable-psa",
            "--no-etcd-fsync",
            "--run-etcd-on-memory",
        ];
        let all = args(&[&FLAGS[..], &of_init[..]].concat());
        let mut steps = before_join(&all, 1);
        steps.extend(before_join(&all, 2));
        steps.extend(after_join(&all));
        steps.extend(init_node01(&all));
        steps.extend(addons(&all, "fd00::1"));
        steps.extend(nodes_are_known(&args(&["--nodes=2"])));
        steps.push(Step::new("all of them", joined(&steps)));
        for step in steps {
            let checked =
                std::process::Command::new("bash").args(["-n", "-c", &step.script]).output().unwrap();
            assert!(checked.status.success(), "{}: {}", step.name, String::from_utf8_lossy(&checked.stderr));
        }
    }
}
