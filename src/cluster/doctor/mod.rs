//! Checks that find what keeps hoist or a cluster's workloads from running, and what to do about it.
//!
//! Each check is a row of [`CHECKS`]: a pure function over [`Facts`], which are gathered once, side
//! by side. Checks only look.

mod cluster;
mod engine;
mod facts;
mod kernel;
mod machine;
mod network;
mod pending;

use serde::Serialize;

pub use facts::{Attached, ClusterFacts, Facts, Known, LONGEST, Skew, Sources, gather};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// `warn` or `fail`.
    pub state: State,
    /// What is wrong with which thing, and why.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

/// What a check tells when it could look: what it saw, and what is wrong with that.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    seen: String,
    findings: Vec<Finding>,
}

impl Told {
    fn new(seen: impl Into<String>) -> Self {
        Self { seen: seen.into(), findings: Vec::new() }
    }

    fn with(mut self, state: State, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.findings.push(Finding { state, reason: reason.into(), remedy: remedy.into() });
        self
    }

    /// A finding when there is cause; what was seen is its reason.
    fn when(self, cause: bool, state: State, remedy: impl Into<String>) -> Self {
        let seen = self.seen.clone();
        if cause { self.with(state, seen, remedy) } else { self }
    }
}

/// Why a check tells nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Silent {
    /// It could not be found out.
    Unknown(String),
    /// There is nothing to look at.
    Skipped(String),
}

impl From<&String> for Silent {
    fn from(why: &String) -> Self {
        Self::Unknown(why.clone())
    }
}

type Verdict = Result<Told, Silent>;

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The engine and the machine that it runs on.
    Host,
    /// A cluster that is there.
    Cluster,
}

/// A row of [`CHECKS`].
#[derive(Debug)]
pub struct Check {
    /// Stable, for scripts.
    pub id: &'static str,
    pub scope: Scope,
    /// What is true when nothing is found.
    pub summary: &'static str,
    /// What makes it warn or fail, for the docs.
    pub bounds: &'static str,
    run: fn(&Facts) -> Verdict,
}

/// Every check, in the order they are told.
pub const CHECKS: &[Check] = &[
    Check {
        id: "engine",
        scope: Scope::Host,
        summary: "a container engine answers",
        bounds: "fails when none does",
        run: engine::answers,
    },
    Check {
        id: "engine-api",
        scope: Scope::Host,
        summary: "the engine's API is new enough",
        bounds: "fails below 1.41, that of Docker 20.10",
        run: engine::api_version,
    },
    Check {
        id: "engine-capabilities",
        scope: Scope::Host,
        summary: "the engine can give every capability that nodes may use",
        bounds: "warns about SYS_RESOURCE, fails about one that nodes need",
        run: engine::can_give,
    },
    Check {
        id: "cgroups",
        scope: Scope::Host,
        summary: "the engine uses control groups of version 2",
        bounds: "warns about version 1",
        run: engine::cgroups,
    },
    Check {
        id: "open-files",
        scope: Scope::Host,
        summary: "containers may open as many files as components ask for",
        bounds: "warns below 65,536, fails below 4,096",
        run: kernel::open_files,
    },
    Check {
        id: "inotify",
        scope: Scope::Host,
        summary: "the kernel lets nodes watch enough files",
        bounds: "warns below 32 instances or 4,096 watches for each node in a container",
        run: kernel::inotify,
    },
    Check {
        id: "bridge-mtu",
        scope: Scope::Host,
        summary: "packets of the engine's network fit through the host's own",
        bounds: "warns when the engine's is larger, fails below 1,280 bytes with IPv6",
        run: network::mtu,
    },
    Check {
        id: "ipv6",
        scope: Scope::Host,
        summary: "the host has IPv6 when the cluster asks for it",
        bounds: "fails when the cluster's ranges are of IPv6 and the host has none",
        run: kernel::ipv6,
    },
    Check {
        id: "br-netfilter",
        scope: Scope::Host,
        summary: "network policies hold between two pods of one node in a container",
        bounds: "warns without br_netfilter when such nodes are asked for",
        run: kernel::bridge_filter,
    },
    Check {
        id: "forward-policy",
        scope: Scope::Host,
        summary: "the host's packet filter lets nodes reach the outside",
        bounds: "warns about chains that drop forwarded packets, the engine's own excepted",
        run: kernel::forward_policy,
    },
    Check {
        id: "iptables-flavour",
        scope: Scope::Host,
        summary: "the host's packet filter is programmed in one way",
        bounds: "warns when legacy tables stand beside those of nf_tables",
        run: kernel::flavour,
    },
    Check {
        id: "cidr-overlap",
        scope: Scope::Host,
        summary: "no range of the cluster is one that the host has a route to",
        bounds: "fails about a network of the engine's, warns about any other route",
        run: network::overlap,
    },
    Check {
        id: "ports",
        scope: Scope::Host,
        summary: "the TCP ports that the cluster is to listen on are free",
        bounds: "fails about a port that somebody else listens on",
        run: network::ports,
    },
    Check {
        id: "attach",
        scope: Scope::Host,
        summary: "the container of --attach can own the cluster's network",
        bounds: "fails when it is absent, stopped, publishes no API port, or a port in it is taken",
        run: network::attach,
    },
    Check {
        id: "kvm",
        scope: Scope::Host,
        summary: "virtual machines run on KVM",
        bounds: "warns when they are asked for and would be emulated",
        run: machine::kvm,
    },
    Check {
        id: "memory",
        scope: Scope::Host,
        summary: "the host has memory for the control plane and virtual machines",
        bounds: "fails when it hasn't in all, warns when it hasn't now",
        run: machine::memory,
    },
    Check {
        id: "disk",
        scope: Scope::Host,
        summary: "the engine has room for nodes",
        bounds: "fails below 1 GiB, warns below 2 GiB and 2 GiB more for each node",
        run: machine::disk,
    },
    Check {
        id: "clock",
        scope: Scope::Host,
        summary: "this machine and the engine's agree on the time",
        bounds: "warns from 2 s on, fails from 300 s on",
        run: machine::clock,
    },
    Check {
        id: "proxies",
        scope: Scope::Host,
        summary: "proxies of the environment are known",
        bounds: "never; tells which there are and what hoist does with them",
        run: engine::proxies,
    },
    Check {
        id: "image-platforms",
        scope: Scope::Host,
        summary: "the images are there and made for the engine's machine",
        bounds: "fails about another architecture, warns about one that is missing",
        run: engine::images,
    },
    Check {
        id: "node-addresses",
        scope: Scope::Cluster,
        summary: "no two nodes have one address",
        bounds: "fails about an address or range of pods that two nodes have",
        run: cluster::addresses,
    },
    Check {
        id: "node-clocks",
        scope: Scope::Cluster,
        summary: "nodes and this machine agree on the time",
        bounds: "warns from 2 s on, fails from 300 s on",
        run: cluster::clocks,
    },
    Check {
        id: "pending-csrs",
        scope: Scope::Cluster,
        summary: "no request for a certificate waits for an answer",
        bounds: "warns about one that is neither approved nor denied",
        run: cluster::requests,
    },
    Check {
        id: "pending-pods",
        scope: Scope::Cluster,
        summary: "every pod that waits for a node could be placed on one by its labels",
        bounds: "fails about a pod that asks for a label no node has",
        run: pending::check,
    },
];

/// From best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    Skipped,
    Unknown,
    Warn,
    Fail,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    pub id: &'static str,
    pub scope: Scope,
    pub state: State,
    pub summary: &'static str,
    /// What was measured, or why it could not be.
    pub reason: String,
    pub findings: Vec<Finding>,
}

/// Runs every check; those of a cluster only when one is there.
pub fn diagnose(facts: &Facts) -> Vec<Diagnosis> {
    let wanted = |check: &&Check| check.scope == Scope::Host || facts.cluster.is_some();
    let diagnosis = |check: &Check| {
        let (state, reason, findings) = match (check.run)(facts) {
            Ok(Told { seen, findings }) => {
                let worst = findings.iter().map(|finding| finding.state).max();
                (worst.unwrap_or(State::Ok), seen, findings)
            }
            Err(Silent::Unknown(why)) => (State::Unknown, why, Vec::new()),
            Err(Silent::Skipped(why)) => (State::Skipped, why, Vec::new()),
        };
        let Check { id, scope, summary, .. } = *check;
        Diagnosis { id, scope, state, summary, reason, findings }
    };
    CHECKS.iter().filter(wanted).map(diagnosis).collect()
}

/// Numbers as they are written in a text, by what they count.
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Facts for the tests of the checks: nothing wrong, nothing known.
#[cfg(test)]
mod testing {
    use hoist_phases::spec::{BootstrapToken, ClusterName};

    use super::{Check, Diagnosis, Facts, State};

    pub(super) fn facts() -> Result<Facts, crate::error::BoxError> {
        let token = BootstrapToken::generate().map_err(|_| "no random numbers")?;
        let unknown = || "not looked at".to_owned();
        Ok(Facts {
            spec: crate::config::defaults(ClusterName::new("c")?, token),
            environment: Vec::new(),
            engine: Err(unknown()),
            clock: Err(unknown()),
            host: Err(unknown()),
            images: Err(unknown()),
            boot: Err(unknown()),
            attached: None,
            cluster: None,
        })
    }

    /// The state and everything that is said by one check.
    pub(super) fn judged(facts: &Facts, id: &str) -> (State, String) {
        let all = super::diagnose(facts);
        let Some(Diagnosis { state, reason, findings, .. }) = all.into_iter().find(|one| one.id == id) else {
            return (State::Unknown, format!("there is no check {id}"));
        };
        let words = findings.iter().map(|finding| format!("\n{} ({})", finding.reason, finding.remedy));
        (state, reason + &words.collect::<String>())
    }

    #[test]
    fn ids_are_stable_words_and_each_is_there_once() {
        let mut ids: Vec<_> = super::CHECKS.iter().map(|Check { id, .. }| *id).collect();
        assert!(
            ids.iter()
                .all(|id| id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'))
        );
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), super::CHECKS.len());
    }
}
