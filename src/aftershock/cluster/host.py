"""What this machine can do: the capabilities that a box needs, and what is missing.

Every check looks at the thing itself (makes a namespace, asks the kernel, looks for the program)
and names what it is needed for and what to do. `aftershock doctor` shows them all; commands that
need a box run them first and refuse with the same words.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aftershock.base.errors import HostError
from aftershock.base.paths import cache_dir, state_dir

__all__ = ["Finding", "allow_watches", "cgroup_version", "filter_bridges", "findings", "require_host", "require_room"]

MIB = 1 << 20
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
INSTANCES = 4096
PROGRAMS = {
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "losetup": "mount",
    "mount": "mount",
    "mkfs.ext4": "e2fsprogs",
    "tar": "tar",
    "curl": "curl",
    "mmdebstrap": "mmdebstrap",
}


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `needed` findings that are not `ok` stop a box."""

    name: str
    ok: bool
    detail: str
    purpose: str
    todo: str = ""
    needed: bool = True


def cgroup_version() -> int:
    """2 on a unified hierarchy, else 1 (also on hybrid machines)."""
    return 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1


def _filesystem(name: str) -> bool:
    if any(line.split()[-1] == name for line in Path("/proc/filesystems").read_text().splitlines()):
        return True
    return subprocess.run(["modprobe", name], capture_output=True, check=False).returncode == 0


def filter_bridges() -> bool:
    """Have bridged packets pass iptables, which takes a module that nothing loads by itself."""
    if not Path("/proc/sys/net/bridge").is_dir():
        subprocess.run(["modprobe", "br_netfilter"], capture_output=True, check=False)
    return Path("/proc/sys/net/bridge").is_dir()


def allow_watches(path: Path = INOTIFY) -> None:
    """Let the machine's root hold enough inotify instances for all nodes of all boxes.

    The kernel counts them by user, so all nodes share one limit: a node with the control plane takes
    19, another 8 (counted in /proc/*/fd), and the usual limit of 128 ends at a dozen nodes, with
    kubelets that die at start. Only ever raised; it lasts until the machine's next boot.
    """
    try:
        if int(path.read_text()) < INSTANCES:
            path.write_text(f"{INSTANCES}\n")
    except (OSError, ValueError) as error:
        raise HostError(
            f"the limit of inotify instances cannot be raised: {error}",
            where=str(path),
            todo=f"sysctl fs.inotify.max_user_instances={INSTANCES}",
        ) from error


def _link_type(kind: str) -> bool:
    """Whether the kernel makes a link of this type, tried in a namespace that goes away at once."""
    extra = ["peer", "name", "try1"] if kind == "veth" else []
    command = ["unshare", "--net", "ip", "link", "add", "try0", "type", kind, *extra]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _rule(*rule: str) -> bool:
    """Whether an iptables rule can be made, tried in a namespace that goes away at once."""
    command = ["unshare", "--net", "iptables", *rule]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _system() -> list[Finding]:
    linux = platform.system() == "Linux"
    found = [
        Finding("linux", linux, platform.platform(), "nodes are namespaces of the Linux kernel", "use a Linux machine")
    ]
    if not linux:
        return found
    found.append(
        Finding("root", os.geteuid() == 0, f"uid {os.geteuid()}", "making namespaces, mounts and links", "run as root")
    )
    for program, package in PROGRAMS.items():
        path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
        found.append(
            Finding(
                f"program {program}",
                path is not None,
                path or "not found",
                "building and starting boxes",
                f"apt-get install {package}",
            )
        )
    return found


def _kernel() -> list[Finding]:
    version = cgroup_version()
    controllers = (
        Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
        if version == 2
        else [p.name for p in Path("/sys/fs/cgroup").iterdir() if p.is_dir()]
        if Path("/sys/fs/cgroup").is_dir()
        else []
    )
    missing = [c for c in ("cpu", "cpuset", "memory", "pids") if c not in controllers]
    checks: list[tuple[str, Callable[[], bool], str, str, bool]] = [
        ("overlayfs", lambda: _filesystem("overlay"), "containers' root file systems", "load the module overlay", True),
        ("ext4", lambda: _filesystem("ext4"), "the nodes' disks", "load the module ext4", True),
        ("loop devices", lambda: Path("/dev/loop-control").exists(), "the nodes' disks", "load the module loop", True),
        ("veth", lambda: _link_type("veth"), "the nodes' network", "load the module veth", True),
        ("bridge", lambda: _link_type("bridge"), "the nodes' network", "load the module bridge", True),
        ("bridge filter", filter_bridges, "Services and policies within a node", "load the module br_netfilter", True),
        (
            "iptables",
            lambda: _rule("-t", "nat", "-A", "OUTPUT", "-j", "RETURN"),
            "Services",
            "a kernel with nf_tables and nft_compat",
            True,
        ),
        (
            "iptables statistic",
            lambda: _rule("-A", "OUTPUT", "-m", "statistic", "--mode", "random", "--probability", "0.5", "-j", "DROP"),
            "Services and dropping packets by chance",
            "a kernel with xt_statistic",
            True,
        ),
    ]
    found = [
        Finding(
            f"cgroup v{version}",
            not missing,
            f"missing: {', '.join(missing)}" if missing else "controllers present",
            "limits of nodes and pods",
            "enable the controllers at boot",
        )
    ]
    for name, check, purpose, todo, needed in checks:
        ok = check()
        found.append(Finding(name, ok, "present" if ok else "missing", purpose, todo, needed))
    return found


def _room() -> list[Finding]:
    found = []
    for label, folder, need in (("space for the cache", cache_dir(), 6000), ("space for boxes", state_dir(), 2000)):
        at = folder
        while not at.exists():
            at = at.parent
        free = shutil.disk_usage(at).free // MIB
        found.append(
            Finding(
                label, free >= need, f"{free} MiB free at {at}", f"{need} MiB wanted", "free some space", needed=False
            )
        )
    memory = memory_available() // MIB
    found.append(
        Finding(
            "memory",
            memory >= 1500,
            f"{memory} MiB available",
            "one box needs 0.8 to 2 GB",
            "end other programs",
            needed=False,
        )
    )
    return found


def memory_available() -> int:
    """Bytes of memory that programs can still get, as the kernel estimates it."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def findings() -> list[Finding]:
    """All that was looked at, most basic first; stops early where the rest makes no sense."""
    found = _system()
    if all(f.ok for f in found if f.name in ("linux", "root", "program ip", "program unshare", "program iptables")):
        found += _kernel()
    if found[0].ok:
        found += _room()
    return found


def require_host() -> None:
    """Refuse, naming the first missing thing, where a box cannot run. Cheap checks only."""
    for finding in _system():
        if not finding.ok and finding.needed:
            raise HostError(
                f"this machine lacks what a box needs: {finding.name} ({finding.detail})",
                where=f"needed for {finding.purpose}",
                todo=f"{finding.todo}; `aftershock doctor` shows everything",
            )


def require_room(folder: Path, mebibytes: int, purpose: str) -> None:
    """Refuse before work begins that would fill the disk."""
    at = folder
    while not at.exists():
        at = at.parent
    free = shutil.disk_usage(at).free // MIB
    if free < mebibytes:
        raise HostError(
            f"only {free} MiB free, {mebibytes} MiB wanted",
            where=f"{at}, for {purpose}",
            todo="free some space and try again",
        )
