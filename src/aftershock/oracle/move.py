"""Moves: what a challenge does to a system that was repaired, and takes back afterwards.

A challenge's `steps` are those of faults and triggers, and these besides: what happens to a cluster on
any day and must not bring the incident back. `trigger_again` stands for the problem's own trigger, so
that both are told in one place; names and versions that must be new are replaced in it.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from aftershock.fault.base import Primitive, compile_steps, primitives_registry
from aftershock.fault.registry import Registry
from aftershock.fault.scene import Scene
from aftershock.problem.model import StepSpec
from aftershock.problem.schema import read_steps
from aftershock.problem.source import Source, near

__all__ = ["Move", "compile_moves", "move", "moves_registry", "retold"]

moves_registry: Registry["Move"] = Registry("move of a challenge", "aftershock.oracle.moves")
move = moves_registry.add

AGAIN = "trigger_again"


class Move(Primitive):
    """A step that takes back what would stay behind, once the challenge has been judged."""

    async def give_back(self, scene: Scene) -> None:
        """Leave the cluster as it was found; called also where the step broke off."""


class Again(BaseModel):
    """The problem's trigger once more. `replace`: texts in its steps and manifests; `steps`: only these, from 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    replace: dict[str, str] = Field(default_factory=dict)
    steps: list[int] = Field(default_factory=list)


def compile_moves(specs: Sequence[StepSpec]) -> tuple[Primitive, ...]:
    """Look steps and moves up and check their parameters.

    Raises:
        ProblemError: with the line, and what would be right.
    """
    made: list[Primitive] = []
    for spec in specs:
        if spec.name == AGAIN:
            made += compile_steps(_trigger(spec))
        elif spec.name in moves_registry.names() and spec.name not in primitives_registry.names():
            step = spec.source.model(moves_registry.find(spec.name, spec.source, spec.at), dict(spec.params), spec.at)
            step._where = spec.source.where(spec.at)
            made.append(step)
        elif spec.name not in primitives_registry.names():
            known = [AGAIN, *moves_registry.names(), *primitives_registry.names()]
            raise spec.source.error(f"there is no step `{spec.name}`", spec.at, near(spec.name, known))
        else:
            made += compile_steps([spec])
    return tuple(made)


def _trigger(spec: StepSpec) -> list[StepSpec]:
    again = spec.source.model(Again, dict(spec.params), spec.at)
    data = spec.source.data if isinstance(spec.source.data, dict) else {}
    if not data.get("trigger"):
        raise spec.source.error("the problem has no trigger to be fired again", spec.at, "write the steps out")
    steps = read_steps(spec.source, data["trigger"], ("trigger",))
    for number in again.steps:
        if not 1 <= number <= len(steps):
            raise spec.source.error(f"the trigger has no step {number}", spec.at, f"1 to {len(steps)}")
    chosen = [steps[number - 1] for number in again.steps] or list(steps)
    made, used = [], set()
    for step in chosen:
        params, found = retold(step.params, again.replace)
        used |= found
        if isinstance(name := step.params.get("manifest"), str):
            texts = _occurring(spec.source, name, again.replace)
            used |= texts.keys()
            if texts:
                params = {**params, "manifest": name, "replace": {**dict(params.get("replace") or {}), **texts}}
        made.append(replace(step, params=params))
    if unused := again.replace.keys() - used:
        what = f"`{min(unused)}` occurs in no step of the trigger"
        raise spec.source.error(what, spec.at, "correct it: a trigger fired again under its old name does nothing")
    return made


def _occurring(source: Source, manifest: str, texts: Mapping[str, str]) -> dict[str, str]:
    path = Path(source.path).parent / manifest
    content = path.read_text() if path.is_file() else ""
    return {old: new for old, new in texts.items() if old in content}


def retold(params: Mapping[str, Any], texts: Mapping[str, str]) -> tuple[dict[str, Any], set[str]]:
    """Parameters with texts replaced in all keys and values, and which texts occurred.

    >>> retold({"name": "m-0042", "replace": {"0041": "0042"}, "n": [1, "x"]}, {"0042": "0043", "y": "z"})
    ({'name': 'm-0043', 'replace': {'0041': '0043'}, 'n': [1, 'x']}, {'0042'})
    """
    used: set[str] = set()

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            for old, new in texts.items():
                if old in value:
                    used.add(old)
                    value = value.replace(old, new)
            return value
        if isinstance(value, Mapping):
            return {walk(key): walk(below) for key, below in value.items()}
        if isinstance(value, list):
            return [walk(below) for below in value]
        return copy.copy(value)

    return walk(params), used
