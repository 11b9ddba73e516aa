//! What the kernel of the engine's host allows.

use hoist_phases::spec::{Family, NodeKind};

use super::{Facts, Silent, State, Told, Verdict, count};
use crate::host::Filter;

/// What components ask for.
const OPEN_FILES: u64 = 65_536;

/// What an API server with some dozens of nodes, and etcd, have been seen to stay below.
const FEWEST_OPEN_FILES: u64 = 4096;

/// For one node in a container. Without any work one has been seen to take 15 and 147; pods that watch
/// files take more.
const INSTANCES: u64 = 32;
const WATCHES: u64 = 4096;

/// Chains by which engines let their own networks through before a policy drops the rest.
const OF_ENGINES: [&str; 4] = ["DOCKER-USER", "DOCKER-FORWARD", "NETAVARK_FORWARD", "CNI-FORWARD"];

/// Families and tables that iptables over nf_tables makes.
const OF_IPTABLES: [&str; 4] = ["ip filter ", "ip nat ", "ip6 filter ", "ip6 nat "];

pub(super) fn open_files(facts: &Facts) -> Verdict {
    let limit = facts.host.as_ref()?.nofile;
    let told = match limit {
        u64::MAX => Told::new("no limit"),
        limit => Told::new(format!("hard limit {limit}")),
    };
    let state = if limit < FEWEST_OPEN_FILES { State::Fail } else { State::Warn };
    Ok(told.when(
        limit < OPEN_FILES,
        state,
        "raise LimitNOFILE of the engine's service; until then components take what there is, which is enough for small \
         clusters",
    ))
}

/// Nodes that share the host's kernel.
fn container_nodes(facts: &Facts) -> usize {
    facts.spec.nodes.iter().filter(|node| node.kind == NodeKind::Container).count()
}

pub(super) fn inotify(facts: &Facts) -> Verdict {
    let host = facts.host.as_ref()?;
    let (Some(instances), Some(watches)) = (host.inotify_instances, host.inotify_watches) else {
        return Err(Silent::Unknown("/proc/sys/fs/inotify can't be read".to_owned()));
    };
    let nodes = container_nodes(facts).max(1);
    let wanted = u64::try_from(nodes).unwrap_or(u64::MAX);
    let (least, fewest) = (INSTANCES.saturating_mul(wanted), WATCHES.saturating_mul(wanted));
    let seen = format!(
        "{instances} instances and {watches} watches for {}",
        count(nodes, "node in a container").replace("containers", "container")
    );
    Ok(Told::new(seen).when(
        instances < least || watches < fewest,
        State::Warn,
        format!(
            "on the engine's host: sysctl fs.inotify.max_user_instances={} fs.inotify.max_user_watches={}",
            least.max(instances),
            fewest.max(watches)
        ),
    ))
}

pub(super) fn ipv6(facts: &Facts) -> Verdict {
    let there = facts.host.as_ref()?.ipv6;
    let seen = if there { "the host has IPv6" } else { "the host has no IPv6" };
    Ok(Told::new(seen).when(
        !there && facts.spec.networking.has(Family::Ipv6),
        State::Fail,
        "enable it there (kernel argument ipv6.disable, sysctl net.ipv6.conf.all.disable_ipv6), or choose --ip-family ipv4",
    ))
}

pub(super) fn bridge_filter(facts: &Facts) -> Verdict {
    let filter = facts.host.as_ref()?.bridge_filter;
    let seen = match filter {
        Some(true) => "br_netfilter is loaded",
        Some(false) => "br_netfilter is loaded, and bridges pass the packet filter by",
        None => "br_netfilter is not loaded",
    };
    Ok(Told::new(seen).when(
        filter != Some(true) && container_nodes(facts) > 0,
        State::Warn,
        "on the engine's host: modprobe br_netfilter and sysctl net.bridge.bridge-nf-call-iptables=1; or use nodes in \
         virtual machines",
    ))
}

pub(super) fn forward_policy(facts: &Facts) -> Verdict {
    let host = facts.host.as_ref()?;
    let (base, others) = match &host.filter {
        Filter::Chains { base, others } => (base, others),
        Filter::Unknown(why) => return Err(why.into()),
    };
    let dropping: Vec<_> =
        base.iter().filter(|chain| chain.hook == "forward" && chain.policy == "drop").collect();
    let names: Vec<_> = dropping.iter().map(|chain| chain.name.as_str()).collect();
    let mut told = match names.as_slice() {
        [] if !host.legacy_tables.is_empty() => {
            return Err(Silent::Unknown(
                "the legacy packet filter is in use, which is not looked into".to_owned(),
            ));
        }
        [] => Told::new("forwarded packets are accepted"),
        names => Told::new(format!("dropped by default in {}", names.join(", "))),
    };
    for chain in dropping {
        // The engine's own chains stand in the same table and come first.
        let table = chain.name.rsplit_once(' ').map_or("", |(table, _)| table);
        let engines = OF_ENGINES.iter().any(|name| others.contains(&format!("{table} {name}")));
        if !engines {
            told = told.with(
                State::Warn,
                format!("{} drops what nodes send to the outside", chain.name),
                "let it accept what comes from and goes to the engine's bridge (docker0 or podman0)",
            );
        }
    }
    Ok(told)
}

pub(super) fn flavour(facts: &Facts) -> Verdict {
    let host = facts.host.as_ref()?;
    let Filter::Chains { base, .. } = &host.filter else {
        let Filter::Unknown(why) = &host.filter else { return Err(Silent::Unknown(String::new())) };
        return Err(why.into());
    };
    let nft = base.iter().any(|chain| OF_IPTABLES.iter().any(|table| chain.name.starts_with(table)));
    let legacy = !host.legacy_tables.is_empty();
    let seen = match (nft, legacy) {
        (true, false) => "iptables over nf_tables".to_owned(),
        (false, true) => format!("legacy iptables ({})", host.legacy_tables.join(", ")),
        (true, true) => format!("both nf_tables and legacy iptables ({})", host.legacy_tables.join(", ")),
        (false, false) => "no iptables".to_owned(),
    };
    Ok(Told::new(seen).when(
        nft && legacy,
        State::Warn,
        "packets pass the rules of both: choose one (update-alternatives --set iptables), then flush the other's and \
         restart the engine",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{facts, judged};
    use super::*;
    use crate::error::BoxError;
    use crate::host::{BaseChain, HostReport};

    type Check = Result<(), BoxError>;

    fn states<T: Clone>(
        id: &str,
        values: &[(T, State)],
        set: impl Fn(&mut HostReport, T),
    ) -> Result<(), BoxError> {
        for (value, state) in values {
            let mut facts = facts()?;
            let mut host = HostReport::default();
            set(&mut host, value.clone());
            facts.host = Ok(host);
            let (told, words) = judged(&facts, id);
            assert_eq!(told, *state, "{id}: {words}");
        }
        Ok(())
    }

    #[test]
    fn limits_on_both_sides_of_their_bounds() -> Check {
        let files = [
            (u64::MAX, State::Ok),
            (65_536, State::Ok),
            (65_535, State::Warn),
            (4096, State::Warn),
            (4095, State::Fail),
        ];
        states("open-files", &files, |host, value| host.nofile = value)?;
        let inotify = [
            ((Some(32), Some(4096)), State::Ok),
            ((Some(31), Some(4096)), State::Warn),
            ((Some(32), Some(4095)), State::Warn),
            ((None, Some(4096)), State::Unknown),
        ];
        states("inotify", &inotify, |host, (instances, watches)| {
            (host.inotify_instances, host.inotify_watches) = (instances, watches);
        })?;
        let bridge = [(Some(true), State::Ok), (Some(false), State::Warn), (None, State::Warn)];
        states("br-netfilter", &bridge, |host, value| host.bridge_filter = value)
    }

    #[test]
    fn kind_1544_a_host_without_ipv6_fails_only_who_asks_for_it() -> Check {
        states("ipv6", &[(true, State::Ok), (false, State::Ok)], |host, value| host.ipv6 = value)?;
        let mut facts = facts()?;
        facts.spec.networking.pod_subnet = "10.244.0.0/16,fd10:244::/56".parse()?;
        for (there, state) in [(true, State::Ok), (false, State::Fail)] {
            facts.host = Ok(HostReport { ipv6: there, ..HostReport::default() });
            assert_eq!(judged(&facts, "ipv6").0, state);
        }
        Ok(())
    }

    fn forward(name: &str, policy: &str) -> BaseChain {
        BaseChain { name: name.to_owned(), hook: "forward".to_owned(), policy: policy.to_owned() }
    }

    #[test]
    fn a_policy_that_drops_is_the_engines_or_somebody_elses() -> Check {
        let docker = || vec!["ip filter DOCKER-USER".to_owned()];
        let cases = [
            (vec![forward("ip filter FORWARD", "accept")], Vec::new(), State::Ok),
            (vec![forward("ip filter FORWARD", "drop")], docker(), State::Ok),
            (vec![forward("ip filter FORWARD", "drop")], Vec::new(), State::Warn),
            (vec![forward("inet firewall forward", "drop")], docker(), State::Warn),
        ];
        let cases = cases.map(|(base, others, state)| (Filter::Chains { base, others }, state));
        states("forward-policy", &cases, |host, filter| host.filter = filter)?;
        let unknown = [(Filter::Unknown("nft: Operation not permitted".to_owned()), State::Unknown)];
        states("forward-policy", &unknown, |host, filter| host.filter = filter)?;
        states("iptables-flavour", &unknown, |host, filter| host.filter = filter)
    }

    #[test]
    fn both_flavours_at_once_warn() -> Check {
        let cases = [(true, false, State::Ok), (false, true, State::Ok), (true, true, State::Warn)];
        let cases = cases.map(|(nft, legacy, state)| ((nft, legacy), state));
        states("iptables-flavour", &cases, |host, (nft, legacy)| {
            let base = nft.then(|| forward("ip filter FORWARD", "accept")).into_iter().collect();
            host.filter = Filter::Chains { base, others: Vec::new() };
            host.legacy_tables = legacy.then(|| "filter".to_owned()).into_iter().collect();
        })
    }
}
