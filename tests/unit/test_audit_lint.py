"""The rules of lint, each set off by the fault that it is for; incidents and their quotes; starting a problem."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aftershock.audit.lint import RULES, explain, lint_folder, lint_folders
from aftershock.audit.schemas import SCHEMAS
from aftershock.audit.start import start
from aftershock.base.errors import ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.problem.incident import misquoted, read_incident
from aftershock.problem.load import load
from aftershock.problem.vocabulary import MECHANISMS

HERE = source_root()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "amber-heron"
    shutil.copytree(load("amber-heron").folder, target)
    return target


def codes(folder: Path) -> set[str]:
    return {fault.code for fault in lint_folder(folder) if fault.severity == "error"}


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_problems_of_this_checkout_have_no_errors():
    folders = [path.parent for path in sorted((HERE / "problems").glob("*/problem.yaml"))]
    assert folders
    assert [fault for fault in lint_folders(folders) if fault.severity == "error"] == []


@pytest.mark.parametrize(
    ("name", "old", "new", "code", "line"),
    [
        ("problem.yaml", "title:", "titel:", "AS001", "titel:"),
        ("problem.yaml", "served: {hold: 30, within: 60}", "served: {holds: 30}", "AS002", "served:"),
        ("problem.yaml", "manifest: manifests/migrate-0042.yaml}", "manifest: manifests/x.yaml}", "AS002", ""),
        ("problem.yaml", "mechanism: lock-contention\n", "", "AS010", "stack:"),
        ("problem.yaml", "title: A column", "title: An amber column", "AS011", ""),
        ("README.md", "## What was scaled", "FILL IN", "AS012", ""),
        ("fixes/report-in-batches.sh", "# step: batches, without it: next-migration\n", "", "AS023", "no"),
        ("fixes/stop-report.sh", "# changes: Deployment/sales-report\n", "", "AS024", ""),
        ("fixes/fresh-table.sh", "# decides: orders-kept", "# decides: replicas-kept", "AS025", "# decides:"),
        ("incident.yaml", "mechanism: lock-contention", "mechanism: deadlock", "AS041", "mechanism:"),
        ("incident.yaml", "quote: the queued", "quot: the queued", "AS041", "quot:"),
        ("incident.yaml", "source: notes\n  lines: 12", "source: note\n  lines: 12", "AS041", "source: note"),
        ("problem.yaml", "expect: right\n", "expect: wrong\n", "AS051", ""),
        ("page.md", "Checkout and order", "The benchmark's checkout and", "AS060", "benchmark"),
        ("manifests/migrate-0042.yaml", "# The pipeline", "# The oracle of the pipeline", "AS061", "oracle"),
        (
            "problem.yaml",
            "answers:",
            "audit: {adversaries: {nap: {expect: [failed], because: nobody minds}}}\nanswers:",
            "AS080",
            "nap",
        ),
    ],
)
def test_each_fault_sets_off_its_rule(folder, name, old, new, code, line):
    edit(folder, name, old, new)
    if line == "no":
        edit(folder, name, ", without it: users-served", "")
    found = [fault for fault in lint_folder(folder) if fault.code == code]
    assert found, codes(folder)
    assert found[0].todo
    if line and line != "no":
        number = int(found[0].where.rsplit(":", 1)[1])
        assert line in (folder / name).read_text().splitlines()[number - 1]


@pytest.mark.parametrize(("name", "code"), [("README.md", "AS070"), ("incident.yaml", "AS040")])
def test_a_file_that_is_missing(folder, name, code):
    (folder / name).unlink()
    assert codes(folder) == {code}


def test_fixes_that_are_missing(folder):
    for path in (folder / "fixes").glob("*.sh"):
        path.unlink()
    assert codes(folder) == {"AS020", "AS021", "AS022"}


def test_a_family_and_the_unsafe_checks_that_are_missing(folder):
    text = (folder / "problem.yaml").read_text()
    head, rest = text.split("oracle:\n")
    outcome, tail = rest.split("  - id: no-one-waits")[0], text.split("\nanswers:")[1]
    (folder / "problem.yaml").write_text(f"{head}oracle:\n{outcome}\nanswers:{tail}")
    for path in (folder / "fixes").glob("*.sh"):
        path.unlink()
    found = [fault.what for fault in lint_folder(folder) if fault.code == "AS030"]
    assert sorted(what.split("`")[1] for what in found) == ["cause", "challenge", "preservation"]
    assert "AS031" in codes(folder)


def test_no_answers(folder):
    text = (folder / "problem.yaml").read_text()
    (folder / "problem.yaml").write_text(text.split("\nanswers:")[0])
    assert codes(folder) == {"AS050"}


def test_two_folders_with_one_id(folder):
    twin = folder.parent / "twin" / folder.name
    shutil.copytree(folder, twin)
    (fault,) = [fault for fault in lint_folders([folder, twin]) if fault.code == "AS003"]
    assert str(folder) in fault.todo


def test_every_rule_can_be_explained():
    for code, rule in RULES.items():
        assert explain(code.lower()) is rule
        assert len(rule.why) > 20
    with pytest.raises(UsageError, match="no rule AS999"):
        explain("AS999")


def test_a_hundred_problems_in_less_than_two_seconds(folder):
    folders = []
    for number in range(100):
        target = folder.parent / f"copy-{number:03}"
        shutil.copytree(folder, target)
        folders.append(target)
    begin = time.process_time()
    lint_folders(folders)
    assert time.process_time() - begin < 2


def test_quotes_are_held_against_the_text(folder, tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    lines = [""] * 20
    lines[11] = (
        "... waited; the queued ACCESS  EXCLUSIVE blocked everyone; adding a nullable column (normally instant) waited "
    )
    lines[11] += (
        "behind a long-running SELECT; health checks that need a DB connection pulled every replica from rotation"
    )
    (texts / "railway-index-no-concurrently.md").write_text("\n".join(lines))
    incident, source = read_incident(folder / "incident.yaml")
    wrong = misquoted(incident, source, texts)
    assert all(isinstance(error, ProblemError) for error in wrong)
    quoted = {error.where.rsplit(":", 1)[1] for error in wrong}
    assert str(source.line(("root_cause", "quote"))) not in quoted, "it is on line 12, but for spaces and case"
    assert str(source.line(("sustaining_loop", "quote"))) in quoted
    edit(folder, "incident.yaml", "lines: 12", "lines: 3")
    incident, source = read_incident(folder / "incident.yaml")
    assert misquoted(incident, source, texts)[0].todo == "it is on line 12"


def test_the_mechanisms_are_words_of_one_form():
    assert len(set(MECHANISMS)) == len(MECHANISMS)
    assert all(word == word.lower() and " " not in word and "_" not in word for word in MECHANISMS)


def test_the_published_schemas_are_those_of_the_models(tmp_path):
    # In a program of its own: other tests register checks of theirs in this one.
    code = f"from pathlib import Path; from aftershock.audit.schemas import *; write_schemas(Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", code], check=True)
    written = sorted(tmp_path.glob("*.json"))
    assert [path.name for path in written] == sorted(f"{name}.schema.json" for name in SCHEMAS)
    for path in written:
        kept = HERE / "docs" / "schema" / path.name
        assert kept.read_text() == path.read_text(), "run `aftershock schema --write`"


def test_the_schema_of_a_problem_knows_every_step_and_check():
    schema = SCHEMAS["problem"]()
    steps = {name for option in schema["$defs"]["step"]["oneOf"] for name in option["required"]}
    checks = {name for option in schema["$defs"]["node"]["oneOf"] for name in option["required"]}
    assert steps >= {"wait", "patch", "create_job", "sql"}
    assert checks >= {"served", "ledger", "challenge", "all", "any", "sequence", "id", "family", "why"}
    named = set(json.dumps(schema).split('"#/$defs/')[1:])
    for reference in {text.split('"')[0] for text in named}:
        assert reference in schema["$defs"]


def test_a_problem_is_started_from_an_incident(folder, tmp_path, monkeypatch):
    root = tmp_path / "root"
    (root / "problems").mkdir(parents=True)
    shutil.copytree(HERE / "stacks", root / "stacks")
    monkeypatch.setenv("AFTERSHOCK_ROOT", str(root))
    made = start("grey-otter", folder / "incident.yaml", "orders")
    assert load("grey-otter").mechanism == "lock-contention"
    found = codes(made)
    assert "AS012" in found, "what is left to write is named"
    assert "AS001" not in found
    assert "AS002" not in found
    assert "queue" in (made / "README.md").read_text() or "lock" in (made / "README.md").read_text()
    with pytest.raises(UsageError, match="already"):
        start("grey-otter", folder / "incident.yaml", "orders")
    with pytest.raises(UsageError, match="not an id"):
        start("Otter", folder / "incident.yaml", "orders")
