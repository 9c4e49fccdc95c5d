"""Volumes that fill up, run out of inodes, turn read-only or slow: done to the mount itself, from the node."""

import shlex
from typing import Literal

from pydantic import Field, field_validator

from aftershock.base.wait import NotYet
from aftershock.fault.base import primitive
from aftershock.fault.machine import OnPods, Place
from aftershock.fault.scene import Scene

MIB = 1 << 20


class OnVolume(OnPods):
    """Base of what is done to a mount of a container; `path` is where the container sees it."""

    path: str = Field(pattern=r"^/[\w./-]*$")

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        if ".." in path.split("/"):
            raise ValueError("`..` does not belong into a path")
        return path


@primitive("fill_disk")
class FillDisk(OnVolume):
    """Fill a volume with one file until only `leave` bytes are free for the container's processes."""

    file: str = Field(default="core", pattern=r"^[\w.-]+$")
    leave: int = Field(default=0, ge=0)

    async def act(self, scene: Scene, place: Place) -> str:
        # Allocated and never written, the blocks cost the machine nothing: the disk behind is sparse.
        await place.run(
            scene,
            """file=$ROOT$1/$2
            owner=$(awk '/^Uid:/ {u=$2} /^Gid:/ {print u ":" $2}' /proc/$P/status)
            case $owner in 0:*) blocks=%f ;; *) blocks=%a ;; esac # what is reserved is there for root
            free=$(stat -f -c "$blocks %S" "$ROOT$1" | awk -v keep="$3" '{print $1 * $2 - keep}')
            for share in 1000 999 995 990 970 900; do
              size=$(awk -v f="$free" -v s=$share 'BEGIN {printf "%d", f * s / 1000}')
              if [ "$size" -gt 0 ] && fallocate -l "$size" "$file" 2>/dev/null; then break; fi
            done
            while :; do
              more=$(stat -f -c "$blocks %S" "$ROOT$1" | awk -v keep="$3" '{print $1 * $2 - keep}')
              if [ "$more" -lt 4096 ]; then break; fi
              head -c "$more" /dev/zero >>"$file" 2>/dev/null || break
            done
            chown "$owner" "$file" """,
            self.path, self.file, str(self.leave), timeout=60,
        )  # fmt: skip
        return ""

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        free = int(await place.look(scene, 'stat -f -c "%a %S" "$ROOT$1" | awk \'{print $1 * $2}\'', self.path))
        if free > self.leave + MIB:
            raise NotYet(f"{self.path} in {place.pod} still has {free} bytes free")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(scene, 'rm -f "$ROOT$1/$2"', self.path, self.file)


@primitive("use_inodes")
class UseInodes(OnVolume):
    """Use up a volume's inodes with empty files in one folder (`sessions/sess_1` and so on), but for `leave`."""

    folder: str = Field(default="sessions", pattern=r"^[\w.-]+$")
    prefix: str = Field(default="sess_", pattern=r"^[\w.-]+$")
    leave: int = Field(default=0, ge=0)
    at_most: int = Field(default=300_000, ge=1, le=2_000_000)

    async def act(self, scene: Scene, place: Place) -> str:
        await place.run(
            scene,
            """count=$(( $(stat -f -c %d "$ROOT$1") - $4 ))
            if [ "$count" -gt "$5" ]; then echo "$count inodes are free, more than at_most" >&2; exit 1; fi
            owner=$(awk '/^Uid:/ {u=$2} /^Gid:/ {print u ":" $2}' /proc/$P/status)
            mkdir -p "$ROOT$1/$2"; chown "$owner" "$ROOT$1/$2"; cd "$ROOT$1/$2"
            seq -f "$3%.0f" "$count" | xargs touch 2>/dev/null || :""",
            self.path, self.folder, self.prefix, str(self.leave), str(self.at_most), timeout=120,
        )  # fmt: skip
        return ""

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        left = int(await place.look(scene, 'stat -f -c %d "$ROOT$1"', self.path))
        if left > self.leave + 2:
            raise NotYet(f"{self.path} in {place.pod} still has {left} inodes")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(scene, 'rm -rf "$ROOT$1/$2"', self.path, self.folder, timeout=120)


@primitive("readonly_volume")
class ReadonlyVolume(OnVolume):
    """Turn a container's mount read-only; refused by the kernel while files are open for writing on it.

    `how: aborted` is what ext4 does to itself after an error of the disk: the whole file system, open files
    or not, until it is mounted anew. It takes a volume with a file system of its own, and has no undo.
    """

    how: Literal["mount", "aborted"] = "mount"

    async def act(self, scene: Scene, place: Place) -> str:
        option = "remount,bind,ro" if self.how == "mount" else "remount,abort"
        if self.how == "aborted":
            await place.run(
                scene,
                """set -- $(awk -v at="$1" '$5 == at {print $3}' /proc/$P/mountinfo) none
                if [ "$1" = none ] || awk '$5 == "/var/lib/kubelet" {print $3}' /proc/self/mountinfo | grep -qx "$1"
                then echo 'this is no volume with a file system of its own' >&2; exit 1; fi""",
                self.path,
            )
        await place.run(scene, f'mount -N "$P" -o {option} "$1"', self.path)
        return ""

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        line = await place.look(scene, "awk -v at=\"$1\" '$5 == at {print $6, $NF}' /proc/$P/mountinfo", self.path)
        found = {option for options in line.split() for option in options.split(",")}
        if not found & {"ro", "emergency_ro"}:
            raise NotYet(f"{self.path} in {place.pod} is mounted {line or 'not at all'}")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        if self.how == "mount":
            await place.run(scene, 'mount -N "$P" -o remount,bind,rw "$1"', self.path)


@primitive("slow_disk")
class SlowDisk(OnVolume):
    """Throttle what a container reads and writes on the disk behind a volume, in bytes and operations a second."""

    bytes_per_second: int | None = Field(default=None, ge=4096)
    operations_per_second: int | None = Field(default=None, ge=1)

    def settings(self) -> dict[str, str]:
        """File of cgroup v1 -> value; empty when nothing was asked for."""
        found = {}
        for unit, value in (("bps", self.bytes_per_second), ("iops", self.operations_per_second)):
            for direction in ("read", "write"):
                if value is not None:
                    found[f"blkio.throttle.{direction}_{unit}_device"] = str(value)
        return found

    def model_post_init(self, context: object) -> None:
        if not self.settings():
            raise ValueError("give `bytes_per_second`, `operations_per_second`, or both")

    def unified(self) -> str:
        """The same as one line of cgroup v2's io.max."""
        bps, iops = self.bytes_per_second or "max", self.operations_per_second or "max"
        return f"rbps={bps} wbps={bps} riops={iops} wiops={iops}"

    async def act(self, scene: Scene, place: Place) -> str:
        writes = "\n".join(f'echo "$disk {v}" >"$(group blkio)/{name}"' for name, v in self.settings().items())
        return await place.run(
            scene,
            f"""disk=$(awk -v at="$1" '$5 == at {{print $3; exit}}' /proc/$P/mountinfo)
            if [ -z "$disk" ]; then echo "nothing is mounted at $1" >&2; exit 1; fi
            if [ $V = 2 ]; then echo "$disk {self.unified()}" >"$(group io)/io.max"; else
            {writes}
            fi
            echo "$disk" """,
            self.path,
        )

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        names = " ".join(shlex.quote(name) for name in self.settings())
        read = f'cd "$(group blkio)"; if [ $V = 2 ]; then cat io.max; else cat {names}; fi'
        lines = await place.look(scene, read)
        if not any(line.startswith(f"{kept} ") for line in lines.splitlines()):
            raise NotYet(f"{self.path} in {place.pod} is not throttled")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        resets = "\n".join(f'echo "$1 0" >"$(group blkio)/{name}"' for name in self.settings())
        free = "rbps=max wbps=max riops=max wiops=max"
        await place.run(scene, f'if [ $V = 2 ]; then echo "$1 {free}" >"$(group io)/io.max"; else\n{resets}\nfi', kept)
