"""The tutorial's blocks are those of the problem that it makes."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^<!-- (\S+) -->\n```\w+\n(.*?)^```$", re.S | re.M)
BLOCKS = BLOCK.findall((ROOT / "docs" / "first-problem.md").read_text())


@pytest.mark.parametrize(("name", "text"), BLOCKS, ids=[f"{i}-{name}" for i, (name, _) in enumerate(BLOCKS)])
def test_the_first_problem_is_as_it_is_told(name: str, text: str) -> None:
    assert text in (ROOT / "problems" / "dusty-finch" / name).read_text()


def test_the_first_problem_is_told() -> None:
    assert len(BLOCKS) >= 5
