"""SQL as a client of the database, and waiting for something to be so."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from aftershock.base.wait import NotYet
from aftershock.fault.base import Primitive, Ref, primitive
from aftershock.fault.fields import Expect, field_of, parse_path
from aftershock.fault.psql import QueryFailed, SessionLost
from aftershock.fault.scene import Scene
from aftershock.fault.watching import recent_share


@primitive("sql")
class Sql(Primitive):
    """Run statements in a psql of their own, as `role` (the database's operator by default)."""

    query: str = Field(min_length=1)
    database: str | None = Field(default=None, alias="in")
    role: str | None = None

    async def run(self, scene: Scene) -> dict[str, Any]:
        rows = await scene.databases.run_once(self.database, self.query, role=self.role, timeout=self.within)
        return {"rows": len(rows)}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """psql stopped at the first error; having run is having landed."""


@primitive("wait")
class Wait(Primitive):
    """Wait until a query or a field is as expected, or until users suffer or are served."""

    sql: str = ""
    database: str | None = Field(default=None, alias="in")
    object: Ref | None = None
    field: str = ""
    users: Literal["suffering", "served"] | None = None
    equals: str | int | float | bool | None = None
    at_least: float | None = None
    at_most: float | None = None
    namespace: str | None = None

    @field_validator("field")
    @classmethod
    def _path(cls, path: str) -> str:
        if path:
            parse_path(path)
        return path

    @model_validator(mode="after")
    def _one(self) -> "Wait":
        if sum((bool(self.sql), self.object is not None, self.users is not None)) != 1:
            raise ValueError("wait for one of `sql`, `object` with `field`, `users`")
        if (self.object is None) != (not self.field):
            raise ValueError("`object` and `field` go together")
        if self.users is None:
            self.expected()
        return self

    def expected(self) -> Expect:
        return Expect(equals=self.equals, at_least=self.at_least, at_most=self.at_most)

    async def run(self, scene: Scene) -> dict[str, Any]:
        return {}

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        if self.users:
            _users_are(self.users, scene)
            return
        if self.object:
            value = field_of(await scene.get(self.object, self.namespace), self.field)
            what = f"{self.object} {self.field}"
        else:
            try:
                rows = await scene.databases.ask(self.database, self.sql)
            except (QueryFailed, SessionLost) as error:
                raise NotYet(error.what) from error
            value, what = (rows[0][0] if rows else None), "the query"
        if why := self.expected().refuse(value):
            raise NotYet(f"{what}: {why}")


def _users_are(state: Literal["suffering", "served"], scene: Scene) -> None:
    """Served: nearly all requests of the last five seconds. Suffering: less than half of them."""
    share = recent_share(scene.users, window=5.0, patience=3.0)
    if share is None:
        raise NotYet("no request was due")
    if share >= 0.5 if state == "suffering" else share < 0.98:
        raise NotYet(f"{share:.0%} of the requests are served")
