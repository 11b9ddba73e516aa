use super::{Step, wait_for};

/// The name comes by DHCP, the IPv6 address a moment later.
pub(super) fn named() -> Step {
    let named = wait_for("hostnamectl | grep -q Transient", 30);
    let addressed = wait_for("ip -6 address show dev eth0 scope global | grep -q inet6", 60);
    Step::new("get a name and addresses", format!("{named}\n{addressed}"))
}

/// A bridge brN with each further card ethN as its port, kept by NetworkManager; without DHCP,
/// which nobody answers there.
pub(super) fn secondary_bridges() -> Step {
    Step::new(
        "make bridges of the secondary NICs",
        "for path in /sys/class/net/eth[1-9]*; do
    [ -e \"$path\" ] || continue
    nic=${path##*/}
    bridge=br${nic#eth}
    nmcli connection delete \"$nic\" \"$bridge\" >/dev/null 2>&1 || true
    nmcli connection add type bridge ifname \"$bridge\" con-name \"$bridge\" ipv4.method disabled ipv6.method disabled
    nmcli connection add type ethernet ifname \"$nic\" con-name \"$nic\" master \"$bridge\"
    nmcli connection up \"$bridge\"
done",
    )
}

/// How vsock behaves in network namespaces.
pub(super) fn vsock(mode: &str) -> Option<Step> {
    let script = format!("modprobe vsock\nsysctl --write net.vsock.child_ns_mode={mode}");
    (!mode.is_empty()).then(|| Step::new("set vsock's mode", script))
}
