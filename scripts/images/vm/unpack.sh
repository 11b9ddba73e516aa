#!/bin/sh
# Unpacks the node image's preloaded images into containerd's overlayfs snapshots: an emulated machine takes half a
# minute for what this does in a second. containerd itself would mount each first layer, which a build step may not;
# so it hands out the directories, and layers are unpacked into them as it would do.
set -eu

socket=/tmp/containerd.sock
content=/var/lib/containerd/io.containerd.content.v1.content/blobs
cat >/tmp/containerd.toml <<CONF
version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$socket"
CONF

containerd --config /tmp/containerd.toml --log-level warn &
daemon=$!
attempts=0
until ctr --address "$socket" version >/dev/null 2>&1; do
    attempts=$((attempts + 1))
    if [ "$attempts" -ge 300 ] || ! kill -0 "$daemon"; then
        echo "containerd did not start" >&2
        exit 1
    fi
    sleep 0.05
done

store() { ctr --address "$socket" --namespace k8s.io "$@"; }
snapshots() { store snapshots --snapshotter overlayfs "$@"; }
# Path of what a digest such as sha256:HEX names.
blob() { echo "$content/$(echo "$1" | tr : /)"; }
json() { LD_LIBRARY_PATH=/tools/lib /tools/jq -r "$1" "$2"; }

# The name of a layer with all below it, as the OCI image specification defines it.
chain() { if [ -n "$1" ]; then printf '%s %s' "$1" "$2" | sha256sum | sed 's/^/sha256:/; s/ .*//'; else echo "$2"; fi; }

unpack() {
    layer=$1 parent=$2 name=$3
    # One of the parent's mounts, or a bind mount where there is none: what is written goes to this directory.
    # shellcheck disable=SC2086 # no parent is no argument
    snapshots prepare "$name.new" $parent >/dev/null
    directory=$(snapshots mounts /target "$name.new" |
        sed -n -e 's/.*[ ,]upperdir=\([^, ]*\).*/\1/p' -e 's/^mount -t bind \([^ ]*\) .*/\1/p')
    [ -d "$directory" ] || { echo "no directory for $name" >&2; exit 1; }
    tar --numeric-owner -xpf "$layer" -C "$directory"
    # What a layer removes, overlayfs marks otherwise; directories that hide all below them would need a capability.
    [ -z "$(find "$directory" -name .wh..wh..opq)" ] || { echo "opaque directory in $layer" >&2; exit 1; }
    find "$directory" -name '.wh.*' | while read -r mark; do
        rm "$mark"
        mknod "${mark%/*}/$(basename "$mark" | sed 's/^\.wh\.//')" c 0 0
    done
    snapshots commit "$name" "$name.new"
}

store images ls | sed 1d | while read -r image _ manifest _; do
    while index=$(json '.manifests[0].digest // empty' "$(blob "$manifest")") && [ -n "$index" ]; do
        manifest=$index
    done
    config=$(json .config.digest "$(blob "$manifest")")
    parent=
    layers=$(json '.layers[].digest' "$(blob "$manifest")")
    for difference in $(json '.rootfs.diff_ids[]' "$(blob "$config")"); do
        layer=${layers%%[!a-z0-9:]*}
        layers=${layers#"$layer"}
        layers=${layers#?}
        name=$(chain "$parent" "$difference")
        snapshots info "$name" >/dev/null 2>&1 || unpack "$(blob "$layer")" "$parent" "$name"
        parent=$name
    done
    # The image holds its topmost snapshot, that one those below it.
    store content label "$config" "containerd.io/gc.ref.snapshot.overlayfs=$parent" >/dev/null
    echo "unpacked $image"
done
snapshots ls | sed 1d | while read -r name _; do
    snapshots label "$name" containerd.io/gc.root= >/dev/null
done
snapshots ls

kill "$daemon"
wait "$daemon" || :
rm -rf /tmp/containerd.toml "$socket" "$socket.ttrpc" /run/containerd
