"""A node: its files on disk before it starts, its first process, and running programs in it.

A node is a process tree in namespaces of its own (mount, pid, uts, ipc, cgroup, network) whose first
process is a service supervisor, as on a small Debian machine. Its disk is a sparse file with an
ext4 file system, so `df`, a full disk and inodes are real.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from aftershock.base.errors import ClusterError
from aftershock.base.run import Completed, run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box import cgroups
from aftershock.cluster.box.daemons import API_SERVICE, CLIENTS, node_files
from aftershock.cluster.box.layout import Layout, Owner, start_time
from aftershock.cluster.box.pki import Authority
from aftershock.cluster.host import cgroup_version

__all__ = ["Parts", "launch", "loops_of", "node_argv", "node_run", "prepare"]

DISK = 16 << 30
PATH = "/opt/kubernetes/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Parts:
    """What nodes are made of: folders of programs, root file system and image store, and the image list."""

    programs: Path
    system: Path
    store: Path
    seed: Path


def issue_certificates(layout: Layout) -> Authority:
    """New leaf certificates of all nodes and clients, for the box's addresses."""
    authority = Authority(layout.folder / "pki")
    api = layout.address(0)
    for n, node in enumerate(layout.node_names):
        pki = layout.node_folder(n) / "etc/kubernetes/pki"
        pki.mkdir(parents=True, exist_ok=True)
        shutil.copy(authority.folder / "ca.crt", pki)
        authority.issue(
            pki / "kubelet",
            f"system:node:{node}",
            organization="system:nodes",
            names=[node],
            addresses=[layout.address(n)],
        )
        for file, (user, group) in CLIENTS.items():
            if n == 0 or ("controller" not in file and file != "scheduler"):
                authority.issue(pki / file, user, organization=group)
    master = layout.node_folder(0) / "etc/kubernetes/pki"
    for name in ("ca.key", "sa.key", "sa.pub"):
        shutil.copy(authority.folder / name, master)
    service = ["kubernetes", "default", "svc", "cluster", "local"]
    authority.issue(
        master / "apiserver",
        "kube-apiserver",
        names=[".".join(service[:i]) for i in (1, 2, 3, 5)] + ["localhost"],
        addresses=["127.0.0.1", API_SERVICE, api],
    )
    authority.issue(master / "apiserver-kubelet-client", "kube-apiserver-kubelet-client", organization="system:masters")
    authority.issue(master / "front-proxy-client", "front-proxy-client")
    return authority


def _identity(layout: Layout, n: int) -> str:
    return hashlib.sha256(f"{layout.identity}/{n}".encode()).hexdigest()[:32]


def prepare(layout: Layout, parts: Parts, *, restored: bool, restore: Sequence[Path] = ()) -> None:
    """Write all files that the nodes start from.

    Args:
        restored: the cluster's state is older than this start.
        restore: one archive of kept state for each node, unpacked into a fresh disk.
    """
    issue_certificates(layout)
    for n, node in enumerate(layout.node_names):
        folder = layout.node_folder(n)
        etc = folder / "etc"
        for path, text, mode in node_files(layout, n, restored=restored):
            file = etc / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(mode)
        machine = _identity(layout, n)
        (etc / "machine-id").write_text(machine + "\n")
        boot = hashlib.sha256(f"boot {machine}".encode()).hexdigest()
        settings = {
            "SYSTEM": parts.system / "root", "PROGRAMS": parts.programs / "root", "STORE": parts.store,
            "SEED": parts.seed / "seed.tar", "RESTORE": restore[n] if restore else "", "NODE": node,
            "CGROUP": cgroup_version(), "CONTROLLERS": " ".join(cgroups.controllers()),
            "BOOT_ID": f"{boot[:8]}-{boot[8:12]}-4{boot[13:16]}-a{boot[17:20]}-{boot[20:32]}",
        }  # fmt: skip
        (folder / "boot.env").write_text("".join(f"{k}={shlex.quote(str(v))}\n" for k, v in settings.items()))
        shutil.copy(str(files(__package__) / "node-init.sh"), folder / "init.sh")
        disk = folder / "disk.img"
        if not disk.exists():
            beside = folder / "disk.new"
            with beside.open("wb") as file_:
                file_.truncate(DISK)
            subprocess.run(
                ["mkfs.ext4", "-q", "-F", "-m", "1", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
                 "-J", "size=16", str(beside)],
                check=True, capture_output=True,
            )  # fmt: skip
            beside.rename(disk)


async def launch(layout: Layout, n: int) -> Owner:
    """Start a node and return its first process.

    It is started as a daemon is, by a process that ends at once, since it outlives this program.
    """
    node, folder = layout.node_name(n), layout.node_folder(n)
    log, pid_file = folder / "boot.log", folder / "boot.pid"
    pid_file.unlink(missing_ok=True)
    script = f"bash {shlex.quote(str(folder / 'init.sh'))} {shlex.quote(str(folder))}"
    init = f"exec unshare --pid --fork --propagation unchanged {script}"
    if cgroup_version() == 2:
        # A group with processes may not hand controllers to its children: the first process goes one down.
        init = f"echo $$ > /sys/fs/cgroup/{layout.cgroup}/{node}/init/cgroup.procs; {init}"
    outer = "; ".join(
        (
            f"exec >{shlex.quote(str(log))} 2>&1 </dev/null",
            *(f"echo $$ > {path}" for path in cgroups.joins(layout, node)),
            f"echo $$ > {shlex.quote(str(pid_file))}",
            f"exec nsenter --net=/run/netns/{layout.node_netns(n)} -- "
            f"unshare --mount --uts --ipc --cgroup --propagation private bash -c {shlex.quote(init)}",
        )
    )
    await run(["setsid", "--fork", "env", "-i", f"PATH={PATH}", "bash", "-c", outer], cwd=Path("/"), timeout=10)

    async def first() -> Owner:
        try:
            pid = int(pid_file.read_text())
        except (OSError, ValueError):
            raise NotYet("its first shell has not begun") from None
        if not start_time(pid):
            raise ClusterError(
                f"the node {node} did not start: {log.read_text()[-600:].strip()}",
                where=str(log),
                todo="`aftershock doctor` shows what the kernel lacks",
            )
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if comm != "unshare" or not children:
            raise NotYet(f"it is still {comm}")
        return Owner(int(children[0]), start_time(int(children[0])))

    return await until(first, what=f"the first process of {node}", seconds=10, every=0.005, where=str(log))


def node_argv(layout: Layout, n: int, argv: Sequence[str]) -> list[str]:
    """A program and arguments, run as root in a node with a clean environment."""
    pid = layout.pids[n]
    if not pid.alive():
        raise ClusterError(f"{layout.node_name(n)} of {layout.name} is down", todo=f"`aftershock down {layout.name}`")
    return ["nsenter", "-t", str(pid.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", "--",
            "/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root", "TERM=xterm", *argv]  # fmt: skip


async def node_run(
    layout: Layout,
    n: int,
    argv: Sequence[str],
    *,
    stdin: str | bytes | None = None,
    timeout: float = 30.0,
    check: bool = True,
) -> Completed:
    return await run(
        node_argv(layout, n, argv),
        stdin=stdin,
        timeout=timeout,
        check=check,
        where=f"{layout.node_name(n)} of {layout.name}",
    )


def node_root_path(layout: Layout, n: int) -> Path:
    """The node's root directory as seen from outside."""
    return Path(f"/proc/{layout.pids[n].pid}/root")


async def loops_of(layout: Layout) -> list[str]:
    """Loop devices whose backing file is a disk of this box (found by inode, as paths are hidden)."""
    disks = {}
    for n in range(layout.nodes):
        for name in ("disk.img", "disk.new"):
            try:
                stat = (layout.node_folder(n) / name).stat()
                disks[(os.major(stat.st_dev), os.minor(stat.st_dev), stat.st_ino)] = name
            except OSError:
                continue
    done = await run(["losetup", "--list", "--json", "--output", "NAME,BACK-MAJ:MIN,BACK-INO"], timeout=10)
    found = []
    for device in json.loads(done.out or "{}").get("loopdevices", []):
        major, _, minor = str(device["back-maj:min"] or "").strip().partition(":")
        if minor and (int(major), int(minor), int(device["back-ino"])) in disks:
            found.append(device["name"])
    return found
