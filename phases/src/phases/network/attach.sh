#!/bin/sh
# In somebody else's network namespace: says what is there, sees to it that port 6443 stays here, or
# lets go of it. Safe to run again.
set -eu

# The rule sets of the two iptables don't see each other: be first in the one that is in use.
filter=iptables
if grep -qsx nat /proc/net/ip_tables_names; then
    filter=iptables-legacy
fi

# No address is changed, so that the packet goes on to whoever listens on the port here. The second
# is for engines whose published ports arrive as connections from within the namespace.
rules="PREROUTING -i eth0 -p tcp -m tcp --dport 6443 -j ACCEPT
OUTPUT -p tcp -m tcp --dport 6443 -j ACCEPT"

each() {
    echo "$rules" | while read -r chain rule; do
        "$1" "$chain" "$rule"
    done
}

remove() {
    # shellcheck disable=SC2086 # the rule is a list of words
    while "$filter" -w -t nat -D "$1" $2 2>/dev/null; do :; done
}

be_first() {
    first=$("$filter" -w -t nat -S "$1" 2>/dev/null | grep '^-A' | head -n 1)
    if [ "$first" != "-A $1 $2" ]; then
        # shellcheck disable=SC2086
        "$filter" -w -t nat -I "$1" 1 $2
        # The one of before goes last, so that there is one at every moment; the highest number first,
        # since the numbers of those below change.
        "$filter" -w -t nat -S "$1" | grep '^-A' | grep -nxF -e "-A $1 $2" | cut -d : -f 1 | sort -rn |
            while read -r number; do
                [ "$number" = 1 ] || "$filter" -w -t nat -D "$1" "$number"
            done
        echo "$1"
    fi
}

case $1 in
look)
    echo "nofile=$(ulimit -Hn)"
    echo "mtu=$(cat /sys/class/net/br0/mtu 2>/dev/null || true)"
    ip -o address show dev br0 2>/dev/null | while read -r _ _ _ address _; do
        echo "address=${address%/*}"
    done
    # State 0A is LISTEN; the port is in hexadecimal after the last colon (proc_net_tcp.rst).
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk '$4 == "0A" { sub(/.*:/, "", $2); print "listen=" $2 }' | sort -u
    ;;
keep)
    each be_first
    ;;
wait)
    # Ends with the namespace as it was found.
    trap 'each remove; exit 0' TERM INT
    while :; do
        sleep 3600 &
        wait $!
    done
    ;;
esac
