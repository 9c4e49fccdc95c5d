#!/bin/bash
# Runs a script beside a containerd of its own, in mount and process namespaces that end with it.
# $1: a node's root file system, $2: containerd's data folder, $3: the image store, $4: the script.
set -eu
system=$1 data=$2 store=$3 script=$4
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$system,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
R=/mnt/root
mkdir -p $R/var/lib/containerd $R/var/lib/images $R/run $R/tmp "$R$store"
mount --bind "$data" $R/var/lib/containerd
mount --bind "$store/root/var/lib/images" $R/var/lib/images
mount --bind "$store" "$R$store"
mount -t proc proc $R/proc
# Registries are found and trusted as on this machine.
cp /etc/resolv.conf /etc/hosts $R/etc/
mkdir -p $R/etc/ssl; [ ! -d /etc/ssl ] || mount --bind /etc/ssl $R/etc/ssl
mount --rbind /dev $R/dev
mount -t tmpfs tmpfs $R/run
mount -t tmpfs tmpfs $R/tmp
cat > $R/etc/containerd/config.toml <<'TOML'
version = 2
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.grpc.v1.cri",
]
TOML
chroot $R /usr/bin/containerd >/mnt/containerd.log 2>&1 &
for _ in $(seq 400); do
  [ -S $R/run/containerd/containerd.sock ] && chroot $R /usr/bin/ctr version >/dev/null 2>&1 && break
  sleep 0.025
done
chroot $R /bin/bash -euc "$script" || { code=$?; tail -5 /mnt/containerd.log >&2; exit $code; }
kill %1
wait %1 || :
