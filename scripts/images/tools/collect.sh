#!/bin/sh
# Makes a root file system of a few programs and what they load.
#   collect.sh DIRECTORY
set -eu

out=$1
mkdir -p "$out/etc/iproute2" "$out/usr/bin" "$out/usr/lib" "$out/usr/sbin" "$out/run" "$out/var/lib" "$out/tmp"
chmod 1777 "$out/tmp"
ln -s /run "$out/var/run"
# As in Debian: /bin, /lib, /lib64 and /sbin are links.
for link in bin lib lib64 sbin; do
    if [ -L "/$link" ]; then
        cp -P "/$link" "$out/$link"
        mkdir -p "$out/$(readlink "/$link")"
    fi
done

# Copies a file with the links that lead to it, and the libraries that it is linked with.
take() {
    path=$1
    while :; do
        path=$(realpath -e "${path%/*}")/${path##*/}
        [ ! -e "$out$path" ] || return 0
        mkdir -p "$out${path%/*}"
        cp -P --preserve=mode,timestamps "$path" "$out$path"
        [ -L "$path" ] || break
        target=$(readlink "$path")
        case $target in
            /*) path=$target ;;
            *) path=${path%/*}/$target ;;
        esac
    done
    # Fails for what is no dynamic program.
    libraries=$(ldd "$path" 2>/dev/null | sed -n 's/^[^/]*\(\/[^ ]*\) (.*/\1/p') || return 0
    for library in $libraries; do
        (take "$library")
    done
}

for program in ip ipset modprobe nft \
    iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    take "$(command -v "$program")"
done
# Loaded by name: each match and target of a rule, those of other programs included, for iptables-restore
# would lose them; and what modprobe unpacks modules with.
for plugin in /usr/lib/*/xtables/*.so /usr/lib/*/liblzma.so.5; do
    take "$plugin"
done
# Names in rules. kube-router writes its own table into rt_tables.
cp -L --preserve=timestamps /etc/protocols /etc/services "$out/etc/"
cp -L --preserve=timestamps /usr/share/iproute2/rt_tables "$out/etc/iproute2/"

cp --preserve=mode,timestamps /bin/busybox "$out/usr/bin/busybox"
# For hooks, and for whoever looks around; the rest as `busybox NAME`.
for applet in awk basename cat chmod cp cut dirname env find grep head id install ls mkdir mktemp mount mv ps \
    readlink rm sed sh sleep sort sysctl tail test touch tr umount wc wget; do
    ln -s busybox "$out/usr/bin/$applet"
done

# Nothing may be missing.
mkdir -p "$out/proc"
for program in 'ip -V' 'ipset help' 'modprobe -V' 'nft -v' 'iptables -V' 'ip6tables-restore -V' 'sh -c :' \
    'sleep 0.01' 'cp --help'; do
    # shellcheck disable=SC2086 # words
    chroot "$out" $program >/dev/null 2>&1 || { echo "$program does not run" >&2; exit 1; }
done
rmdir "$out/proc"
find "$out" -type d -exec touch -d @946684800 {} +
