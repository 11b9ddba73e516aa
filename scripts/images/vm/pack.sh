#!/bin/sh
# Unpacks Debian's kernel package below /kernel into what the other stages take:
#   /vm/vmlinuz, /vm/vmlinux, /vm/initrd   to boot directly
#   /guest                                 modules and configuration, for the guest's disk
#   /tools                                 programs that write the disk, with their libraries
set -eu

version=$(ls /kernel/usr/lib/modules)
mkdir -p /vm /guest/usr/lib/modules /guest/boot /tools/lib

# --- Modules: unpacked once here rather than by each boot.
find /kernel/usr/lib/modules -name '*.ko.xz' -exec xz -d {} +
mv "/kernel/usr/lib/modules/$version" /guest/usr/lib/modules/
ln -s usr/lib /guest/lib
depmod -b /guest "$version"
rm /guest/lib
# kubeadm's preflight looks here for what the kernel can do.
cp "/kernel/boot/config-$version" /guest/boot/

# --- The kernel itself, as an ELF file that qemu starts through its PVH entry.
cp "/kernel/boot/vmlinuz-$version" /vm/vmlinuz
# The image holds its payload as a zstd frame; what else has these four bytes doesn't unpack to an ELF file.
grep -abo "$(printf '\050\265\057\375')" /vm/vmlinuz | cut -d : -f 1 | while read -r offset; do
    tail -c "+$((offset + 1))" /vm/vmlinuz | zstd -dcq >/vm/vmlinux 2>/dev/null || :
    [ "$(head -c 4 /vm/vmlinux | tail -c 3)" != ELF ] || break
done
[ "$(head -c 4 /vm/vmlinux | tail -c 3)" = ELF ] || { echo "no ELF file in vmlinuz" >&2; exit 1; }

# --- The initrd: one program, and the drivers without which there is no disk, network or credential.
initrd=/tmp/initrd
mkdir -p "$initrd/bin" "$initrd/dev" "$initrd/modules" "$initrd/root"
cp /bin/busybox "$initrd/bin/"
cp /tmp/init "$initrd/init"
mkdir -p /guest/usr/lib/hoist
cp /bin/busybox /guest/usr/lib/hoist/
printf '#!/bin/busybox sh\necho hoist-probe\n/bin/busybox reboot -f\n' >"$initrd/probe"
chmod 0755 "$initrd/init" "$initrd/probe"
for module in virtio_blk qemu_fw_cfg failover net_failover virtio_net llc stp bridge br_netfilter overlay; do
    path=$(find "/guest/usr/lib/modules/$version" -name "$module.ko")
    [ -n "$path" ] || { echo "no module $module" >&2; exit 1; }
    cp "$path" "$initrd/modules/"
done
(cd "$initrd" && find . | LC_ALL=C sort | cpio -o -H newc --owner 0:0 --reproducible) >/vm/initrd

# --- What writes the disk in a stage that must not have these packages installed.
cp "$(command -v mke2fs)" "$(command -v qemu-img)" "$(command -v jq)" /tools/
archive=$(ls /usr/lib/*/libarchive.so.13)
cp "$archive" /tools/lib/
for file in /tools/mke2fs /tools/qemu-img /tools/jq "$archive"; do
    ldd "$file" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | xargs -r cp -t /tools/lib
done
