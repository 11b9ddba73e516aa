//! What is done to a cluster: made by chance of a seed, and carried out.

use std::time::Duration;

use hoist_phases::ports::Runtime as _;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Hoist, PrivateEngine, block};

/// How a container is brought down. All but the first last until somebody mends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Its first process is killed by the kernel: the engine starts it again.
    Crash,
    /// Killed by the engine, which takes that for a wish.
    Kill,
    Stop,
    Pause,
}

#[derive(Debug, Clone)]
pub(super) enum Blow {
    /// Containers, each by its place in the list of all, one after the other as fast as the engine can.
    Containers(Vec<(Index, How)>),
    /// All at once, as with the host.
    All,
    /// The engine ends by this signal and is started again.
    Engine(&'static str),
    /// The shared namespace is taken off the engine's network.
    Disconnect,
    /// A node's end on the bridge goes down, as with a cable that is pulled.
    Cable(Index),
}

/// One round: a blow, and perhaps an `up` that is killed so long after its start.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub(super) blow: Blow,
    pub(super) killed_up: Option<Duration>,
}

pub(super) fn round() -> impl Strategy<Value = Round> {
    let how = prop_oneof![Just(How::Crash), Just(How::Kill), Just(How::Stop), Just(How::Pause)];
    let blow = prop_oneof![
        12 => vec((any::<Index>(), how), 1..4).prop_map(Blow::Containers),
        1 => Just(Blow::All),
        2 => prop_oneof![Just("TERM"), Just("KILL")].prop_map(Blow::Engine),
        1 => Just(Blow::Disconnect),
        1 => any::<Index>().prop_map(Blow::Cable),
    ];
    let killed_up = prop_oneof![
        2 => Just(None),
        1 => (0_u64..5000).prop_map(|after| Some(Duration::from_millis(after))),
    ];
    (blow, killed_up).prop_map(|(blow, killed_up)| Round { blow, killed_up })
}

/// Of these containers, names of nodes.
fn nodes(names: &[String]) -> Vec<String> {
    let last = |name: &String| name.rsplit('-').next().unwrap_or_default().to_owned();
    names.iter().map(last).filter(|name| name.starts_with("node")).collect()
}

/// Names of all containers of a cluster, in one order.
pub(super) fn containers(private: &PrivateEngine, hoist: &Hoist) -> Vec<String> {
    let found = block(private.engine().list(Some(&hoist.name))).expect("the engine answers");
    let mut names: Vec<_> = found.into_iter().map(|container| container.name).collect();
    names.sort();
    names
}

impl Blow {
    /// Does it; gives the words for it.
    pub(super) fn strike(&self, private: &mut PrivateEngine, hoist: &Hoist) -> String {
        let names = containers(private, hoist);
        match self {
            Self::Containers(all) => {
                let words = all.iter().map(|(which, how)| {
                    let name = which.get(&names);
                    bring_down(private, name, *how);
                    let role = name.strip_prefix(&format!("hoist-{}-", hoist.name)).unwrap_or(name);
                    format!("{how:?} {role}")
                });
                words.collect::<Vec<_>>().join(", ")
            }
            Self::All => {
                for name in &names {
                    bring_down(private, name, How::Kill);
                }
                "kill all".to_owned()
            }
            Self::Engine(signal) => {
                private.restart(signal);
                format!("{signal} to the engine")
            }
            Self::Disconnect => {
                let owner = format!("hoist-{}-owner", hoist.name);
                let request =
                    bollard::models::NetworkDisconnectRequest { container: owner, force: Some(true) };
                block(private.engine().docker().disconnect_network("bridge", request)).expect("the engine's");
                "disconnect the owner".to_owned()
            }
            Self::Cable(which) => {
                let nodes = nodes(&names);
                let node = which.get(&nodes);
                link(private, hoist, node, "down");
                format!("pull the cable of {node}")
            }
        }
    }

    /// Mends what isn't hoist's to mend.
    pub(super) fn undo(&self, private: &PrivateEngine, hoist: &Hoist) {
        if let Self::Cable(which) = self {
            let nodes = nodes(&containers(private, hoist));
            let node = which.get(&nodes);
            link(private, hoist, node, "up");
        }
    }
}

fn link(private: &PrivateEngine, hoist: &Hoist, node: &str, state: &str) {
    let dnsmasq = format!("hoist-{}-dnsmasq", hoist.name);
    let command = ["ip", "link", "set", &format!("veth-{node}"), state];
    let done = block(private.engine().exec(&dnsmasq, &command, b"")).expect("dnsmasq runs");
    assert_eq!(done.code, 0, "{done:?}");
}

/// One that is down already stays as it is: the engine refuses.
fn bring_down(private: &PrivateEngine, name: &str, how: How) {
    let docker = private.engine().docker();
    match how {
        How::Crash => {
            let found = block(docker.inspect_container(name, None)).expect("it is there");
            let pid = found.state.and_then(|state| state.pid).filter(|pid| *pid > 1);
            if let Some(pid) = pid {
                private.inside(&format!("kill -KILL {pid} || :"));
            }
        }
        How::Kill => {
            let _ = block(docker.kill_container(name, None));
        }
        How::Stop => {
            let _ = block(private.engine().stop(name, 1));
        }
        How::Pause => {
            let _ = block(private.engine().pause(name));
        }
    }
}
