//! Clusters that come and go again and again: what is left then is what was there before.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptions, ListVolumesOptions};

use super::SOON;
use crate::support::{CONTROL_PLANE, Hoist, PrivateEngine, block, tell, until};

/// How often, when `HOIST_LEAK_ROUNDS` says nothing else.
const ROUNDS: usize = 30;

/// Everything that a cluster makes, by kind and name, and how many of that name there are.
type Seen = BTreeMap<String, usize>;

fn look(private: &PrivateEngine, hoist: &Hoist) -> Seen {
    let mut seen = Seen::new();
    let mut note = |kind: &str, what: &str| *seen.entry(format!("{kind} {what}")).or_default() += 1;
    block(async {
        let docker = private.engine().docker();
        let all = ListContainersOptionsBuilder::new().all(true).build();
        for container in docker.list_containers(Some(all)).await.expect("the engine answers") {
            note("container", &container.names.unwrap_or_default().concat());
        }
        let volumes = docker.list_volumes(None::<ListVolumesOptions>).await.expect("the engine answers");
        for volume in volumes.volumes.unwrap_or_default() {
            note("volume", &volume.name);
        }
        for network in docker.list_networks(None::<ListNetworksOptions>).await.expect("the engine answers") {
            note("network", &network.name.unwrap_or_default());
        }
    });
    for place in [hoist.home()].into_iter().chain(private.places().iter().map(AsRef::as_ref)) {
        walk(place, &mut |path| note("file", &path.display().to_string()));
    }
    for process in private.processes() {
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        let name = name.trim();
        note("process", name);
        if ["dockerd", "containerd"].contains(&name) {
            for descriptor in std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
                let target = std::fs::read_link(descriptor.path()).unwrap_or_default();
                // `socket:[12345]`: how many there are, not which.
                let target = target.display().to_string();
                note("descriptor", &format!("{name} {}", target.split('[').next().unwrap_or_default()));
            }
        }
    }
    for group in private.groups() {
        note("group", &group.display().to_string());
    }
    for (kind, script) in [
        // Without comments and the counters of chains.
        ("rule", "iptables-save | sed '/^#/d; s/ \\[.*//'"),
        ("rule6", "ip6tables-save | sed '/^#/d; s/ \\[.*//'"),
        ("link", "ip -o link | cut -d ' ' -f 2"),
        ("namespace", "readlink /proc/[0-9]*/ns/* 2>/dev/null | sort -u"),
        ("mount", "cut -d ' ' -f 2,3 /proc/mounts"),
    ] {
        for line in private.inside(script).lines() {
            // That of the script itself is another one each time.
            note(kind, line);
        }
    }
    seen
}

/// All paths below a directory but the content of layers and volumes, which goes with them.
fn walk(directory: &Path, note: &mut impl FnMut(&Path)) {
    let whole = |path: &Path| {
        let above = path.parent().and_then(Path::file_name).unwrap_or_default();
        above == "overlay2" || above == "volumes"
    };
    for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        note(&path);
        if !whole(&path) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, note);
        }
    }
}

/// What the second has more or less of.
fn difference(before: &Seen, after: &Seen) -> Vec<String> {
    let count = |seen: &Seen, what: &String| seen.get(what).copied().unwrap_or_default();
    let all: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differs = |what: &&&String| count(before, what) != count(after, what);
    all.iter()
        .filter(differs)
        .map(|what| format!("{what}: {} → {}", count(before, what), count(after, what)))
        .collect()
}

fn spread(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_millis();
    tell(&format!(
        "{what}, {} times: min {} ms, median {} ms, p95 {} ms, max {} ms",
        times.len(),
        at(0),
        at(50),
        at(95),
        at(100)
    ));
}

/// The engine forgets what it had of a container in its own time: of network namespaces once a minute.
fn settle(private: &PrivateEngine) {
    until("the engine has no network namespace any more", SOON, || {
        let left = private.inside("ls /run/docker/netns");
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

#[test]
fn clusters_that_come_and_go_leave_nothing() {
    let rounds =
        std::env::var("HOIST_LEAK_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let private = PrivateEngine::start(&CONTROL_PLANE);
    let hoist = Hoist::new("leaks").on(&private);
    let home = hoist.home().display().to_string();
    let hoist = hoist.env("XDG_CACHE_HOME", format!("{home}/cache")).env("TMPDIR", home);
    let timed = |args: &[&str]| {
        let begin = Instant::now();
        hoist.ok(args);
        begin.elapsed()
    };

    // What an engine makes once with its first container stays.
    timed(&["up", "--nodes", "0"]);
    timed(&["down"]);
    settle(&private);
    let before = look(&private, &hoist);
    timed(&["up", "--nodes", "0"]);
    let running = difference(&before, &look(&private, &hoist));
    timed(&["down"]);
    // A look that finds nothing while a cluster runs would prove nothing.
    for kind in [
        "container",
        "volume",
        "file",
        "descriptor",
        "process",
        "group",
        "rule",
        "link",
        "namespace",
        "mount",
    ] {
        let of_kind = |line: &&String| line.split(' ').next() == Some(kind);
        assert!(running.iter().any(|line| of_kind(&line)), "no {kind} of a running cluster: {running:#?}");
    }

    let (mut ups, mut downs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ups.push(timed(&["up", "--nodes", "0"]));
        downs.push(timed(&["down"]));
    }
    spread("up --nodes 0", ups);
    spread("down", downs);
    settle(&private);
    until("what is there is what was before", SOON, || {
        let left = difference(&before, &look(&private, &hoist));
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    });
    tell(&format!("{} things are the same after {rounds} clusters", before.len()));
}
