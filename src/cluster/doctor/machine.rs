//! What the engine's host is made of: memory, disk, processors, clock.

use hoist_phases::phases::preflight;
use hoist_phases::ports::EngineInfo;
use hoist_phases::spec::NodeKind;

use super::{Facts, Silent, Skew, State, Told, Verdict, count};

/// What a node's images, pods and logs take, seen in tests.
const NODE_BYTES: u64 = 2 << 30;

/// Below this even starting a control plane fails half-way.
const LEAST_DISK: u64 = 1 << 30;

/// Clocks of two machines that are kept by NTP differ by less.
const SKEW_WARN_MS: u64 = 2000;

/// Certificates are dated back by so much (kubeadm's `CertificateBackdate`).
const SKEW_FAIL_MS: u64 = 300_000;

pub(super) fn kvm(facts: &Facts) -> Verdict {
    let machines = facts.spec.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Vm(_))).count();
    let host = facts.host.as_ref();
    let emulated = "such machines are emulated, and take minutes to be Ready; load kvm_intel or kvm_amd on the engine's host, \
                    and enable nested virtualization where that is a virtual machine itself";
    let running = facts.cluster.iter().flat_map(|cluster| cluster.accelerators.iter().flatten());
    let nested = match host.ok().and_then(|host| host.nested) {
        Some(true) => ", for nested guests too",
        Some(false) => ", not for nested guests",
        None => "",
    };
    let (works, seen) = match &facts.boot {
        Ok(Ok(())) => (true, format!("KVM has run a kernel{nested}")),
        Ok(Err(why)) if why.is_empty() => (false, "KVM could not run a kernel".to_owned()),
        Ok(Err(why)) => (false, format!("KVM could not run a kernel: {why}")),
        // Without the image, whatever else tells.
        Err(_) if running.clone().any(|accelerator| accelerator == "kvm") => {
            (true, format!("nodes run on KVM{nested}"))
        }
        Err(why) => match host {
            Ok(host) if !host.kvm => (false, "the host's kernel offers no KVM".to_owned()),
            _ => return Err(Silent::Unknown(format!("KVM was not tried: {why}"))),
        },
    };
    let seen = match (works, machines) {
        (false, 0) => format!("{seen}; virtual machines would be emulated"),
        _ => seen,
    };
    Ok(Told::new(seen).when(!works && machines > 0, State::Warn, emulated))
}

pub(super) fn memory(facts: &Facts) -> Verdict {
    let whole = facts.engine.as_ref()?.memory_bytes;
    let lacks = |bytes: u64| {
        let info = EngineInfo { memory_bytes: bytes, ..EngineInfo::default() };
        preflight::memory(&facts.spec, &facts.spec.nodes, &info).map(|problem| problem.to_string())
    };
    let available = facts.host.as_ref().ok().and_then(|host| host.memory_available);
    let seen = match available {
        Some(available) => format!("{} MiB, {} of them available", whole >> 20, available >> 20),
        None => format!("{} MiB", whole >> 20),
    };
    let told = Told::new(seen);
    if let Some(why) = lacks(whole) {
        return Ok(told.with(
            State::Fail,
            why,
            "ask for fewer or smaller virtual machines, or a smaller etcd.tmpfsSize",
        ));
    }
    // What a cluster that runs needs, it has.
    let short = available.filter(|_| facts.cluster.is_none()).and_then(lacks);
    Ok(match short {
        Some(why) => told.with(
            State::Warn,
            format!("of what is available now: {why}"),
            "end something else, or ask for less: what is too much is killed",
        ),
        None => told,
    })
}

pub(super) fn disk(facts: &Facts) -> Verdict {
    let silent = || Silent::Unknown("the file system of the engine's volumes doesn't tell".to_owned());
    let disk = facts.host.as_ref()?.disk.ok_or_else(silent)?;
    let nodes = facts.spec.nodes.len();
    // Nodes that are there have most of theirs already.
    let more = if facts.cluster.is_some() { 0 } else { u64::try_from(nodes).unwrap_or(u64::MAX) };
    let wanted = NODE_BYTES.saturating_add(NODE_BYTES.saturating_mul(more));
    let percent = (disk.free.saturating_mul(100)).checked_div(disk.whole).unwrap_or_default();
    let seen = format!(
        "{} MiB free, {percent} % of the engine's disk, for {}",
        disk.free >> 20,
        count(nodes, "node")
    );
    let state = if disk.free < LEAST_DISK { State::Fail } else { State::Warn };
    Ok(Told::new(seen).when(
        disk.free < wanted,
        state,
        "make room where the engine keeps its data: `docker system df` tells what takes it",
    ))
}

pub(super) fn clock(facts: &Facts) -> Verdict {
    Ok(skewed("the engine's clock", *facts.clock.as_ref()?))
}

/// What is told of a clock.
pub(super) fn skewed(whose: &str, Skew(millis): Skew) -> Told {
    let seconds = format!("{}.{} s", millis.unsigned_abs() / 1000, millis.unsigned_abs() % 1000 / 100);
    let seen = match millis {
        0 => format!("{whose} agrees"),
        1.. => format!("{whose} is {seconds} ahead"),
        _ => format!("{whose} is {seconds} behind"),
    };
    let state = if millis.unsigned_abs() >= SKEW_FAIL_MS { State::Fail } else { State::Warn };
    Told::new(seen).when(
        millis.unsigned_abs() >= SKEW_WARN_MS,
        state,
        "set both by NTP: certificates and tokens are refused where their time has not come or is over",
    )
}

#[cfg(test)]
mod tests {
    use hoist_phases::spec::{NodeSpec, VmSize};

    use super::super::testing::{facts, judged};
    use super::*;
    use crate::error::BoxError;
    use crate::host::{HostReport, Room};
    use crate::runtime::About;

    type Check = Result<(), BoxError>;

    #[test]
    fn clocks_on_both_sides_of_their_bounds() -> Check {
        let mut facts = facts()?;
        for (millis, state) in [
            (0, State::Ok),
            (1999, State::Ok),
            (2000, State::Warn),
            (-2000, State::Warn),
            (299_999, State::Warn),
            (-300_000, State::Fail),
            (i64::MIN, State::Fail),
        ] {
            facts.clock = Ok(Skew(millis));
            assert_eq!(judged(&facts, "clock").0, state, "{millis}");
        }
        Ok(())
    }

    #[test]
    fn room_for_one_node_on_both_sides_of_its_bounds() -> Check {
        let mut facts = facts()?;
        for (free, state) in [
            (4 << 30, State::Ok),
            ((4 << 30) - 1, State::Warn),
            (1 << 30, State::Warn),
            ((1 << 30) - 1, State::Fail),
        ] {
            let disk = Some(Room { free, whole: 100 << 30 });
            facts.host = Ok(HostReport { disk, ..HostReport::default() });
            assert_eq!(judged(&facts, "disk").0, state, "{free}");
        }
        facts.host = Ok(HostReport::default());
        assert_eq!(judged(&facts, "disk").0, State::Unknown);
        Ok(())
    }

    #[test]
    fn memory_that_is_not_there_fails_and_memory_that_is_taken_warns() -> Check {
        let mut facts = facts()?;
        // The control plane's 768 MiB and a tmpfs of 1 GiB.
        for (whole, available, state) in [
            (8192, 1792, State::Ok),
            (8192, 1791, State::Warn),
            (1792, 1792, State::Ok),
            (1791, 1791, State::Fail),
        ] {
            facts.engine = Ok(About { memory_bytes: whole << 20, ..About::default() });
            facts.host = Ok(HostReport { memory_available: Some(available << 20), ..HostReport::default() });
            assert_eq!(judged(&facts, "memory").0, state, "{whole} {available}");
        }
        Ok(())
    }

    #[test]
    fn emulation_warns_where_machines_are_asked_for() -> Check {
        let mut facts = facts()?;
        facts.host = Ok(HostReport { kvm: true, nested: Some(true), ..HostReport::default() });
        assert_eq!(judged(&facts, "kvm").0, State::Unknown, "that the kernel has it says little");
        for (boot, with_vms) in [(Ok(()), State::Ok), (Err("it hangs".to_owned()), State::Warn)] {
            facts.boot = Ok(boot);
            facts.spec.nodes.clear();
            assert_eq!(judged(&facts, "kvm").0, State::Ok);
            facts.spec.nodes = vec![NodeSpec::new(1, NodeKind::Vm(VmSize::default()))?];
            assert_eq!(judged(&facts, "kvm").0, with_vms);
        }
        Ok(())
    }
}
