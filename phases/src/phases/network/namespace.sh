#!/bin/sh
# Lays out the shared network namespace, then becomes dnsmasq. Safe to run again: after a crash of
# dnsmasq everything is there already, after a restart of the namespace's owner nothing is.
#
# BRIDGE_IPV4, NODES_IPV4  address of the bridge and network of the nodes; absent without IPv4
# BRIDGE_IPV6, NODES_IPV6  the same of IPv6
# MTU                      of the bridge, in bytes; that of the engine's network when empty
# REDIRECTS                ADDRESS,PORT,PORT-HERE of an endpoint, of the families above; may be empty
# OPEN                     PORT,PROTOCOL,WHO of what is published: `any`, or `host` for the engine's host alone
set -eu

mtu=${MTU:-$(cat /sys/class/net/eth0/mtu)}

# guard PROGRAM FAMILY ICMP: from the engine's network come answers, and what is published. Neither other
# ports of the namespace are open to it, nor do packets go through to nodes and pods. Chains of its own, so
# that what was open before is forgotten.
guard() {
    # Connections to a port that is published on loopback arrive from the engine's host.
    host=$(ip "-$2" route show default dev eth0 | sed -n 's/^default via \([^ ]*\).*/\1/p' | head -n 1)
    {
        echo '*filter'
        echo ':ENGINE-IN - [0:0]'
        echo ':ENGINE-THROUGH - [0:0]'
        for chain in ENGINE-IN ENGINE-THROUGH; do
            echo "-A $chain -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"
        done
        echo "-A ENGINE-IN -p $3 -j RETURN"
        for published in $OPEN; do
            port=${published%%,*} who=${published##*,} protocol=${published#*,}
            rule="-p ${protocol%,*} --dport $port -j RETURN"
            case $who in
            any) echo "-A ENGINE-IN $rule" ;;
            *) [ -z "$host" ] || echo "-A ENGINE-IN -s $host $rule" ;;
            esac
        done
        # Refused rather than unheard, so that nobody waits for an answer.
        echo '-A ENGINE-IN -p tcp -m conntrack --ctstate NEW -j REJECT --reject-with tcp-reset'
        echo '-A ENGINE-IN -j DROP'
        echo '-A ENGINE-THROUGH -j DROP'
        echo COMMIT
    } | "$1-restore" -w --noflush
    for rule in 'INPUT -i eth0 -j ENGINE-IN' 'FORWARD -i eth0 -j ENGINE-THROUGH'; do
        # shellcheck disable=SC2086 # the rule is a list of words
        "$1" -w -C $rule 2>/dev/null || "$1" -w -A $rule
    done
}
# Before there is anything to reach.
guard iptables 4 icmp
# An engine gives eth0 no IPv6 where neither the cluster nor its own network has any.
if grep -qs 'eth0$' /proc/net/if_inet6; then
    guard ip6tables 6 ipv6-icmp
fi

if [ ! -e /sys/class/net/br0 ]; then
    # A fixed address keeps the bridge from taking that of whichever port joins first, which would
    # leave the nodes with a stale ARP entry for their gateway.
    ip link add name br0 address 52:55:00:d1:55:00 type bridge forward_delay 0
    # A link-local address only where there is IPv6: neighbours and routers are found with it.
    [ -n "${BRIDGE_IPV6:-}" ] || ip link set dev br0 addrgenmode none
fi
ip link set dev br0 mtu "$mtu" up

# masquerade PROGRAM NODES: nodes reach the outside with the namespace's own address.
masquerade() {
    rule="POSTROUTING -s $2 ! -d $2 -o eth0 -j MASQUERADE"
    # shellcheck disable=SC2086 # the rule is a list of words
    "$1" -w -t nat -C $rule 2>/dev/null || "$1" -w -t nat -A $rule
}
if [ -n "${BRIDGE_IPV4:-}" ]; then
    ip addr replace "$BRIDGE_IPV4" dev br0
    masquerade iptables "$NODES_IPV4"
fi
if [ -n "${BRIDGE_IPV6:-}" ]; then
    ip addr replace "$BRIDGE_IPV6" dev br0 nodad
    # Engines give IPv6 to their networks on request alone; without it there is no outside.
    [ -z "$(ip -6 addr show dev eth0 scope global)" ] || masquerade ip6tables "$NODES_IPV6"
fi

# An endpoint that machines elsewhere know the control plane by is served right here for nodes. A
# chain of its own, so that an address of before is forgotten, in both families.
for tables in iptables ip6tables; do
    "$tables" -w -t nat -F ENDPOINT 2>/dev/null || true
done
for redirect in $REDIRECTS; do
    address=${redirect%%,*} ports=${redirect#*,}
    case $address in *:*) tables=ip6tables ;; *) tables=iptables ;; esac
    "$tables" -w -t nat -N ENDPOINT 2>/dev/null || true
    "$tables" -w -t nat -C PREROUTING -i br0 -j ENDPOINT 2>/dev/null ||
        "$tables" -w -t nat -A PREROUTING -i br0 -j ENDPOINT
    "$tables" -w -t nat -A ENDPOINT -d "$address" -p tcp --dport "${ports%,*}" -j REDIRECT --to-ports "${ports#*,}"
done

# Read by whoever started this, once dnsmasq has written its process id beside it.
echo "mtu=$mtu nofile=$(ulimit -Hn)" >/run/hoist-facts

# Under an unlimited number of open files dnsmasq would try to close each of them at its start.
ulimit -n 1024
set -- --keep-in-foreground --conf-file=/etc/hoist/dnsmasq.conf
[ -z "${BRIDGE_IPV4:-}" ] || set -- "$@" --dhcp-option="option:mtu,$mtu"
exec dnsmasq "$@"
