"""What a check is, what it answers, and how checks are read.

A check has three answers. `unknown` means that it could not tell: the database gave no session,
the log could not be read, the machine was under pressure. It is never a pass, and it is asked
again once the users are served.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from aftershock.base.errors import AftershockError
from aftershock.fault.base import Primitive
from aftershock.fault.psql import Rows
from aftershock.fault.registry import Registry
from aftershock.fault.scene import Scene
from aftershock.oracle.pressure import Fairness
from aftershock.problem.model import CheckSpec, Family

__all__ = ["Abnormal", "Bench", "Check", "CheckResult", "Finding", "Mode", "Result", "check", "checks_registry"]

Result = Literal["pass", "fail", "unknown"]
Mode = Literal["before", "after", "held", "continuous"]

checks_registry: Registry["Check"] = Registry("kind of check", "aftershock.oracle.checks")
check = checks_registry.add


class Abnormal(AftershockError):
    """Before anything was broken, something was not as it should be: nobody can be judged by this cluster."""


@dataclass(frozen=True)
class Finding:
    """What a check found: its result in words, the values it measured, and whether the machine is to blame."""

    result: Result
    said: str
    measured: dict[str, Any] = field(default_factory=dict)
    unfair: str = ""
    unsafe: bool = False  # something below it that is called unsafe has failed


@dataclass(frozen=True)
class CheckResult:
    """A finding with what the check says of itself, as it stands in the record.

    `once`: it was asked a single time, for the outcome had failed already (`Bench.hasty`).
    """

    id: str
    family: Family
    kind: str
    why: str
    mode: Mode
    result: Literal["pass", "fail", "unknown", "skipped"]
    said: str
    measured: dict[str, Any]
    seconds: float
    unsafe: bool = False
    unfair: str = ""
    once: bool = False


@dataclass
class Bench:
    """What checks use.

    Args:
        began: when judging began (seconds since the epoch).
        ends: the monotonic deadline of the whole judging.
        hasty: the outcome has failed, so what is asked now can only tell more about it: nothing is waited for.
        over: set when all else has been judged; what watches continuously goes on until then.
    """

    scene: Scene
    pressure: Fairness | None = None
    began: float = 0.0
    ends: float = float("inf")
    hasty: bool = False
    over: asyncio.Event | None = None
    tell: Callable[..., None] = lambda kind, **data: None

    def remaining(self) -> float:
        """Seconds until the deadline of the whole judging."""
        return max(self.ends - time.monotonic(), 0.0)

    async def ask(self, database: str | None, sql: str) -> Rows:
        """Ask the session that was opened before the fault; in haste, a query in a lock queue gives up soon."""
        return await self.scene.databases.ask(database, sql, hasty=self.hasty)

    def unfair(self, since: float, until: float) -> str:
        return self.pressure.unfair(since, until) if self.pressure else ""


class Check(BaseModel):
    """One thing that must be so. Fields are its parameters; `kind` and `mode` are its class's."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: ClassVar[str]
    mode: ClassVar[Mode] = "after"

    async def baseline(self, bench: Bench) -> Any:
        """What is so while all is well, handed to `judge` later.

        Raises:
            Abnormal: it is not well.
        """
        return None

    @abstractmethod
    async def judge(self, bench: Bench, before: Any) -> Finding:
        """Look, and say what was found. Errors of the cluster that are raised become `unknown`."""

    def time_mode(self) -> Mode:
        """When it is asked: of some kinds of checks the parameters say so."""
        return self.mode

    def disturbs(self) -> bool:
        """Whether judging damages the system: such a check is a challenge, comes last, and is asked once."""
        return False

    def steps(self) -> tuple[Primitive, ...]:
        """Steps that the check will carry out, for the question of capabilities."""
        return ()

    def further(self) -> "Iterable[tuple[Check, str]]":
        """Checks inside this one, each with its file and line."""
        return ()

    def prepare(self, spec: CheckSpec) -> "Check":
        """Called once after reading, with the place in the file; compiles what is nested."""
        return self
