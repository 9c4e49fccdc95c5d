"""Nothing that a user was told is done may be lost, doubled or altered."""

from typing import Any

from pydantic import Field, field_validator

from aftershock.base.errors import ProblemError
from aftershock.fault.psql import QueryFailed, Rows
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.timed import Timed, ask_until
from aftershock.oracle.ledger import array_literal, compare

CHUNK = 2000
SHOWN = 5


@check("ledger")
class Ledger(Timed):
    """Every acknowledged promise of the users' ledger is in the database exactly once.

    `query` returns the promise's id and then the columns that must equal the ledger's `compare`
    fields. `:ids` in it becomes an array literal of the ids asked for, some thousand at a time.
    """

    query: str
    database: str | None = Field(default=None, alias="in")
    compare: list[str] = Field(default_factory=list)
    within: float = Field(default=15.0, gt=0)

    @field_validator("query")
    @classmethod
    def _asks_for_ids(cls, query: str) -> str:
        if ":ids" not in query:
            raise ValueError("the query must ask for `:ids`, for example `where id = any(:ids)`")
        return query

    async def first(self, bench: Bench) -> dict[str, Any]:
        """The ledger must hold before anything is broken, or the users and the stack do not fit."""
        found = await ask_until(lambda: self._look(bench), bench, self.within)
        if found.result != "pass":
            raise Abnormal(f"promises are not kept before anything is broken: {found.said}")
        return found.measured

    async def look(self, bench: Bench, before: Any) -> Finding:
        return await self._look(bench)

    async def _look(self, bench: Bench) -> Finding:
        users = bench.scene.users
        first = users.promises()
        if not first:
            return Finding("fail", "the ledger is empty: no user was promised anything", {"judged": 0})
        try:
            rows = await self._rows(bench, list(first))
        except QueryFailed as error:
            return Finding("fail" if error.decisive else "unknown", error.what)
        kept = compare(first, users.promises(), rows, self.compare)
        shown = {
            "judged": kept.judged,
            "left_out": kept.left_out,
            "missing": len(kept.missing),
            "doubled": len(kept.doubled),
            "different": len(kept.different),
            "examples": [*kept.missing[:SHOWN], *kept.doubled[:SHOWN], *kept.different[:SHOWN]],
        }
        if kept.judged == 0:
            return Finding("unknown", "everything in the ledger changed while it was read", shown)
        if kept.whole:
            return Finding("pass", f"all {kept.judged} promises are there exactly once", shown)
        said = f"of {kept.judged} promises {len(kept.missing)} are missing, {len(kept.doubled)} doubled"
        return Finding("fail", f"{said}, {len(kept.different)} altered", shown)

    async def _rows(self, bench: Bench, ids: list[str]) -> Rows:
        rows: Rows = []
        for begin in range(0, len(ids), CHUNK):
            query = self.query.replace(":ids", array_literal(ids[begin : begin + CHUNK]))
            rows += await bench.ask(self.database, query)
        if any(len(row) < 1 + len(self.compare) for row in rows):
            raise ProblemError("the ledger's query returns fewer columns than `compare` names")
        return rows
