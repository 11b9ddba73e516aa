#!/bin/sh
# Puts the images of an archive into containerd's store for Kubernetes, without a running system.
set -eu

socket=/tmp/containerd.sock
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

ctr --address "$socket" --namespace k8s.io images import --no-unpack --snapshotter native "$1"
ctr --address "$socket" --namespace k8s.io images list -q

kill "$daemon"
wait "$daemon" || :
# The engine copies /var/lib/containerd into a volume of every new node. Layers stay in the image instead,
# behind links: containerd reads them through these, and drops a link as it would drop a file.
blobs=/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256
mkdir -p /usr/lib/hoist/blobs
find "$blobs" -type f -size +64k | while read -r blob; do
    mv "$blob" /usr/lib/hoist/blobs/
    ln -s "/usr/lib/hoist/blobs/${blob##*/}" "$blob"
done

rm -rf /tmp/containerd.toml "$socket" "$socket.ttrpc" /run/containerd
