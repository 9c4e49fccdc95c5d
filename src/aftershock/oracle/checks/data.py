"""What the tables held before is still what they hold, but for what users have added since."""

import asyncio
import re
from typing import Any

from pydantic import Field, field_validator, model_validator

from aftershock.base.errors import ProblemError
from aftershock.fault.psql import QueryFailed
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.timed import Timed

__all__ = ["Fingerprint", "fingerprint_sql"]

NAME = r"^[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?$"


def fingerprint_sql(table: str, columns: list[str], *, where: str = "", until: str = "", at: str = "") -> str:
    """A query of (number of rows, sum of their hashes): alike for the same rows in any order.

    Args:
        where: a condition of one's own.
        until, at: a column, and the value up to which rows count.

    >>> fingerprint_sql("orders", ["id", "amount"], until="made", at="2026-01-01").split(" from ")[1]
    "orders where made <= '2026-01-01'"
    >>> fingerprint_sql("products", [])
    'select count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) from products t'
    """
    row = f"concat_ws('|', {', '.join(columns)})" if columns else "t::text"
    wheres = [*([f"({where})"] if where else []), *([f"{until} <= '{at}'"] if until else [])]
    source = table if columns else f"{table} t"
    condition = f" where {' and '.join(wheres)}" if wheres else ""
    return f"select count(*), coalesce(sum(hashtextextended({row}, 0)::numeric), 0) from {source}{condition}"


@check("fingerprint")
class Fingerprint(Timed):
    """The rows that a table had before are all there, unaltered in `columns` (all by default), and no others beside.

    A table that users add to needs a column by which new rows are told apart: `made` (when a row was made: those up
    to ten seconds before the baseline are asked for), `upto` (a number that grows: those up to the greatest at the
    baseline), or a condition of one's own, `where`. What users added since, and all of it, is the `ledger` check's
    business; ids of the ledger would not do here, for a shop may take an order and fail to say so.
    """

    database: str | None = Field(default=None, alias="in")
    table: str = Field(pattern=NAME)
    columns: list[str] = Field(default_factory=list)
    made: str = Field(default="", pattern=rf"^$|{NAME}")
    upto: str = Field(default="", pattern=rf"^$|{NAME}")
    where: str = ""
    within: float = Field(default=15.0, gt=0)

    @field_validator("columns")
    @classmethod
    def _names(cls, columns: list[str]) -> list[str]:
        for column in columns:
            if not re.match(NAME, column):
                raise ValueError(f"`{column}` is no column's name")
        return columns

    @model_validator(mode="after")
    def _one(self) -> "Fingerprint":
        if self.made and self.upto:
            raise ValueError("`made` does not go with `upto`")
        return self

    async def first(self, bench: Bench) -> dict[str, Any]:
        """The fingerprint before; an empty table is a fault of the problem."""
        try:
            at = await self._moment(bench)
            found = await self._read(bench, at)
            # What was under way at that moment has come to its end by the second look, or changes go on.
            await asyncio.sleep(1.0)
            again = await self._read(bench, at)
        except QueryFailed as error:
            if error.decisive:
                raise ProblemError(f"{self.table} cannot be read: {error.what}", todo="correct its names") from error
            raise Abnormal(f"{self.table} cannot be read before anything is broken: {error.what}") from error
        if again[0] == "0":
            raise ProblemError(f"{self.table} is empty before anything is broken", todo="nothing could be kept")
        if again != found:
            todo = "give `made` or `upto`, and in `columns` those that users do not change"
            raise ProblemError(f"the fingerprint of {self.table} changes while all is well", todo=todo)
        return {"rows": again[0], "sum": again[1], "at": at}

    async def _moment(self, bench: Bench) -> str:
        if self.made:
            return (await bench.ask(self.database, "select clock_timestamp() - interval '10 s'"))[0][0]
        if self.upto:
            return (await bench.ask(self.database, f"select max({self.upto}) from {self.table}"))[0][0]
        return ""

    async def _read(self, bench: Bench, at: str) -> tuple[str, str]:
        until = self.made or self.upto
        row = (
            await bench.ask(
                self.database, fingerprint_sql(self.table, self.columns, where=self.where, until=until, at=at)
            )
        )[0]
        return row[0], row[1]

    async def look(self, bench: Bench, before: Any) -> Finding:
        try:
            count, total = await self._read(bench, before["at"])
        except QueryFailed as error:
            return Finding("fail" if error.decisive else "unknown", error.what, {"baseline": before})
        shown = {"rows": count, "sum": total, "baseline": before}
        if count != before["rows"]:
            return Finding("fail", f"{self.table} has {count} of its rows from before, it were {before['rows']}", shown)
        if total != before["sum"]:
            return Finding("fail", f"{self.table} has its {count} rows from before, and some are altered", shown)
        return Finding("pass", f"{self.table} has its {count} rows from before, unaltered", shown)
