"""What a box is called and where everything of it lies.

All names of a box (its folder, control groups, network namespaces, its one link, its addresses)
follow from its name and its slot, and the record that holds both is written before anything is
made and removed after everything is gone. So the record is the ledger: whatever a kill left behind
can be found from it.
"""

import dataclasses
import json
import os
import re
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aftershock.base.errors import UsageError
from aftershock.base.paths import state_dir
from aftershock.base.record import write_json

__all__ = ["Layout", "Owner", "Phase", "boxes_dir", "read_layout"]

MAX_NODES = 8
SLOTS = 250
Phase = str  # starting, running, stopped, ending


def boxes_dir() -> Path:
    return state_dir() / "boxes"


@dataclass(frozen=True)
class Owner:
    """The process that answers for a box: its id, and its start time so that a reused id is not it."""

    pid: int
    started: int

    @classmethod
    def me(cls) -> Self:
        return cls(os.getpid(), start_time(os.getpid()))

    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int:
    """A process' start in clock ticks since boot; 0 where there is none (or it is a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True)
class Layout:
    """The record of a box.

    `ephemeral` boxes end with their owner; others outlive the command that made them. `identity`
    is what the nodes' machine ids derive from; it travels with a snapshot.
    """

    name: str
    slot: int
    nodes: int
    net: str
    owner: Owner
    phase: Phase = "starting"
    ephemeral: bool = False
    identity: str = field(default_factory=lambda: secrets.token_hex(8))
    images: str = ""
    memory: int = 4 << 30
    cpu_shares: int = 1024
    created: float = field(default_factory=time.time)
    pids: tuple[Owner, ...] = ()
    stack: str = ""

    @property
    def folder(self) -> Path:
        return boxes_dir() / self.name

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def netns(self) -> str:
        return f"as-{self.name}"

    @property
    def link(self) -> str:
        return f"as{self.slot}"

    @property
    def cgroup(self) -> str:
        return f"aftershock/{self.name}"

    @property
    def prefix(self) -> str:
        """First three bytes of the box's addresses."""
        first = self.net.split("/")[0].split(".")
        return f"{first[0]}.{first[1]}.{self.slot}"

    @property
    def gateway(self) -> str:
        return f"{self.prefix}.1"

    @property
    def uplink(self) -> tuple[str, str]:
        """Addresses of the one link: the machine's end, the box's end (a /30)."""
        return f"{self.prefix}.253", f"{self.prefix}.254"

    @property
    def subnet(self) -> str:
        """Nodes and bridge."""
        return f"{self.prefix}.0/25"

    def node_name(self, n: int) -> str:
        return f"node-{n}"

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(self.node_name(n) for n in range(self.nodes))

    def address(self, n: int) -> str:
        return f"{self.prefix}.{11 + n}"

    def node_netns(self, n: int) -> str:
        return f"{self.netns}-{n}"

    def node_folder(self, n: int) -> Path:
        return self.folder / self.node_name(n)

    def save(self, **changes: Any) -> "Layout":
        """Write the record, changed as said; the new record is returned."""
        new = dataclasses.replace(self, **changes)
        write_json(new.folder / "box.json", dataclasses.asdict(new), mode=0o600)
        return new


def read_layout(folder: Path) -> Layout | None:
    """The record in a box's folder, or None where there is no readable one."""
    try:
        data = json.loads((folder / "box.json").read_text())
        data["owner"] = Owner(**data["owner"])
        data["pids"] = tuple(Owner(**p) for p in data["pids"])
        return Layout(**data)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def check_name(name: str) -> None:
    """Names are short words: they become parts of names of namespaces and folders."""
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", name):
        raise UsageError(f"{name!r} cannot be a box's name", todo="use up to 40 lower-case letters, digits and dashes")


def check_nodes(nodes: int) -> None:
    if not 1 <= nodes <= MAX_NODES:
        raise UsageError(f"a box has 1 to {MAX_NODES} nodes, not {nodes}")
