//! From the start of a machine's container until its node is Ready, against the same image that only boots.
//! Both start beside a control plane that starts too, as in every `hoist up`.

use std::time::{Duration, SystemTime};

use crate::support::{Hoist, events, inspect};
use crate::{median, table};

/// What a run tells, in seconds from power-on.
struct Run {
    /// multi-user.target is active.
    booted: f64,
    /// Its containerd answers over SSH.
    reached: f64,
    /// `kubeadm join` has ended.
    joined: f64,
    ready: f64,
}

pub(crate) fn run(repeats: usize) {
    let (mut alone, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        alone.push(once(false));
        whole.push(once(true));
    }
    let row = |name: &str, run: &Run| {
        (name.to_owned(), vec![run.booted, run.reached, run.joined, run.ready, run.ready / run.booted])
    };
    let mut rows: Vec<_> = alone.iter().map(|run| row("boots", run)).collect();
    rows.extend(whole.iter().map(|run| row("joins", run)));
    table(&["machine", "multi-user", "containerd", "joined", "Ready", "Ready/boot"], &rows);
    let boot = median(alone.iter().map(|run| run.booted));
    let ready = median(whole.iter().map(|run| run.ready));
    println!("medians: boot {boot:.2} s, Ready {ready:.2} s, ratio {:.2}", ready / boot);
}

fn once(joins: bool) -> Run {
    let hoist = Hoist::new("bench-vm-boot");
    let rest = if joins { "wait: nodes" } else { "skipPhases: [nodes]\nwait: api" };
    let config = hoist.config(&format!("nodes:\n- kind: vm\ntimeout: 25m\n{rest}\n"));
    let begin = SystemTime::now();
    let up = hoist.run(&["up", "--config", &config, "--progress", "json"]);
    assert_eq!(up.code, Some(0), "{}", up.stderr);

    let machine = inspect(&format!("hoist-{}-node01", hoist.name));
    let on = machine["State"]["StartedAt"].as_str().expect("it has started").to_owned();
    let on = moment(&on);
    let events = events(&up.stderr);
    let at = |field: &str, name: &str| {
        let found = events.iter().rfind(|event| {
            event[field] == name && matches!(event["event"].as_str(), Some("finished" | "ready"))
        });
        let at = found.and_then(|event| event["atMs"].as_u64()).map(Duration::from_millis);
        at.map_or(f64::NAN, |at| seconds(on, begin + at))
    };
    let run = Run {
        booted: booted(&hoist, on),
        reached: at("phase", "machines"),
        joined: if joins { at("phase", "nodes") } else { f64::NAN },
        ready: at("level", "nodes"),
    };
    hoist.ok(&["down"]);
    run
}

fn seconds(from: SystemTime, to: SystemTime) -> f64 {
    to.duration_since(from).unwrap_or_default().as_secs_f64()
}

/// When multi-user.target was reached: the guest tells by its own clock how long ago that is.
fn booted(hoist: &Hoist, on: SystemTime) -> f64 {
    const AGO: &str = "test $(systemctl is-active multi-user.target) = active; cut -d ' ' -f 1 /proc/uptime; \
                       systemctl show -P ActiveEnterTimestampMonotonic multi-user.target";
    let told = hoist.ok(&["node", "ssh", "node01", "--", "sh", "-euc", AGO]);
    let now = SystemTime::now();
    let mut lines = told.lines().map(|line| line.parse::<f64>().expect("a number"));
    let (uptime, active) = (lines.next().expect("uptime"), lines.next().expect("a moment") / 1e6);
    seconds(on, now) - (uptime - active)
}

/// RFC 3339 in UTC, as the engine writes it.
fn moment(text: &str) -> SystemTime {
    let parsed = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
    parsed.expect("a moment in RFC 3339").into()
}
