"""Control groups of a box: the handle by which all its processes are found, limited and ended.

A node's processes start in the node's group and cannot leave it, so ending a box is ending what is
in its groups, whatever the processes are called and whoever started them.
"""

import os
import signal
from pathlib import Path

from aftershock.base.errors import HostError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box.devices import deny_block_devices
from aftershock.cluster.box.layout import Layout
from aftershock.cluster.host import cgroup_version

__all__ = ["WORLD", "end_processes", "joins", "make", "processes", "remove", "roots"]

ROOT = Path("/sys/fs/cgroup")
V1 = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
WORLD = "world"  # of external parties, which end with the box
V2 = ("cpu", "cpuset", "memory", "pids", "io")


def controllers() -> tuple[str, ...]:
    """The v1 hierarchies of this machine, or nothing on a unified one."""
    return tuple(c for c in V1 if (ROOT / c).is_dir()) if cgroup_version() == 1 else ()


def roots(layout: Layout) -> list[Path]:
    """The box's group in each hierarchy."""
    return [ROOT / c / layout.cgroup for c in controllers()] or [ROOT / layout.cgroup]


def _write(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except OSError as error:
        raise HostError(
            f"the kernel refused a control group setting: {error.strerror}", where=f"{value!r} to {path}"
        ) from error


def _level(group: Path) -> None:
    """Make one level and hand it the CPUs and memory nodes of its parent (v1 leaves them empty)."""
    group.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        if cgroup_version() == 1 and (group / name).exists() and not (group / name).read_text().strip():
            _write(group / name, (group.parent / name).read_text().strip())


def make(layout: Layout) -> None:
    """Make the groups of a box and of its nodes, with the box's limits."""
    if cgroup_version() == 2:
        top = ROOT
        for part in (*layout.cgroup.split("/"), ""):
            for controller in V2:
                if controller in (top / "cgroup.controllers").read_text().split():
                    _write(top / "cgroup.subtree_control", f"+{controller}")
            if part:
                top = top / part
                top.mkdir(exist_ok=True)
        _write(top / "memory.max", str(layout.memory))
        _write(top / "cpu.weight", str(max(1, min(10000, layout.cpu_shares * 100 // 1024))))
        for node in layout.node_names:
            (top / node / "init").mkdir(parents=True, exist_ok=True)
        (top / WORLD).mkdir(exist_ok=True)
        return
    for controller in controllers():
        top = ROOT / controller
        for part in layout.cgroup.split("/"):
            top = top / part
            _level(top)
        if controller == "memory":
            _write(top / "memory.limit_in_bytes", str(layout.memory))
        if controller == "cpu":
            _write(top / "cpu.shares", str(layout.cpu_shares))
        for node in (*layout.node_names, WORLD):
            _level(top / node)


def deny_disks(layout: Layout) -> None:
    """Take the machine's disks from the nodes: not even a privileged container may open them.

    Loop devices stay, since the nodes' own disks are such.
    """
    if cgroup_version() == 2:
        for node in layout.node_names:
            deny_block_devices(ROOT / layout.cgroup / node)
        return
    for disk in Path("/sys/block").iterdir():
        if disk.name.startswith(("loop", "ram", "zram")):
            continue
        for device in (disk, *(p for p in disk.iterdir() if (p / "dev").exists())):
            number = (device / "dev").read_text().strip()
            for node in layout.node_names:
                _write(ROOT / "devices" / layout.cgroup / node / "devices.deny", f"b {number} rw")


def joins(layout: Layout, node: str) -> list[Path]:
    """The files into which a node's first process, or one in the world outside, writes its id."""
    if cgroup_version() == 2:
        return [ROOT / layout.cgroup / node / "cgroup.procs"]
    return [ROOT / c / layout.cgroup / node / "cgroup.procs" for c in controllers()]


def processes(layout: Layout) -> set[int]:
    """All processes of a box, its nodes' containers included."""
    found: set[int] = set()
    for root in roots(layout):
        if root.is_dir():
            for folder, _, _ in os.walk(root):
                try:
                    found |= {int(p) for p in (Path(folder) / "cgroup.procs").read_text().split()}
                except OSError:
                    continue
    found.discard(0)
    return found


async def end_processes(layout: Layout) -> None:
    """Kill every process of a box and wait until none is left."""

    async def none_left() -> None:
        left = processes(layout)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if left:
            raise NotYet(f"processes {sorted(left)[:5]} still end")

    await until(none_left, what=f"the processes of {layout.name} have ended", seconds=20, every=0.01)


async def remove(layout: Layout) -> None:
    """Remove the box's groups, deepest first."""

    async def gone() -> None:
        for root in roots(layout):
            if not root.is_dir():
                continue
            for folder, _, _ in os.walk(root, topdown=False):
                try:
                    Path(folder).rmdir()
                except OSError as error:
                    if Path(folder).exists():
                        raise NotYet(f"{folder}: {error.strerror}") from error

    await until(gone, what=f"the control groups of {layout.name} are gone", seconds=20, every=0.02)
    for root in roots(layout):
        try:
            root.parent.rmdir()
        except OSError:
            continue


def memory_used(layout: Layout) -> int:
    """Bytes of memory that a box uses, page cache included; 0 where it cannot be read."""
    if cgroup_version() == 2:
        path = ROOT / layout.cgroup / "memory.current"
    else:
        path = ROOT / "memory" / layout.cgroup / "memory.usage_in_bytes"
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def cpu_seconds(layout: Layout) -> float:
    """Processor seconds that a box has used so far; 0 where it cannot be read."""
    try:
        if cgroup_version() == 2:
            text = (ROOT / layout.cgroup / "cpu.stat").read_text()
            return int(text.split("usage_usec ", 1)[1].split(maxsplit=1)[0]) / 1e6
        return int((ROOT / "cpuacct" / layout.cgroup / "cpuacct.usage").read_text()) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
