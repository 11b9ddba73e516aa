#!/bin/sh
# Makes a machine of the root file system that it runs in, and writes it to /disk.qcow2.
set -eu

size=8G # of the file system; a bigger disk is grown into at boot

# --- Units that a machine without terminals, swap, TPM or users has no work for.
units=/usr/lib/systemd/system
for unit in \
    console-getty.service dev-hugepages.mount getty-static.service getty.target getty@.service \
    ldconfig.service proc-sys-fs-binfmt_misc.automount remote-fs.target run-lock.mount serial-getty@.service ssh.socket \
    sshd-keygen.service sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount \
    sys-kernel-tracing.mount systemd-ask-password-console.path systemd-ask-password-wall.path \
    systemd-binfmt.service systemd-firstboot.service systemd-hibernate-clear.service systemd-hwdb-update.service \
    systemd-journal-catalog-update.service systemd-journal-flush.service systemd-machine-id-commit.service \
    systemd-networkd-wait-online.service systemd-pcrmachine.service systemd-pcrphase-sysinit.service \
    systemd-pcrphase.service systemd-pstore.service systemd-random-seed.service systemd-sysusers.service \
    systemd-tpm2-setup-early.service systemd-tpm2-setup.service systemd-update-done.service \
    systemd-creds.socket systemd-hostnamed.socket systemd-initctl.socket systemd-journald-audit.socket \
    systemd-pcrextend.socket systemd-pcrlock.socket systemd-sysext.socket systemd-tmpfiles-clean.timer \
    systemd-user-sessions.service; do
    find "$units" /etc/systemd/system -path "*.wants/$unit" -exec rm -f {} +
    ln -sfn /dev/null "/etc/systemd/system/$unit"
done
# Started after everything that a join waits for: see hoist-late.target.
rm -f "$units/multi-user.target.wants/systemd-logind.service"

# Each generator is a program run before the first unit. None has anything to generate here.
mkdir -p /etc/systemd/system-generators
for generator in /usr/lib/systemd/system-generators/*; do
    ln -s /dev/null "/etc/systemd/system-generators/$(basename "$generator")"
done

systemctl enable hoist-lease.path ssh.service systemd-networkd.service
systemctl disable systemd-networkd-wait-online.service 2>/dev/null || :
systemctl set-default hoist-late.target
rm -f /etc/fstab /etc/motd

# --- Files over which the engine mounts its own while it builds.
new=/tmp/new
mkdir -p "$new/etc" "$new/dev" "$new/proc" "$new/sys" "$new/run"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$new/etc/hosts"
# dnsmasq, at the address it has in every cluster.
printf 'nameserver 192.168.66.2\n' >"$new/etc/resolv.conf"
touch /usr; /usr/lib/systemd/systemd-update-done

# --- The disk.
tool() {
    name=$1
    shift
    LD_LIBRARY_PATH=/tools/lib "/tools/$name" "$@"
}
truncate -s "$size" /tmp/disk.raw
tar --numeric-owner --one-file-system -cf - -C / \
    --exclude=./dev --exclude=./proc --exclude=./sys --exclude=./run --exclude=./tools --exclude='./tmp/*' \
    --exclude=./.dockerenv --exclude=./etc/hosts --exclude=./etc/hostname --exclude=./etc/resolv.conf \
    --exclude=./usr/local/sbin/hoist-node-init . \
    -C "$new" ./etc/hosts ./etc/resolv.conf ./dev ./proc ./sys ./run |
    tool mke2fs -q -t ext4 -L hoist-root -m 0 -E lazy_journal_init=1 -d - /tmp/disk.raw
tool qemu-img convert -f raw -O qcow2 /tmp/disk.raw /disk.qcow2
rm -rf /tmp/disk.raw "$new"
