#!/bin/bash
# First process of a node: builds the node's own world out of a read-only root file system and a
# disk, then becomes its service supervisor. Called by node.py, in fresh mount, pid, uts, ipc and
# cgroup namespaces, with the node's state folder as $1; settings are in its boot.env.
#
# Everything a pod can read of its mounts comes from here, so paths and names are a node's: the disk
# is /dev/sda1 holding /var, and the loop device behind it was opened through a mount that is gone.
set -eu
state=$1
. "$state/boot.env"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/system /mnt/programs /mnt/images /mnt/disk /mnt/dev /mnt/root /mnt/state
mount --bind "$SYSTEM" /mnt/system
mount --bind "$PROGRAMS" /mnt/programs
mount --bind "$STORE" /mnt/images

# The disk, through a mount that shows nothing of where its file lies.
mount --bind "$state" /mnt/state
loop=$(losetup --find --show --nooverlap /mnt/state/disk.img)
umount -l /mnt/state
mount -t tmpfs -o mode=755,size=1m devtmpfs /mnt/dev
mkdir /mnt/dev/pts /mnt/dev/shm /mnt/dev/mqueue
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/loop-control /mnt/dev/
number=$(stat -c '%Hr %Lr' "$loop")
mknod -m 660 /mnt/dev/sda1 b $number
mount --move /mnt/dev /dev
mount -t ext4 -o noatime,nobarrier,noinit_itable /dev/sda1 /mnt/disk
mknod -m 660 "$loop" b $number
losetup --detach "$loop" # takes effect when the last mount of it ends
rm "$loop"

cd /mnt
mkdir -p disk/upper disk/work disk/var/lib/{containerd,kubelet,etcd} disk/var/log disk/var/local-path-provisioner
if [ -n "$RESTORE" ] && [ ! -e disk/restored ]; then
  tar -xpf "$RESTORE" -C disk --numeric-owner
  touch disk/restored
fi
# One root out of what all nodes share: programs, unpacked images, the system; the node's own on top.
mount -t overlay overlay -o lowerdir=programs:images:system,upperdir=disk/upper,workdir=disk/work root
R=/mnt/root
cp -a "$state/etc/." $R/etc/
mkdir -p $R/var/lib/{containerd,kubelet,etcd} $R/var/log $R/var/local-path-provisioner
for d in lib/containerd lib/kubelet lib/etcd log local-path-provisioner; do mount --bind "disk/var/$d" "$R/var/$d"; done
# Images are known from the start; a node's containers are gone after a boot, as on any node.
if [ ! -e disk/var/lib/containerd/io.containerd.metadata.v1.bolt ]; then
  tar -xpf "$SEED" -C disk/var/lib/containerd --numeric-owner
fi

mount -t proc proc $R/proc
mount -t sysfs sysfs $R/sys
if [ "$CGROUP" = 2 ]; then
  mount -t cgroup2 cgroup2 $R/sys/fs/cgroup
  for c in cpu cpuset memory pids io; do echo "+$c" > $R/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || :; done
else
  mount -t tmpfs -o mode=755 tmpfs $R/sys/fs/cgroup
  (cd $R/sys/fs/cgroup && mkdir $CONTROLLERS)
  for c in $CONTROLLERS; do
    if [ "$c" = systemd ]; then o=none,name=systemd; else o=$c; fi
    mount -t cgroup -o "$o" cgroup "$R/sys/fs/cgroup/$c"
  done
fi
mount -t tmpfs -o mode=755 tmpfs $R/run; mkdir -p $R/run/lock
mount -t tmpfs -o mode=1777 tmpfs $R/tmp
mount --move /dev $R/dev
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts $R/dev/pts
ln -s pts/ptmx $R/dev/ptmx; ln -s /proc/self/fd $R/dev/fd; ln -s null $R/dev/kmsg
mount -t tmpfs -o mode=1777 tmpfs $R/dev/shm
mount -t mqueue mqueue $R/dev/mqueue
printf '%s\n' "$BOOT_ID" > $R/run/boot_id; mount --bind $R/run/boot_id $R/proc/sys/kernel/random/boot_id
hostname "$NODE"

cd $R
mkdir -p old
mount --make-rprivate /
pivot_root . old
hash -r
umount -l /old
rmdir /old 2>/dev/null || :
mount --make-rshared /
cd /
nft -f /etc/nftables.conf
touch -d '1 minute ago' /etc/service # the supervisor waits a second beside a folder that has just changed
exec env -i PATH="$PATH" HOME=/root runsvdir -P /etc/service
