use super::Step;
use crate::kubevirtci::args::RunArgs;
use crate::kubevirtci::guest::quote;

/// Flags that every node but node01 starts its kubelet with.
const FLAGS: &str = "--cgroup-driver=systemd --runtime-cgroups=/systemd/system.slice \
                     --kubelet-cgroups=/systemd/system.slice --fail-swap-on=false --feature-gates=NodeSwap=true";

/// Processors can be given to pods alone; the kubelet wants some set aside for that.
const CPU_MANAGER: &str = "--cpu-manager-policy=static --kube-reserved=cpu=500m --system-reserved=cpu=500m";

/// The kubelet's flags. node01 keeps those of the image, which the provider leaves there too: tests
/// rely on one node without static CPU manager.
pub(super) fn settings(args: &RunArgs, number: u32) -> Option<Step> {
    let node_ip = args.switches.single_stack.then_some("--node-ip=::");
    if number == 1 {
        let node_ip = node_ip?;
        let script = format!(
            "grep -qs -- {node_ip} /etc/sysconfig/kubelet || \
             sed -i 's|^KUBELET_EXTRA_ARGS=|&{node_ip} |' /etc/sysconfig/kubelet\n\
             systemctl daemon-reload"
        );
        return Some(Step::new("give the kubelet its address", script));
    }
    let mut flags = vec![FLAGS.to_owned(), CPU_MANAGER.to_owned()];
    flags.extend(node_ip.map(str::to_owned));
    for (flag, value) in [
        ("topology-manager-policy", &args.topology_manager_policy),
        ("reserved-cpus", &args.reserved_system_cpus),
    ] {
        if !value.is_empty() {
            flags.push(format!("--{flag}={value}"));
        }
    }
    let line = quote(&format!("KUBELET_EXTRA_ARGS={}", flags.join(" ")));
    Some(Step::new(
        "set the kubelet up",
        format!("echo {line} >/etc/sysconfig/kubelet\nsystemctl daemon-reload\nsystemctl restart kubelet"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::refuse::testing::args;
    use super::*;

    #[test]
    fn only_node01_has_no_static_cpu_manager() {
        let script = |flags: &[&str], number| settings(&args(flags), number).map(|step| step.script);
        assert_eq!(script(&[], 1), None);
        assert!(script(&["--single-stack"], 1).is_some_and(|s| s.contains("--node-ip=::")));
        let second = script(&["--topology-manager-policy=single-numa-node", "--reserved-system-cpus=4-5"], 2);
        let second = second.unwrap_or_default();
        for flag in [
            "--cpu-manager-policy=static",
            "--topology-manager-policy=single-numa-node",
            "--reserved-cpus=4-5",
        ] {
            assert!(second.contains(flag), "{second}");
        }
    }
}
