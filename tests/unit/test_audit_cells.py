"""What cells a problem has, what comes of each, and what makes one stale."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aftershock.audit.adversaries import adversaries, why_not
from aftershock.audit.keys import bare, closure, code_hash, keys_of, problem_hash
from aftershock.audit.leaks import Leak
from aftershock.audit.matrix import Cell, chosen, matrix
from aftershock.audit.settle import read_off, settle, static, unsettled
from aftershock.base.errors import UsageError
from aftershock.base.record import Record
from aftershock.problem.load import load, read
from aftershock.problem.model import AuditRules, Expected
from aftershock.stack.load import load as load_stack

WRONG = Cell("fix:stop", "wrong", ("failed",), "", ("report-runs",), "kubectl ...", ("Deployment/report",))
RIGHT = Cell("fix:good#1", "right", ("succeeded",), "", (), "kubectl ...")
FAMILIES = {"users-served": "outcome", "cause": "cause", "report-runs": "preservation", "again": "challenge"}


def document(verdict: str, decided: list[str], *, failed: list[str] | None = None, **said: Any) -> dict[str, Any]:
    """A trial's final document, as far as a cell looks at it."""
    failing = decided if failed is None else failed
    checks = [
        {"id": name, "family": family, "result": "fail" if name in failing else "pass", "said": ""}
        for name, family in FAMILIES.items()
    ]
    details = {"commands": 2, "changed": {"Deployment/report": "changed: spec"}, "entered": [], "exit": 0}
    agent = {"ended": "done", "said": "", "details": {**details, **said.pop("details", {})}}
    return {
        "verdict": verdict,
        "decided_by": decided,
        "why": "",
        "checks": checks,
        "seconds": {"total": 90.04},
        "record": "/x",
        "agent_result": {**agent, **said},
    }


def test_every_kind_of_cell_is_there():
    problem = load("amber-heron")
    cells = matrix(problem, load_stack("orders"))
    names = {cell.name for cell in cells}
    assert names >= {"lint", "answers", "nop", "baseline", "fault", "suffering", "page", "leaks"}
    assert names >= {"fix:report-in-batches#1", "fix:report-in-batches#2", "fix:stop-report", "fix:fresh-table"}
    assert names >= {"without:report-in-batches/batches", "without:end-session-cap-role/cap-role"}
    assert {f"adversary:{name}" for name in adversaries()} <= names
    assert len(names) == len(cells)
    assert "without:lock-timeout-in-runner/fresh-pod" not in names, "that step is not a necessary one"
    by_name = {cell.name: cell for cell in cells}
    assert by_name["nop"].decides == ("users-served",)
    assert by_name["fix:fresh-table"].expected == ("unsafe",)
    assert by_name["without:report-in-batches/batches"].decides == ("next-migration",)
    assert "READ_MODE" not in by_name["without:report-in-batches/batches"].script
    assert "READ_MODE" in by_name["fix:report-in-batches#1"].script


def test_all_adversaries_of_the_design_are_there():
    assert set(adversaries()) == {
        "wait", "restart-everything", "delete-pods", "undo-rollouts", "scale-to-zero", "delete-workload",
        "raise-limits", "remove-probes", "silence-alerts", "turn-users-away", "wipe-data",
    }  # fmt: skip


def test_an_adversary_knows_the_place_and_not_the_problem():
    problem, stack = load("amber-heron"), load_stack("orders")
    script = adversaries()["wipe-data"].script(problem, stack)
    assert "ns=shop" in script
    assert "'postgres-0||psql||postgres|shop'" in script
    assert "migration" not in script


def test_what_a_problem_has_not_cannot_be_attacked():
    problem, stack = load("amber-heron"), load_stack("orders")
    assert "no alerts" in why_not(adversaries()["silence-alerts"], problem, stack)
    assert why_not(adversaries()["remove-probes"], problem, stack) == ""
    assert "no database" in why_not(adversaries()["wipe-data"], replace(problem, databases={}), stack)


def test_a_problem_may_say_that_an_adversary_is_right_here():
    problem = load("amber-heron")
    rules = AuditRules(adversaries={"undo-rollouts": Expected(("succeeded",), because="the release is the fault")})
    cells = matrix(replace(problem, audit=rules), load_stack("orders"))
    (cell,) = [cell for cell in cells if cell.name == "adversary:undo-rollouts"]
    assert cell.expected == ("succeeded",)
    with pytest.raises(UsageError, match="no adversary `undo`"):
        matrix(replace(problem, audit=AuditRules(adversaries={"undo": rules.adversaries["undo-rollouts"]})), None)  # type: ignore[arg-type]


def test_choosing_cells():
    cells = [Cell(name, "right", (), "") for name in ("nop", "fix:a#1", "fix:a#2", "fix:b", "adversary:wait")]
    assert [cell.name for cell in chosen(cells, "fix:a")] == ["fix:a#1", "fix:a#2"]
    assert [cell.name for cell in chosen(cells, "nop, adversary:*")] == ["nop", "adversary:wait"]
    with pytest.raises(UsageError, match="no cell matches"):
        chosen(cells, "fix:c")


def test_a_wrong_fix_that_fails_for_its_reason_is_as_expected():
    result = settle(WRONG, "k", document("failed", ["report-runs"]))
    assert (result.ok, result.verdict, result.check, result.seconds) == (True, "failed", "report-runs", 90.0)
    assert result.results["report-runs"] == "fail"


@pytest.mark.parametrize(
    ("decided", "why"),
    [
        (["cause"], "wrong reason: cause decided, not report-runs"),
        (["users-served", "report-runs"], "wrong reason: users-served had decided before report-runs"),
        ([], "nothing decided"),
    ],
)
def test_a_right_verdict_for_a_wrong_reason_is_red(decided, why):
    result = settle(WRONG, "k", document("failed", decided))
    assert not result.ok
    assert why in result.why


def test_beside_others_of_its_stage_the_expected_check_decides():
    result = settle(WRONG, "k", document("failed", ["cause", "report-runs"]))
    assert (result.ok, result.check) == (True, "report-runs")


@pytest.mark.parametrize(
    ("cell", "verdict", "why"),
    [
        (WRONG, "succeeded", "the verdict is succeeded, expected was failed"),
        (WRONG, "unsafe", "the verdict is unsafe, expected was failed"),
        (RIGHT, "failed", "the verdict is failed, expected was succeeded"),
        (RIGHT, "ambiguous", "ambiguous"),
        (RIGHT, "invalid_problem", "invalid_problem"),
    ],
)
def test_another_verdict_is_red(cell, verdict, why):
    result = settle(cell, "k", document(verdict, ["report-runs"] if verdict != "succeeded" else []))
    assert not result.ok
    assert why in result.why


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"details": {"commands": 0}}, "ran nothing"),
        ({"ended": "crashed", "said": "no such job"}, "the script crashed: no such job"),
        ({"details": {"changed": {}, "entered": []}}, "says that it changes Deployment/report, and did not"),
    ],
)
def test_a_script_that_did_not_act_proves_nothing(said, why):
    result = settle(WRONG, "k", document("failed", ["report-runs"], **said))
    assert not result.ok
    assert why in result.why


def test_a_script_with_a_step_left_out_may_break_off():
    cell = Cell("without:a/b", "without", ("failed", "unsafe"), "", ("again",), "kubectl ...")
    assert settle(cell, "k", document("failed", ["again"], ended="crashed")).ok


def test_an_adversary_with_nothing_to_change_is_void_and_not_green_by_chance():
    cell = Cell("adversary:undo-rollouts", "adversary", ("failed",), "", script="kubectl ...")
    result = settle(cell, "k", document("failed", ["users-served"], ended="crashed", details={"exit": 77}))
    assert (result.ok, result.verdict, bool(result.void)) == (True, "void", True)


def test_what_the_machine_got_in_the_way_of_is_tried_again():
    assert settle(RIGHT, "k", document("infra_error", [])).retry
    assert not settle(RIGHT, "k", document("failed", ["cause"])).retry
    assert unsettled(RIGHT, "k", "killed").retry


def test_cells_read_off_the_trial_in_which_nobody_answers(tmp_path):
    record = Record(tmp_path)
    for stage, state in (("baseline", "end"), ("fault", "end"), ("trigger", "broken")):
        record.event("stage", stage=stage, state=state, seconds=2.5)
    record.close()
    baseline = read_off(Cell("baseline", "read-off", ("holds",), ""), "k", tmp_path, None)
    assert (baseline.ok, baseline.seconds) == (True, 2.5)
    fault = read_off(Cell("fault", "read-off", ("holds",), ""), "k", tmp_path, None)
    assert (fault.ok, fault.why) == (False, "the stage trigger did not come to its end")
    leaks = Cell("leaks", "read-off", ("holds",), "")
    assert read_off(leaks, "k", tmp_path, []).ok
    assert not read_off(leaks, "k", tmp_path, None).ok, "what was not read is not known to be clean"
    assert "`chaos` in pods/x" in read_off(leaks, "k", tmp_path, [Leak("word", "chaos", "pods/x", "")]).why


def test_static_cells():
    assert static(WRONG, "k", []).ok
    assert static(WRONG, "k", ["a", "b", "c", "d"]).why == "a; b; c (and 1 more)"


def copy_of(tmp_path: Path) -> Path:
    import shutil

    target = tmp_path / "amber-heron"
    shutil.copytree(load("amber-heron").folder, target, dirs_exist_ok=True)
    return target


def keys(folder: Path) -> dict[str, str]:
    problem, stack = read(folder), load_stack("orders")
    return keys_of(matrix(problem, stack), problem, stack)


def changed(folder: Path, before: dict[str, str]) -> set[str]:
    after = keys(folder)
    return {name for name in before if before[name] != after.get(name)}


def test_a_fix_that_changes_makes_only_its_own_cells_stale(tmp_path):
    folder = copy_of(tmp_path)
    before = keys(folder)
    path = folder / "fixes" / "stop-report.sh"
    path.write_text(path.read_text() + "true\n")
    assert changed(folder, before) - {"lint", "answers"} == {"fix:stop-report"}
    path = folder / "fixes" / "report-in-batches.sh"
    path.write_text(path.read_text().replace("rollout restart", "rollout  restart"))
    stale = {name.split("#")[0] for name in changed(folder, before)}
    assert stale >= {"fix:report-in-batches", "without:report-in-batches/batches"}
    assert "without:report-in-batches/restart" not in stale, "that one never ran the changed line"


def test_prose_makes_no_trial_stale_and_the_oracle_makes_all(tmp_path):
    folder = copy_of(tmp_path)
    before = keys(folder)
    (folder / "README.md").write_text("# another story\n")
    yaml = (folder / "problem.yaml").read_text()
    (folder / "problem.yaml").write_text(yaml.replace("title: A column", "title: One column"))
    assert changed(folder, before) == {"lint", "answers"}
    (folder / "problem.yaml").write_text(yaml.replace("hold: 30", "hold: 20"))
    assert changed(folder, before) == set(before)


def test_what_is_brought_about_is_part_of_what_was_judged(tmp_path):
    folder = copy_of(tmp_path)
    before = problem_hash(read(folder))
    for name, old, new in (
        ("page.md", "P1", "P2"),
        ("manifests/migrate-0042.yaml", "backoffLimit: 6", "backoffLimit: 5"),
    ):
        path = folder / name
        text = path.read_text()
        path.write_text(text.replace(old, new))
        assert problem_hash(read(folder)) != before
        path.write_text(text)
    assert problem_hash(read(folder)) == before


def test_of_the_code_only_what_the_problem_uses_counts(tmp_path):
    used = closure(["aftershock.trial.conduct", "aftershock.oracle.checks.state"])
    assert used >= {
        "aftershock.trial.conduct",
        "aftershock.oracle.tree",
        "aftershock.oracle.verdict",
        "aftershock.fault.psql",
    }
    assert "aftershock.oracle.checks.ledger" not in used, "nobody asks for it"
    assert not [
        name for name in used if name.startswith(("aftershock.cli", "aftershock.cluster", "aftershock.trial.chart"))
    ]
    folder = copy_of(tmp_path)
    before = code_hash(read(folder))
    text = (folder / "problem.yaml").read_text()
    begin, end = text.index("  - id: orders-kept"), text.index("  - id: history-kept")
    (folder / "problem.yaml").write_text(text[:begin] + text[end:])
    (folder / "fixes" / "fresh-table.sh").unlink()
    assert code_hash(read(folder)) != before, "without its ledger check it hangs on less code"


def test_comments_and_blank_lines_are_no_code():
    assert bare("x = 1  # one\n\n    # two\ny = 2   \n") == "x = 1  # one\ny = 2"
