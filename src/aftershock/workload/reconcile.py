"""Comparing what users were promised with what the system and the external parties have in their books.

Truth is the users' ledger. The stack says how its books are read and what a promise entails (`books.py`
in its folder: `query(ids)` and `judge(...)`); here the reading is ordered so that what changes meanwhile
is not taken for a difference: the ledger first, then the stores, then the parties, then the ledger again.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aftershock.base.errors import ClusterError
from aftershock.base.record import read_lines
from aftershock.cluster.api import Api
from aftershock.workload.journeys import module_of
from aftershock.workload.ledger import Ledger, Promise
from aftershock.workload.outside import Parties

__all__ = ["Books", "Difference", "Question", "Reconciled", "reconcile"]

CHUNK = 1000
Kind = Literal["lost", "doubled", "wrong", "late", "open"]
KINDS: tuple[Kind, ...] = ("lost", "doubled", "wrong", "late", "open")


@dataclass(frozen=True)
class Question:
    """How the stores are asked: a program in a pod that prints one JSON object a line, each with an `id`."""

    namespace: str
    pod: str
    argv: tuple[str, ...]
    container: str = ""
    stdin: str = ""


@dataclass(frozen=True)
class Difference:
    """A promise that is not kept. `open`: it is not kept yet, and there is still time."""

    kind: Kind
    id: str
    what: str


@dataclass(frozen=True)
class Books:
    """Everything that `judge` compares. `stores`: rows by id; `parties`: the lines of each ledger."""

    promises: Mapping[str, Promise]
    attempts: Mapping[str, Mapping[str, Any]]
    stores: Mapping[str, Mapping[str, Any]]
    parties: Mapping[str, Sequence[Mapping[str, Any]]]
    now: float


@dataclass(frozen=True)
class Reconciled:
    """What came of it. `judged` counts promises; `attempted` all that was asked for, answered or not."""

    judged: int
    attempted: int
    differences: tuple[Difference, ...]

    @property
    def kept(self) -> bool:
        """Whether every promise is kept that is due by now, and there was one."""
        return self.judged > 0 and not [d for d in self.differences if d.kind != "open"]

    def counts(self) -> dict[str, int]:
        found = Counter(difference.kind for difference in self.differences)
        return {kind: found[kind] for kind in KINDS}


Judge = Callable[[Books], Sequence[Difference]]


async def reconcile(
    api: Api, books: Path, users: Path, parties: Parties | None = None, *, before: float = math.inf
) -> Reconciled:
    """Compare the users' ledger (a folder that their program wrote) with the stores and the parties.

    Args:
        books: the stack's `books.py`.
        before: what was promised or asked for later than this is left out: users may still be coming.

    Raises:
        ClusterError: a store cannot be asked.
    """
    module = module_of(books)
    judge: Judge = module.judge
    ledger = Ledger(users / "ledger.jsonl")
    first = ledger.promises()
    attempts = {line["id"]: line for line in read_lines(users / "attempts.jsonl") if line.get("kind") == "order"}
    now = time.time()
    ids = sorted({*attempts, *(p.id for p in first.values() if p.kind == "order")})
    stores = await _stores(api, module.query, ids)
    theirs = {name: parties.ledger(name) for name in parties.names} if parties else {}
    again = ledger.promises()
    touched = {p.fields.get("order", id) for id, p in again.items() if first.get(id) != p}
    promises = {
        id: p for id, p in first.items() if p.fields.get("order", id) not in touched and p.acknowledged < before
    }
    settled = {
        id: line
        for id, line in attempts.items()
        if id not in touched and line["attempted"] < before and (id in promises or id not in first)
    }
    found = judge(Books(promises, settled, stores, theirs, now))
    return Reconciled(len(promises), len(settled), tuple(found))


async def _stores(
    api: Api, query: Callable[[Sequence[str]], Question], ids: Sequence[str]
) -> dict[str, Mapping[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = {}
    for begin in range(0, len(ids), CHUNK):
        ask = query(ids[begin : begin + CHUNK])
        done = await api.exec(
            ask.namespace, ask.pod, ask.argv, container=ask.container, stdin=ask.stdin or None, timeout=60
        )
        if not done.ok:
            raise ClusterError(f"the stores cannot be asked: {done.tail()}", where=f"{ask.namespace}/{ask.pod}")
        for line in done.out.splitlines():
            if line.strip():
                row = json.loads(line)
                rows[row["id"]] = row
    return rows
