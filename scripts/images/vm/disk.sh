#!/bin/sh
# Makes a machine of the root file system that it runs in, and writes it to /disk.qcow2.
set -eu

size=8G # of the file system; a bigger disk is grown into at boot

# --- Units that a machine without terminals, swap, TPM or users has no work for, and what the initrd did.
units=/usr/lib/systemd/system
forget() { find "$units" /etc/systemd/system -path "*.wants/$1" -exec rm -f {} +; }
for unit in \
    console-getty.service getty-static.service getty.target getty@.service ldconfig.service \
    proc-sys-fs-binfmt_misc.automount remote-fs.target run-lock.mount serial-getty@.service ssh.socket \
    sshd-keygen.service systemd-ask-password-console.path systemd-ask-password-wall.path systemd-binfmt.service \
    systemd-creds.socket systemd-firstboot.service systemd-hibernate-clear.service systemd-hostnamed.socket \
    systemd-hwdb-update.service systemd-initctl.socket systemd-journal-catalog-update.service \
    systemd-journal-flush.service systemd-journald-audit.socket systemd-machine-id-commit.service \
    systemd-modules-load.service systemd-network-generator.service systemd-networkd.service \
    systemd-networkd-wait-online.service systemd-pcrextend.socket systemd-pcrlock.socket \
    systemd-pcrmachine.service systemd-pcrphase-sysinit.service systemd-pcrphase.service systemd-pstore.service \
    systemd-random-seed.service systemd-sysext.socket systemd-sysusers.service systemd-tmpfiles-clean.timer \
    systemd-tmpfiles-setup-dev-early.service systemd-tpm2-setup-early.service systemd-tpm2-setup.service \
    systemd-udev-load-credentials.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
    systemd-update-done.service systemd-user-sessions.service; do
    forget "$unit"
    ln -sfn /dev/null "/etc/systemd/system/$unit"
done
# Started by whoever calls it.
forget dbus.service

# --- Units that can wait until the machine is up. Elsewhere everything waits for them, which takes an order that
# can be left out, but not taken back: so these are copies without it; and without the system call filters that an
# emulated machine compiles for seconds.
mkdir -p /etc/systemd/system/hoist-late.target.wants
for unit in \
    dev-hugepages.mount kmod-static-nodes.service sys-fs-fuse-connections.mount sys-kernel-config.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount systemd-logind.service systemd-tmpfiles-setup-dev.service \
    systemd-tmpfiles-setup.service systemd-udev-trigger.service systemd-udevd.service; do
    forget "$unit"
    sed -e '/^Before=/d' -e '/^After=/d' -e '/^DefaultDependencies=/d' -e '/^Sockets=/d' -e '/^Requires=.*socket/d' \
        -e '/=modprobe@/d' -e '/^Wants=user.slice/d' \
        -e '/^IPAddressDeny=/d' -e '/^Lock/d' -e '/^MemoryDeny/d' -e '/^Protect/d' -e '/^Restrict/d' -e '/^SystemCall/d' \
        -e 's/^\[Unit\]$/&\nDefaultDependencies=no\nAfter=multi-user.target\nConflicts=shutdown.target\nBefore=shutdown.target/' \
        -e 's/^\[\(Service\|Mount\)\]$/&\nSlice=hoist-late.slice/' \
        "$units/$unit" >"/etc/systemd/system/$unit"
    ln -s "../$unit" "/etc/systemd/system/hoist-late.target.wants/$unit"
done

# Each generator is a program run before the first unit. None has anything to generate here.
mkdir -p /etc/systemd/system-generators
for generator in /usr/lib/systemd/system-generators/*; do
    ln -s /dev/null "/etc/systemd/system-generators/$(basename "$generator")"
done

systemctl enable hoist-network.service hoist-network6.service ssh.service
systemctl set-default hoist-late.target
rm -f /etc/fstab /etc/motd

# Plugins of containerd that look for file systems and daemons which are not here.
sed -i '0,/^version = 2$/s//&\n\ndisabled_plugins = [\
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",\
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.native",\
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",\
]/' /etc/containerd/config.toml

# --- Files over which the engine mounts its own while it builds.
new=/tmp/new
mkdir -p "$new/etc" "$new/dev" "$new/proc" "$new/sys" "$new/run"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$new/etc/hosts"
# Until the lease tells.
: >"$new/etc/resolv.conf"
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
    -C "$new" etc/hosts etc/resolv.conf dev proc sys run |
    tool mke2fs -q -t ext4 -L hoist-root -m 0 -E lazy_journal_init=1 -d - /tmp/disk.raw
tool qemu-img convert -f raw -O qcow2 /tmp/disk.raw /disk.qcow2
rm -rf /tmp/disk.raw "$new"
