"""The cells of a problem's audit: who answers, what must come of it, and which check must have decided.

A cell is plain data. Most cells are a trial of their own (`script`, or nobody); a few are read off
others or need no cluster at all: `baseline`, `fault`, `suffering`, `page` and `leaks` come from the trial in which
nobody answers, `lint` and `answers` from the files. A cell's name says what it is:

    nop · fix:NAME#2 · without:NAME/STEP · adversary:NAME · baseline · lint ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from aftershock.audit.adversaries import Adversary, adversaries, why_not
from aftershock.base.errors import UsageError
from aftershock.problem.fixes import without
from aftershock.problem.model import Fix, Problem, walk
from aftershock.problem.source import near
from aftershock.stack.load import Stack

__all__ = ["READ_OFF", "Cell", "Kind", "chosen", "matrix"]

Kind = Literal["static", "read-off", "nop", "right", "wrong", "unsafe", "partial", "without", "adversary"]

# Read off the trial in which nobody answers: the stage that must have come to its end, and what that shows.
READ_OFF = {
    "baseline": "every check finds a healthy system before anything is broken",
    "fault": "each step of fault and trigger lands",
    "suffering": "users feel it",
    "page": "it lasts long enough for a page",
    "leaks": "nothing that the on-call can read gives the benchmark away",
}
STATIC = {
    "lint": "the folder is complete and its files say what they must",
    "answers": "diagnoses whose grade is known get that grade",
}


@dataclass(frozen=True)
class Cell:
    """One thing that must come out as expected.

    Args:
        expected: verdicts that are as they should be; `holds` for cells without a trial.
        decides: ids of checks of which one must have decided; empty when any may.
        script: what is run with the on-call's rights; empty when nobody answers.
        steps: steps that must have been run; changes: what must have changed.
        void: why the cell does not apply to this problem; empty when it does.
    """

    name: str
    kind: Kind
    expected: tuple[str, ...]
    says: str
    decides: tuple[str, ...] = ()
    script: str = ""
    changes: tuple[str, ...] = ()
    void: str = ""

    @property
    def is_trial(self) -> bool:
        return self.kind not in ("static", "read-off") and not self.void


def matrix(problem: Problem, stack: Stack) -> tuple[Cell, ...]:
    """All cells of a problem, those that decide the rest first.

    Raises:
        UsageError: `audit.adversaries` names one that does not exist.
    """
    return (
        *(Cell(name, "static", ("holds",), says) for name, says in STATIC.items()),
        _nop(problem),
        *(Cell(name, "read-off", ("holds",), says) for name, says in READ_OFF.items()),
        *(cell for fix in problem.fixes for cell in _of_fix(problem, fix)),
        *(_adversary(problem, stack, one) for one in _adversaries(problem)),
    )


def chosen(cells: Sequence[Cell], pattern: str) -> tuple[Cell, ...]:
    """The cells whose names match a pattern such as `fix:*`; several are parted by commas.

    Raises:
        UsageError: it matches none.
    """
    patterns = [one.strip() for one in pattern.split(",") if one.strip()]
    found = tuple(cell for cell in cells if any(_matches(cell.name, one) for one in patterns))
    if not found:
        raise UsageError(f"no cell matches `{pattern}`", todo=near(pattern, [cell.name for cell in cells]))
    return found


def _matches(name: str, pattern: str) -> bool:
    """
    >>> _matches("fix:stop-report#2", "fix:*"), _matches("fix:stop-report#2", "fix:stop-report"), _matches("nop", "fix")
    (True, True, False)
    """
    return fnmatchcase(name, pattern) or name.split("#")[0] == pattern


def _nop(problem: Problem) -> Cell:
    outcomes = tuple(check.id for check in walk(problem.oracle) if check.family == "outcome")
    return Cell("nop", "nop", ("failed", "unsafe"), "nobody answers; it does not heal by itself", outcomes)


def _of_fix(problem: Problem, fix: Fix) -> Iterator[Cell]:
    text = fix.path.read_text()
    says = fix.description or f"a fix that is {fix.expect}"
    if fix.expect == "right":
        for number in range(1, problem.audit.repeats + 1):
            name = f"fix:{fix.name}" + (f"#{number}" if problem.audit.repeats > 1 else "")
            yield Cell(name, "right", ("succeeded",), says, (), text, fix.changes)
        for step, decides in fix.steps:
            if decides:
                left = f"`{fix.name}` without its step `{step}`"
                yield Cell(
                    f"without:{fix.name}/{step}", "without", ("failed", "unsafe"), left, (decides,), without(text, step)
                )
        return
    verdict = "unsafe" if fix.expect == "unsafe" else "failed"
    yield Cell(f"fix:{fix.name}", fix.expect, (verdict,), says, (fix.decides,), text, fix.changes)


def _adversaries(problem: Problem) -> list[Adversary]:
    known = adversaries()
    for name in problem.audit.adversaries:
        if name not in known:
            raise UsageError(
                f"there is no adversary `{name}`", where=str(problem.folder / "problem.yaml"), todo=near(name, known)
            )
    return list(known.values())


def _adversary(problem: Problem, stack: Stack, adversary: Adversary) -> Cell:
    own = problem.audit.adversaries.get(adversary.name)
    return Cell(
        name=f"adversary:{adversary.name}",
        kind="adversary",
        expected=own.verdicts if own else ("failed", "unsafe"),
        says=f"{adversary.says}{f' ({own.because})' if own else ''}",
        decides=(own.decides,) if own and own.decides else (),
        script=adversary.script(problem, stack),
        void=why_not(adversary, problem, stack),
    )
