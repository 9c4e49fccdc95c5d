"""What follows from the table of cells by checks, without running more. Pure.

- which check *kills* which wrong answer, and which it kills alone: take it away and that answer passes, or what
  was called unsafe is only a failure;
- *idle* checks, which kill nothing alone: either others say the same, or no wrong answer of the problem needs them;
- wrong answers that *hang* on one check: one mistake in it and they pass;
- checks that *reject* a right fix, and those that could not tell;
- repeats of one cell that came out differently.

*Skipped* checks are taken as passed when it is asked what would be without a check: they were never asked, so
an answer that hangs on one check may in truth be held by a challenge too. It errs on the side of warning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aftershock.audit.settle import CellResult
from aftershock.problem.model import GroupSpec, NodeSpec, walk

__all__ = ["CheckRow", "Finding", "check_rows", "findings", "hangs_on", "passes"]

GOOD = ("right",)
WRONG = ("nop", "wrong", "unsafe", "partial", "without", "adversary")


@dataclass(frozen=True)
class CheckRow:
    """What one check does in the whole table. Lists hold names of cells."""

    id: str
    family: str
    unsafe: bool
    kills: tuple[str, ...]
    alone: tuple[str, ...]
    rejects: tuple[str, ...]
    unsure: tuple[str, ...]

    @property
    def idle(self) -> bool:
        return not self.alone


@dataclass(frozen=True)
class Finding:
    """Something about the oracle that the table shows. `grave`: it is not sound."""

    code: str
    what: str
    grave: bool


def passes(node: NodeSpec, results: Mapping[str, str]) -> bool:
    """Whether a tree passes with these results; what was skipped counts as passed, what is not known does not."""
    if isinstance(node, GroupSpec):
        below = [passes(one, results) for one in node.nodes]
        return any(below) if node.op == "any" else all(below)
    return results.get(node.id) in ("pass", "skipped")


def killers(oracle: NodeSpec, results: Mapping[str, str]) -> list[str]:
    """The checks that failed for sure in this cell."""
    return [check.id for check in walk(oracle) if results.get(check.id) == "fail"]


def hangs_on(oracle: NodeSpec, results: Mapping[str, str]) -> str:
    """The one check without which this cell would have passed; empty when several hold it."""
    alone = [check for check in killers(oracle, results) if passes(oracle, {**results, check: "pass"})]
    return alone[0] if len(alone) == 1 else ""


def harm_by(oracle: NodeSpec, results: Mapping[str, str]) -> str:
    """The one check without which this cell's harm would have been called a failure; empty when several tell."""
    told = [check.id for check in walk(oracle) if check.unsafe and results.get(check.id) == "fail"]
    return told[0] if len(told) == 1 else ""


def asked(cells: Sequence[CellResult], kinds: Sequence[str]) -> list[CellResult]:
    """The cells of these kinds that were judged and apply, as the matrix expects them: unexpected passes too."""
    return [cell for cell in cells if cell.kind in kinds and cell.results and not cell.void]


def check_rows(oracle: NodeSpec, cells: Sequence[CellResult]) -> list[CheckRow]:
    """One row for each check of the oracle."""
    wrong = [cell for cell in asked(cells, WRONG) if "succeeded" not in cell.expected.split("|")]
    right = [cell for cell in asked(cells, (*GOOD, "adversary")) if cell.expected == "succeeded"]
    rows = []
    for check in walk(oracle):
        rows.append(
            CheckRow(
                id=check.id,
                family=check.family,
                unsafe=check.unsafe,
                kills=tuple(c.name for c in wrong if c.results.get(check.id) == "fail"),
                alone=tuple(
                    c.name for c in wrong if check.id in (hangs_on(oracle, c.results), harm_by(oracle, c.results))
                ),
                rejects=tuple(c.name for c in right if c.results.get(check.id) == "fail"),
                unsure=tuple(c.name for c in right if c.results.get(check.id) == "unknown"),
            )
        )
    return rows


def findings(oracle: NodeSpec, cells: Sequence[CellResult]) -> list[Finding]:
    """What the table says about the oracle, the gravest first."""
    rows = check_rows(oracle, cells)
    found = [finding for cell in cells if not cell.ok and (finding := _of_cell(cell))]
    for row in rows:
        if row.rejects:
            found.append(Finding("rejects-right", f"{row.id} rejects {', '.join(row.rejects)}", True))
        elif row.unsure:
            found.append(Finding("unsure", f"{row.id} cannot tell at {', '.join(row.unsure)}", True))
    found += _flaky(cells)
    for cell in asked(cells, WRONG):
        if cell.ok and (check := hangs_on(oracle, cell.results)):
            found.append(Finding("hangs-on-one", f"{cell.name} hangs on {check} alone", False))
    found += [Finding("idle", _idle(row), False) for row in rows if row.idle]
    return sorted(found, key=lambda finding: not finding.grave)


def _idle(row: CheckRow) -> str:
    if row.kills:
        return f"{row.id} kills nothing alone: where it fails ({len(row.kills)} cells) others fail too"
    return f"{row.id} kills nothing: no wrong answer of this problem needs it"


def _of_cell(cell: CellResult) -> Finding | None:
    if cell.kind in WRONG and cell.verdict == "succeeded":
        return Finding("wrong-passes", f"{cell.name} passes, and no check tells it from a right fix", True)
    if cell.kind in WRONG and cell.why.startswith("right verdict, wrong reason"):
        return Finding("wrong-reason", f"{cell.name}: {cell.why}", True)
    if cell.kind == "right" and cell.verdict in ("failed", "unsafe"):
        return Finding("right-fails", f"{cell.name}: {cell.why}", True)
    return Finding("not-as-expected", f"{cell.name}: {cell.why or cell.verdict}", True)


def _flaky(cells: Sequence[CellResult]) -> list[Finding]:
    """Repeats of one cell that came out differently."""
    verdicts: dict[str, dict[str, str]] = {}
    for cell in cells:
        if "#" in cell.name:
            verdicts.setdefault(cell.name.split("#")[0], {})[cell.name] = cell.verdict
    return [
        Finding("flaky", f"{name} changes its mind: {', '.join(f'{k} {v}' for k, v in by.items())}", True)
        for name, by in verdicts.items()
        if len(set(by.values())) > 1
    ]
