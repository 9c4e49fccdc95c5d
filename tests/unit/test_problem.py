"""Reading problem folders: what they hold, and errors that name the line and what would be right."""

from pathlib import Path

import pytest

from aftershock.base.errors import ProblemError, UsageError
from aftershock.problem.load import digest, find, load, read

GOOD = """\
title: A queue behind a report
summary: Something waits.
stack: orders
postmortem:
  title: An incident
  url: https://example.com/incident
databases:
  shop: {pod: postgres-0, database: shop}
trigger:
  - scale: {object: Deployment/web, replicas: 0}
oracle:
  - id: users-served
    family: outcome
    why: Users are served again.
    served: {hold: 30}
  - any:
      - id: one
        family: cause
        why: Either this is so.
        sql: {query: select 1, equals: 1}
      - id: two
        family: cause
        why: Or that one is so.
        sql: {query: select 2, equals: 2}
"""
FIX = "#!/bin/sh\n# expect: wrong\n# decides: users-served\n# Anew,\n# which changes nothing.\nkubectl get po\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "problems" / "grey-otter"
    (made / "fixes").mkdir(parents=True)
    (made / "problem.yaml").write_text(GOOD)
    (made / "page.md").write_text("The shop is down.\n")
    (made / "fixes" / "restart.sh").write_text(FIX)
    return made


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / "problem.yaml").read_text()
    assert text.count(old) == 1
    (folder / "problem.yaml").write_text(text.replace(old, new))


def line_of(folder: Path, word: str) -> int:
    lines = (folder / "problem.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if word in line)


def refusal(folder: Path) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        read(folder)
    return caught.value


def test_a_good_problem(folder, tmp_path):
    problem = load("grey-otter", tmp_path)
    assert problem.id == "grey-otter"
    assert problem.check_ids() == ["users-served", "one", "two"]
    assert problem.databases["shop"].user == "postgres"
    assert problem.limits.agent == 900
    assert problem.trigger[0].params == {"object": "Deployment/web", "replicas": 0}
    (fix,) = problem.fixes
    assert (fix.name, fix.expect, fix.decides) == ("restart", "wrong", "users-served")
    assert fix.description == "Anew, which changes nothing."
    assert problem.page_text() == "The shop is down.\n"


def test_problems_are_found_by_scan_and_unknown_ones_named_with_their_neighbours(folder, tmp_path):
    (tmp_path / "problems" / "not-one").mkdir()
    assert list(find(tmp_path)) == ["grey-otter"]
    with pytest.raises(UsageError) as caught:
        load("grey-oter", tmp_path)
    assert "grey-otter" in caught.value.todo
    assert load(str(folder), tmp_path / "elsewhere").id == "grey-otter"


@pytest.mark.parametrize(
    ("old", "new", "at", "what", "todo"),
    [
        ("summary:", "sumary:", "sumary", "unknown key `sumary`", "did you mean `summary`?"),
        ("  url: https", "  link: https", "link:", "unknown key `link`", "known: company, title, url"),
        ("{pod: postgres-0,", "{pods: postgres-0,", "pods:", "unknown key `pods`", "did you mean `pod`?"),
        ("https://example", "ftp://example", "ftp:", "`url`", "ftp://"),
        ("family: outcome", "family: outcomes", "outcomes", "`family`", "outcomes"),
        ("served: {hold: 30}", "served: 30", "served: 30", "the parameters of `served` are missing", "served: {"),
        ("id: two", "id: one", "Or that", "two checks are called `one`", "the other is at"),
    ],
)
def test_faults_are_named_with_their_line(folder, old, new, at, what, todo):
    change(folder, old, new)
    error = refusal(folder)
    assert what in error.what
    assert todo in error.todo
    if at != "Or that":
        assert error.where == f"{folder / 'problem.yaml'}:{line_of(folder, at)}"


def test_a_step_without_parameters(folder):
    change(folder, "  - scale: {object: Deployment/web, replicas: 0}", "  - scale")
    error = refusal(folder)
    assert error.where.endswith(f":{line_of(folder, '- scale')}")
    assert "- name: {key: value}" in error.todo


def test_a_check_with_two_kinds_or_none(folder):
    change(folder, "    served: {hold: 30}\n", "    served: {hold: 30}\n    whi: {x: 1}\n")
    error = refusal(folder)
    assert error.where.endswith(f":{line_of(folder, 'whi:')}")
    assert "`why`" in error.todo
    change(folder, "    served: {hold: 30}\n    whi: {x: 1}\n", "")
    assert "no kind" in refusal(folder).what


def test_a_group_stands_alone_and_is_not_empty(folder):
    change(folder, "  - any:\n", "  - why: x\n    any:\n")
    assert "`why` beside `any`" in refusal(folder).what
    (folder / "problem.yaml").write_text(GOOD.split("  - any:")[0] + "  - all: []\n")
    error = refusal(folder)
    assert error.what == "an empty list of checks"
    assert error.where.endswith(f":{line_of(folder, '- all')}")


def test_a_key_that_is_there_twice_and_broken_yaml(folder):
    (folder / "problem.yaml").write_text(GOOD + "stack: other\n")
    error = refusal(folder)
    assert error.what == "the key `stack` is there twice"
    assert error.where.endswith(f":{len(GOOD.splitlines()) + 1}")
    (folder / "problem.yaml").write_text("title: [a\nstack: b\n")
    assert "this is not YAML" in refusal(folder).what
    (folder / "problem.yaml").write_text("")
    assert "empty" in refusal(folder).what


@pytest.mark.parametrize(
    ("text", "line", "what", "todo"),
    [
        ("#!/bin/bash\nkubectl get pods\n", 1, "no `# expect:` line", "right | wrong"),
        ("# expect: maybe\n", 1, "'maybe'", "right | wrong"),
        ("# expect: wrong\n", 1, "no `# decides:` line", "name the check"),
        ("# expect: wrong\n# decides: user-served\n", 2, "no check is called", "did you mean `users-served`?"),
    ],
)
def test_the_header_of_a_fix(folder, text, line, what, todo):
    path = folder / "fixes" / "restart.sh"
    path.write_text(text)
    error = refusal(folder)
    assert what in error.what
    assert todo in error.todo
    assert error.where == f"{path}:{line}"


def test_the_digest_covers_the_folder_and_nothing_else(folder):
    before = digest(folder)
    assert read(folder).digest == before
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("x")
    (folder.parent / "beside.txt").write_text("x")
    assert digest(folder) == before
    (folder / "fixes" / "restart.sh").chmod(0o755)
    executable = digest(folder)
    assert executable != before
    (folder / "page.md").write_text("The shop is down!\n")
    assert digest(folder) not in (before, executable)
    (folder / "page.md").write_text("The shop is down.\n")
    (folder / "page.md").rename(folder / "page2.md")
    assert digest(folder) != executable


def test_a_link_is_refused(folder):
    (folder / "notes.md").symlink_to("/etc/hostname")
    assert "a link" in refusal(folder).what


def test_noise_begins_with_the_fault_and_names_its_line(folder):
    from aftershock.fault.base import compile_steps

    change(folder, "trigger:\n", "noise: {level: high, restart: [Deployment/docs]}\ntrigger:\n")
    (noise,) = compile_steps(read(folder).fault)
    assert (noise.kind, noise.level, noise.restart) == ("noise", "high", ["Deployment/docs"])

    change(folder, "level: high", "level: loud")
    with pytest.raises(ProblemError) as caught:
        compile_steps(read(folder).fault)
    assert caught.value.where.endswith(f"problem.yaml:{line_of(folder, 'noise:')}")
