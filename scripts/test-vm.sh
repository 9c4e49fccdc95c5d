#!/bin/bash
# The core of the cluster tests on another kind of machine: a stock Debian 12 under systemd with a unified
# control group hierarchy (cgroup v2) and the distribution's kernel, in a virtual machine.
#
# The processors are emulated, since virtual machines often cannot have others: everything takes about ten
# times as long. Arguments: ids of the tests to run instead of the core.
# The exit status is the tests' own; 124 when the time is up.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=${TEST_VM_LIMIT:-2400} # seconds for the virtual machine
python=.venv/bin/python
say() { echo "test-vm: $*" >&2; }

if [ "$(id -u)" != 0 ]; then
  say "run as root: disks are made and mounted"
  exit 3
fi
if ! command -v qemu-system-x86_64 >/dev/null; then
  say "installing qemu"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends qemu-system-x86 >/dev/null
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/test-vm.XXXXXX")
machine='' shown=''
clean() {
  trap '' INT TERM HUP
  for pid in $machine $shown; do kill "$pid" 2>/dev/null || :; done
  wait
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
SECONDS=0

root=$("$python" scripts/vm_images.py root)
say "preparing the payload"
truncate -s 16G "$work/payload.img"
mkfs.ext4 -q -F -E lazy_itable_init=1,lazy_journal_init=1,nodiscard "$work/payload.img"
mkdir "$work/payload"
# Mounted where nobody else sees it: no box that starts meanwhile holds it, and it cannot outlive this.
unshare --mount bash -euc '
  mount -o loop "$1.img" "$1"
  "$2" scripts/vm_images.py payload "$1"
  if (($# > 2)); then printf "%s\n" "${@:3}" >"$1/tests"; fi
  umount "$1"
' prepare "$work/payload" "$python" "$@"

say "starting the virtual machine ($SECONDS s)"
touch "$work/out.log"
TMPDIR=$work timeout --kill-after=5 "$limit" qemu-system-x86_64 \
  -accel tcg,thread=multi -cpu max -smp 2 -m 8192 -display none -no-reboot -net none \
  -serial "file:$work/console.log" -serial "file:$work/out.log" \
  -kernel "$root/vmlinuz" -initrd "$root/initrd.img" -append "root=/dev/vda rw console=ttyS0 quiet panic=-1" \
  -drive "file=$root/disk.img,if=virtio,format=raw,snapshot=on" \
  -drive "file=$work/payload.img,if=virtio,format=raw,cache=unsafe" &
machine=$!
tail -n +1 -f --pid=$machine "$work/out.log" &
shown=$!
status=0
wait $machine || status=$?
machine=''
wait $shown || :
shown=''

code=$(sed -n 's/^vm: tests ended with \([0-9]*\)$/\1/p' "$work/out.log")
if [ "$status" = 124 ]; then
  say "not done within $limit s"
  code=124
elif [ -z "$code" ]; then
  say "the tests did not end; the virtual machine's console:"
  tail -n 20 "$work/console.log" >&2
  code=1
fi
say "$SECONDS s in all, status $code"
exit "$code"
