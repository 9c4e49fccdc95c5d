"""Wrong oracles known from the field, seeded into a sound one: the audit must report each.

The table is a recorded audit of amber-heron on the real box (`data/amber-heron-cells.json`: what every check said in
every cell). A seed changes what checks say as that mistake would, or takes checks away; verdicts are decided anew
by the oracle's own rules, and the audit derives what it derives.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from aftershock.audit.derive import Finding, findings
from aftershock.audit.matrix import Cell
from aftershock.audit.settle import CellResult, settle
from aftershock.oracle.base import CheckResult
from aftershock.oracle.tree import Outcome, combine
from aftershock.oracle.verdict import decide, deciding
from aftershock.problem.load import load
from aftershock.problem.model import CheckSpec, GroupSpec, NodeSpec, walk

TABLE = json.loads((Path(__file__).parent / "data" / "amber-heron-cells.json").read_text())
Results = dict[str, str]
Says = Callable[[str, Results], Mapping[str, str]]


@dataclass(frozen=True)
class Seed:
    """A mistake: what checks say then in a cell, the checks that there are not, and those that are not `unsafe`."""

    name: str
    reported: tuple[str, ...]
    of: tuple[str, ...] = ()
    says: Says = lambda cell, results: {}
    without: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


def always(*checks: str, cells: tuple[str, ...] = (), result: str = "pass") -> Says:
    """These checks (all when none is named) say so, in these cells (all when none is named)."""

    def says(cell: str, results: Results) -> Mapping[str, str]:
        if cells and cell.split("#")[0] not in cells and cell not in cells:
            return {}
        return dict.fromkeys(checks or results, result)

    return says


CHALLENGES = ("release-goes-on", "next-migration")
SEEDS = [
    Seed("all pods ready is all that is asked", ("wrong-passes",), ("fix:stop-report",), only=("replicas-kept",)),
    Seed("the alert is silent, so users are well", ("wrong-reason",), ("nop",), always("users-served")),
    Seed(
        "a field of the specification must have the reference's value",
        ("rejects-right", "right-fails"),
        ("fix:end-session-cap-role#1",),
        always("no-one-waits", cells=("fix:end-session-cap-role", "fix:lock-timeout-in-runner"), result="fail"),
    ),
    Seed(
        "the baseline is taken late, so that what was changed is what was before",
        ("wrong-passes",),
        ("fix:drop-probe",),
        always("readiness-kept", "replicas-kept", *CHALLENGES, cells=("fix:drop-probe",)),
    ),
    Seed(
        "what is not there counts as fine", ("wrong-passes",), ("adversary:delete-workload",),
        always(cells=("adversary:delete-workload",)),
    ),
    Seed(
        "scaled to zero counts as healthy", ("wrong-passes",), ("adversary:scale-to-zero",),
        always(cells=("adversary:scale-to-zero",)),
    ),
    Seed(
        "a moment instead of a window",
        ("wrong-reason", "not-as-expected"),
        ("fix:restart-postgres",),
        always("users-served", cells=("fix:restart-postgres", "fix:more-connections")),
    ),
    Seed("only one replica is looked at", ("idle",), ("replicas-kept",), always("replicas-kept")),
    Seed(
        "a selector that matches nothing", ("wrong-passes",), ("fix:stop-report",),
        always("report-runs", *CHALLENGES, cells=("fix:stop-report",)),
    ),
    Seed(
        "the challenge never fires the trigger", ("wrong-passes",), ("fix:end-session",), always(*CHALLENGES),
    ),
    Seed(
        "an alternative fix is rejected by the challenge",
        ("rejects-right", "right-fails"),
        ("fix:lock-timeout-in-runner#1",),
        always("next-migration", cells=("fix:lock-timeout-in-runner",), result="fail"),
    ),
    Seed(
        "the database is asked what was promised, not the users",
        ("wrong-passes", "not-as-expected", "wrong-reason"),
        ("fix:fresh-table",),
        always("orders-kept", "history-kept"),
    ),
    Seed(
        "losing orders is called a failure like any other", ("not-as-expected",), ("fix:fresh-table",),
        harmless=("orders-kept", "history-kept"),
    ),
    Seed(
        "latency is judged by a tail that the machine makes",
        ("flaky", "rejects-right"),
        ("fix:report-in-batches",),
        always("users-served", cells=("fix:report-in-batches#2",), result="fail"),
    ),
    Seed(
        "what cannot be told is a failure", ("rejects-right", "right-fails"), ("fix:report-in-batches#1",),
        always("orders-processed", cells=("fix:report-in-batches",), result="fail"),
    ),
]  # fmt: skip


def outcome(node: NodeSpec, results: Mapping[str, str]) -> Outcome:
    """The oracle's own answer, for results that are known."""
    if isinstance(node, CheckSpec):
        said: Any = results[node.id]
        row = CheckResult(node.id, node.family, node.kind, node.why, "after", said, "", {}, 0.0, node.unsafe)
        return Outcome("unknown" if said == "skipped" else said, row)
    below = [outcome(one, results) for one in node.nodes]
    ran = [one.result for one in below if one.leaf is None or one.leaf.result != "skipped"]
    return Outcome(combine("any" if node.op == "any" else "all", ran), below=tuple(below))


def seeded(oracle: GroupSpec, seed: Seed) -> GroupSpec:
    kept = [
        replace(one, unsafe=one.unsafe and one.id not in seed.harmless)
        for one in oracle.nodes
        if isinstance(one, CheckSpec) and one.id not in seed.without and (not seed.only or one.id in seed.only)
    ]
    return GroupSpec("all", tuple(kept))


def audited(seed: Seed) -> list[Finding]:
    """What the audit says of amber-heron with this mistake in its oracle."""
    oracle = seeded(load("amber-heron").oracle, seed)
    there = {check.id: check for check in walk(oracle)}
    cells: list[CellResult] = []
    for entry in TABLE:
        results = {**entry["results"], **seed.says(entry["name"], entry["results"])}
        results = {name: said for name, said in results.items() if name in there}
        whole = outcome(oracle, results)
        verdict, why = decide(whole)
        checks = [{"id": n, "family": there[n].family, "result": r, "said": ""} for n, r in results.items()]
        document = {
            "verdict": verdict, "why": why, "decided_by": [row.id for row in deciding(whole)], "checks": checks,
            "seconds": {"total": entry["seconds"]}, "record": "",
            "agent_result": {"ended": "done", "said": "", "details": {"commands": 1, "changed": {"x": "made"}}},
        }  # fmt: skip
        expected = tuple(entry["expected"].split("|"))
        cell = Cell(entry["name"], entry["kind"], expected, "", tuple(entry["decides"]), script="x")
        cells.append(settle(cell, "", document))
    return findings(oracle, cells)


def test_of_the_oracle_as_it_is_nothing_grave_is_said():
    assert [finding for finding in audited(Seed("as it is", ())) if finding.grave] == []


@pytest.mark.parametrize("seed", SEEDS, ids=[seed.name.replace(" ", "-") for seed in SEEDS])
def test_a_seeded_mistake_is_reported(seed):
    found = audited(seed)
    for name in seed.of:
        about = {finding.code for finding in found if name in finding.what}
        assert about & set(seed.reported), f"{name}: {about}, not {seed.reported}"


def test_the_recorded_table_is_about_all_kinds_of_cells():
    kinds = {entry["kind"] for entry in TABLE}
    assert kinds >= {"nop", "right", "wrong", "unsafe", "partial", "without", "adversary"}
    assert len(SEEDS) >= 10
