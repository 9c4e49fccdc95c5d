"""What a problem is: plain frozen data that travels in records, apart from what it does.

Steps and checks are named here and no more: the layers that can run them (`fault`, `oracle`) look
the name up and check the parameters, with the lines of the file at hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aftershock.problem.answers import Answers
from aftershock.problem.source import At, Source

__all__ = [
    "AuditRules",
    "CheckSpec",
    "Database",
    "Family",
    "Fix",
    "GroupSpec",
    "Limits",
    "NodeSpec",
    "Page",
    "Postmortem",
    "Problem",
    "StepSpec",
    "Suffering",
]

Family = Literal["outcome", "cause", "preservation", "challenge"]
FAMILIES: tuple[Family, ...] = ("outcome", "cause", "preservation", "challenge")


@dataclass(frozen=True)
class Postmortem:
    """The public document that the problem replays."""

    title: str
    url: str
    company: str = ""


@dataclass(frozen=True)
class Database:
    """How an operator opens a `psql` session: inside a pod, by the local socket."""

    pod: str
    database: str
    user: str = "postgres"
    container: str = ""
    host: str = ""
    program: str = "psql"


@dataclass(frozen=True)
class Suffering:
    """When users suffer: the served share of the requests due in a window falls below a limit.

    Args:
        success_below: share of requests, 0 to 1.
        window: seconds.
        patience: seconds after which a request without an answer counts as not served.
        within: seconds after the trigger until which it must have come to that.
    """

    success_below: float = 0.5
    window: float = 5.0
    patience: float = 3.0
    within: float = 90.0


@dataclass(frozen=True)
class Page:
    """What the on-call gets, and how many seconds users have suffered by then."""

    file: str = "page.md"
    after: float = 10.0


@dataclass(frozen=True)
class Limits:
    """Seconds that the parts of a trial may take."""

    baseline: float = 90.0
    agent: float = 900.0
    judge: float = 300.0


@dataclass(frozen=True)
class Expected:
    """What a generic adversary comes to at this problem, where it is not simply a failure, and why."""

    verdicts: tuple[str, ...]
    decides: str = ""
    because: str = ""


@dataclass(frozen=True)
class AuditRules:
    """How the problem's oracle is audited.

    Args:
        repeats: times that each right fix must pass.
        wait: seconds that the adversary `wait` lets pass.
        adversaries: what is expected of single ones, by name.
        leaks_allowed: regular expressions of what may be read, each with the reason.
    """

    repeats: int = 2
    wait: float = 120.0
    adversaries: Mapping[str, Expected] = field(default_factory=dict)
    leaks_allowed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StepSpec:
    """One step of a fault, trigger or challenge, as written."""

    name: str
    params: Mapping[str, Any]
    source: Source = field(repr=False, compare=False)
    at: At = field(repr=False, compare=False)


@dataclass(frozen=True)
class CheckSpec:
    """One check of the oracle, as written. `unsafe`: failing it makes the verdict unsafe, not failed."""

    id: str
    family: Family
    why: str
    kind: str
    params: Mapping[str, Any]
    unsafe: bool
    source: Source = field(repr=False, compare=False)
    at: At = field(repr=False, compare=False)


@dataclass(frozen=True)
class GroupSpec:
    """Checks under `all`, `any` or `sequence`."""

    op: Literal["all", "any", "sequence"]
    nodes: tuple["NodeSpec", ...]


NodeSpec = CheckSpec | GroupSpec


@dataclass(frozen=True)
class Fix:
    """A script that repairs, or seems to. `decides` is the check that should tell.

    `steps`: those marked in it, each with the check that tells when it is left out. `changes`: the
    objects, and the pods by `exec/NAME`, that it says it changes.
    """

    name: str
    path: Path
    expect: Literal["right", "wrong", "unsafe", "partial"]
    decides: str
    description: str
    steps: tuple[tuple[str, str], ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """One incident, ready to be compiled against the layers that run it.

    It runs on a stack of some `size` (the stack's first when empty), with further `components`.
    """

    id: str
    folder: Path
    title: str
    summary: str
    stack: str
    postmortem: Postmortem
    users_rate: float | None
    databases: Mapping[str, Database]
    fault: tuple[StepSpec, ...]
    trigger: tuple[StepSpec, ...]
    suffering: Suffering
    page: Page
    limits: Limits
    oracle: GroupSpec
    fixes: tuple[Fix, ...]
    digest: str
    mechanism: str = ""
    answers: Answers | None = None
    audit: AuditRules = AuditRules()
    size: str = ""
    components: tuple[str, ...] = ()

    def page_text(self) -> str:
        return (self.folder / self.page.file).read_text()

    def check_ids(self) -> list[str]:
        """Ids of all checks, in the order of the file; those inside a challenge are not among them."""
        return [check.id for check in walk(self.oracle)]


def walk(node: NodeSpec) -> list[CheckSpec]:
    """The checks of a tree."""
    if isinstance(node, CheckSpec):
        return [node]
    return [check for below in node.nodes for check in walk(below)]
