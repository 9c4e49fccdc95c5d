"""What follows from a table of cells by checks, and what must keep a problem from being called sound."""

from aftershock.audit.derive import check_rows, findings, hangs_on, passes
from aftershock.audit.settle import CellResult
from aftershock.problem.model import CheckSpec, GroupSpec
from aftershock.problem.source import Source

P, F, U, S = "pass", "fail", "unknown", "skipped"


def check(name: str, family: str = "cause", *, unsafe: bool = False) -> CheckSpec:
    return CheckSpec(name, family, "because", "sql", {}, unsafe, Source.__new__(Source), ())  # type: ignore[arg-type]


A, B, C = check("served", "outcome"), check("fixed"), check("kept", "preservation", unsafe=True)
ORACLE = GroupSpec("all", (A, B, C))


def cell(
    name: str, kind: str, verdict: str, results: tuple[str, str, str], *, ok: bool = True, why: str = ""
) -> CellResult:
    expected = "succeeded" if kind == "right" else "failed"
    table = dict(zip(("served", "fixed", "kept"), results, strict=True))
    return CellResult(name, kind, expected, verdict, "", ok, 1.0, why=why, results=table)


GOOD = [
    cell("nop", "nop", "failed", (F, F, P)),
    cell("fix:r#1", "right", "succeeded", (P, P, P)),
    cell("fix:r#2", "right", "succeeded", (P, P, P)),
    cell("fix:w", "wrong", "failed", (P, F, P)),
    cell("fix:u", "unsafe", "unsafe", (P, P, F)),
]


def codes(cells: list[CellResult], oracle: GroupSpec = ORACLE) -> set[str]:
    return {finding.code for finding in findings(oracle, cells)}


def grave(cells: list[CellResult], oracle: GroupSpec = ORACLE) -> set[str]:
    return {finding.code for finding in findings(oracle, cells) if finding.grave}


def test_which_check_kills_which_wrong_answer():
    rows = {row.id: row for row in check_rows(ORACLE, GOOD)}
    assert rows["served"].kills == ("nop",)
    assert rows["served"].idle, "where it fails, `fixed` fails too"
    assert rows["fixed"].alone == ("fix:w",)
    assert rows["kept"].alone == ("fix:u",)
    assert not rows["kept"].idle


def test_nothing_grave_is_said_of_a_good_table_but_what_is_thin_is():
    assert grave(GOOD) == set()
    said = {finding.what for finding in findings(ORACLE, GOOD)}
    assert "fix:w hangs on fixed alone" in said
    assert any(what.startswith("served kills nothing alone") for what in said)


def test_groups_count_as_they_are_judged():
    either = GroupSpec("all", (A, GroupSpec("any", (B, C))))
    assert passes(either, {"served": P, "fixed": F, "kept": P})
    assert not passes(either, {"served": P, "fixed": F, "kept": U})
    assert hangs_on(either, {"served": P, "fixed": F, "kept": F}) == "", "either of the two would let it pass"
    assert hangs_on(either, {"served": F, "fixed": F, "kept": P}) == "served"


def test_what_was_never_asked_is_no_other_holder():
    assert hangs_on(ORACLE, {"served": F, "fixed": S, "kept": S}) == "served"
    assert hangs_on(ORACLE, {"served": F, "fixed": U, "kept": P}) == "", "it is not known that it would have passed"


def test_a_wrong_fix_that_passes():
    cells = [*GOOD, cell("fix:x", "wrong", "succeeded", (P, P, P), ok=False, why="it passed")]
    assert "wrong-passes" in grave(cells)


def test_a_right_fix_that_is_rejected_names_the_check():
    cells = [*GOOD, cell("fix:z", "right", "failed", (P, F, P), ok=False, why="it failed")]
    said = {finding.code: finding.what for finding in findings(ORACLE, cells) if finding.grave}
    assert said["rejects-right"] == "fixed rejects fix:z"
    assert "right-fails" in said
    assert check_rows(ORACLE, cells)[1].rejects == ("fix:z",)


def test_a_check_that_cannot_tell_at_a_right_fix():
    cells = [*GOOD, cell("fix:z", "right", "ambiguous", (P, U, P), ok=False, why="ambiguous")]
    assert "unsure" in grave(cells)


def test_a_cell_that_changes_its_mind():
    cells = [*GOOD[:2], cell("fix:r#2", "right", "failed", (F, P, P), ok=False, why="it failed"), *GOOD[3:]]
    assert "flaky" in grave(cells)
    assert "flaky" not in codes(GOOD)


def test_void_cells_are_no_evidence():
    void = CellResult(
        "adversary:x", "adversary", "failed", "void", "", True, 0.0, void="no alerts", results={"kept": F}
    )
    assert check_rows(ORACLE, [*GOOD, void])[2].kills == ("fix:u",)


def test_a_check_that_alone_tells_harm_from_failure_is_not_idle():
    harmful = cell("fix:u", "unsafe", "unsafe", (F, P, F))
    row = check_rows(ORACLE, [harmful])[2]
    assert row.alone == ("fix:u",)
    assert not row.idle
    twice = GroupSpec("all", (A, check("fixed", unsafe=True), C))
    assert check_rows(twice, [cell("fix:u", "unsafe", "unsafe", (F, F, F))])[2].idle, "the other one tells it too"
