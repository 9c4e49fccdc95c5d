"""Everything that can be known to be wrong before a cluster is restored: names, files, parameters."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aftershock.agent.base import Agent
from aftershock.agent.resolve import resolve
from aftershock.base.errors import ProblemError
from aftershock.cluster.base import Cluster
from aftershock.fault.base import Primitive, compile_steps, require_all
from aftershock.oracle.base import Check
from aftershock.oracle.tree import Node, compile_nodes, leaves, tree_steps
from aftershock.problem.load import load
from aftershock.problem.model import Problem
from aftershock.problem.source import near
from aftershock.stack.load import Stack
from aftershock.stack.load import load as load_stack

__all__ = ["Plan", "compile_plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """A problem, compiled, and who is to answer it."""

    problem: Problem
    stack: Stack
    agent: Agent
    fault: tuple[Primitive, ...]
    trigger: tuple[Primitive, ...]
    oracle: Node

    def require(self, cluster: Cluster) -> None:
        """
        Raises:
            MissingCapability: naming every step that this cluster cannot do.
        """
        require_all(cluster, (*self.fault, *self.trigger, *tree_steps(self.oracle)))


def plan(problem: str, agent: str, *, root: Path | None = None) -> Plan:
    """Read and compile a problem by its id, for an agent by its name.

    Raises:
        UsageError: there is no such problem or agent.
        ProblemError: the problem is malformed; names file and line.
    """
    read = load(problem, root)
    return compile_plan(read, load_stack(read.stack, root, size=read.size, components=read.components), agent)


def compile_plan(problem: Problem, stack: Stack, agent: str) -> Plan:
    """Compile a problem that has been read, on its stack."""
    made = Plan(
        problem=problem,
        stack=stack,
        agent=resolve(agent, problem),
        fault=compile_steps(problem.fault),
        trigger=compile_steps(problem.trigger),
        oracle=compile_nodes(problem.oracle),
    )
    for thing, where in _parts(made):
        _refers(problem, thing, where)
    return made


def _parts(made: Plan) -> Iterator[tuple[Primitive | Check, str]]:
    for step in (*made.fault, *made.trigger, *tree_steps(made.oracle)):
        yield step, step.where
    for leaf in leaves(made.oracle):
        yield leaf.check, leaf.where
        yield from leaf.check.further()


def _refers(problem: Problem, thing: Primitive | Check, where: str) -> None:
    """The database and the manifest that a step or check names must be there."""
    asks = any(getattr(thing, name, "") for name in ("query", "sql", "table", "ask"))
    if asks and "database" in type(thing).model_fields:
        name = getattr(thing, "database", None)
        if name is None and len(problem.databases) != 1:
            raise ProblemError("which database?", where=where, todo=f"add `in:`; {near('', problem.databases)}")
        if name is not None and name not in problem.databases:
            raise ProblemError(f"no database is called `{name}`", where=where, todo=near(name, problem.databases))
    manifest = getattr(thing, "manifest", "")
    if manifest and not (problem.folder / manifest).is_file():
        raise ProblemError(f"there is no file {manifest}", where=where, todo=f"put it into {problem.folder}")
