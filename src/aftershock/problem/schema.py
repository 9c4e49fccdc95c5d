"""How problem.yaml is written: pydantic models for its plain parts, a reader for steps and checks.

A step is a mapping with one key, its name. A check has `id`, `family`, `why` and one more key, its
kind. Both are read by hand: as a pydantic union a mistyped name would be answered with a page of
"not any of these", and here it is answered with the name that was probably meant.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from aftershock.problem.answers import AnswersFile
from aftershock.problem.model import CheckSpec, Family, GroupSpec, NodeSpec, StepSpec
from aftershock.problem.source import At, Source, near
from aftershock.problem.vocabulary import Mechanism

__all__ = ["ProblemFile", "read_node", "read_nodes", "read_steps"]

NAME = r"^[a-z][a-z0-9-]*$"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PostmortemFile(Strict):
    title: str = Field(min_length=1)
    url: str = Field(pattern=r"^https?://")
    company: str = ""


class DatabaseFile(Strict):
    pod: str
    database: str
    user: str = "postgres"
    container: str = ""
    host: str = ""
    program: str = "psql"


class UsersFile(Strict):
    rate: float | None = Field(default=None, gt=0, le=1000)


class SufferingFile(Strict):
    success_below: float = Field(default=0.5, gt=0, le=1)
    window: float = Field(default=5.0, gt=0)
    patience: float = Field(default=3.0, gt=0)
    within: float = Field(default=90.0, gt=0)


class PageFile(Strict):
    file: str = "page.md"
    after: float = Field(default=10.0, ge=0)


class LimitsFile(Strict):
    baseline: float = Field(default=90.0, gt=0)
    agent: float = Field(default=900.0, gt=0)
    judge: float = Field(default=300.0, gt=0)


class ExpectedFile(Strict):
    """What a generic adversary comes to at this problem; `because` says why that is right."""

    expect: list[Literal["succeeded", "failed", "unsafe"]] = Field(min_length=1)
    decides: str = ""
    because: str = Field(min_length=10)


class AllowedFile(Strict):
    pattern: str = Field(min_length=3)
    because: str = Field(min_length=10)


class AuditFile(Strict):
    """How the oracle is audited: repeats of right fixes, and what differs here from other problems."""

    repeats: int = Field(default=2, ge=1, le=20)
    wait: float = Field(default=120.0, gt=0)
    adversaries: dict[str, ExpectedFile] = Field(default_factory=dict)
    leaks_allowed: list[AllowedFile] = Field(default_factory=list)


class ProblemFile(Strict):
    """The keys of problem.yaml. `noise`, `fault`, `trigger` and `oracle` are read by the functions below."""

    title: str = Field(min_length=1)
    summary: str = Field(min_length=1)
    stack: str = Field(pattern=NAME)
    mechanism: Mechanism | None = None
    size: str = ""
    components: list[str] = Field(default_factory=list)
    postmortem: PostmortemFile
    users: UsersFile = UsersFile(rate=None)
    databases: dict[str, DatabaseFile] = Field(default_factory=dict)
    noise: dict[str, Any] | None = None
    fault: list[Any] = Field(default_factory=list)
    trigger: list[Any] = Field(default_factory=list)
    suffering: SufferingFile = SufferingFile()
    page: PageFile = PageFile()
    limits: LimitsFile = LimitsFile()
    oracle: list[Any] = Field(min_length=1)
    answers: AnswersFile | None = None
    audit: AuditFile = AuditFile()


class CheckHead(Strict):
    """What every check says of itself."""

    id: str = Field(pattern=NAME)
    family: Family
    why: str = Field(min_length=10)
    unsafe: bool = False


def _list(source: Source, data: Any, at: At, of: str) -> list[Any]:
    if not isinstance(data, list):
        raise source.error(f"a list of {of} belongs here", at, f"got {type(data).__name__}; begin each with `- `")
    return data


def read_steps(source: Source, data: Any, at: At) -> tuple[StepSpec, ...]:
    """Steps: `- name: {parameters}` each."""
    steps = []
    for index, item in enumerate(_list(source, data, at, "steps")):
        here = (*at, index)
        if not isinstance(item, Mapping) or len(item) != 1:
            raise source.error("a step is one name with its parameters", here, "write `- name: {key: value}`")
        name, params = next(iter(item.items()))
        if not isinstance(params, Mapping):
            raise source.error(f"the parameters of `{name}` are missing", here, f"write `- {name}: {{key: value}}`")
        steps.append(StepSpec(str(name), params, source, (*here, str(name))))
    return tuple(steps)


def read_nodes(source: Source, data: Any, at: At) -> tuple[NodeSpec, ...]:
    """Checks and groups of checks. An empty list is an error: nothing checked is nothing shown."""
    items = _list(source, data, at, "checks")
    if not items:
        raise source.error("an empty list of checks", at, "add a check, or leave the group out")
    return tuple(read_node(source, item, (*at, index)) for index, item in enumerate(items))


def read_node(source: Source, data: Any, at: At) -> NodeSpec:
    """A group (`all`, `any`, `sequence`) or a check."""
    if not isinstance(data, Mapping):
        raise source.error("a check or a group of checks belongs here", at, "write `- id: ...` or `- any: [...]`")
    ops: tuple[Literal["all", "any", "sequence"], ...] = ("all", "any", "sequence")
    for op in ops:
        if op in data:
            if len(data) > 1:
                other = next(str(key) for key in data if key != op)
                raise source.error(f"`{other}` beside `{op}`", (*at, other), f"a group has the one key `{op}`")
            return GroupSpec(op, read_nodes(source, data[op], (*at, op)))
    head_keys = set(CheckHead.model_fields)
    kinds = [str(key) for key in data if key not in head_keys]
    head = source.model(CheckHead, {key: value for key, value in data.items() if key in head_keys}, at)
    if len(kinds) != 1:
        raise source.error(
            f"the check `{head.id}` has {'no kind' if not kinds else 'more than one kind: ' + ', '.join(kinds)}",
            (*at, kinds[1]) if kinds else at,
            near(kinds[1], head_keys) if kinds else "add one, for example `sql: {query: ..., equals: 0}`",
        )
    kind = kinds[0]
    params = data[kind]
    if not isinstance(params, Mapping):
        raise source.error(f"the parameters of `{kind}` are missing", (*at, kind), f"write `{kind}: {{key: value}}`")
    return CheckSpec(head.id, head.family, head.why.strip(), kind, params, head.unsafe, source, (*at, kind))
