"""The picture: where things lie in it, that nothing covers anything, and that it needs nothing else."""

import itertools
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from aftershock.base.errors import AftershockError
from aftershock.trial.chart import CHAR, HIGH, LEFT, LOW, RIGHT, WIDTH, _place, _Plane, draw, read_view
from aftershock.trial.page import write_page

SVG = "{http://www.w3.org/2000/svg}"


def folder_of(tmp_path: Path, *, agent: str = "nop", served_until: int = 10, seconds: int = 20) -> Path:
    """A trial of `seconds` s at 10 requests a second: served in 10 ms until `served_until`, in none after."""
    folder = tmp_path / agent.replace(":", "-")
    (folder / "users").mkdir(parents=True)
    lines = [{"begin": 1000.0, "rate": 10.0}]
    for n in range(seconds * 10):
        due = 1000 + n / 10
        good = n < served_until * 10
        error = "" if good else "HTTP 503"
        lines.append(
            {
                "n": n,
                "due": due,
                "start": due,
                "end": due + 0.01,
                "kind": "r",
                "ok": good,
                "status": 200,
                "error": error,
            }
        )
    (folder / "users" / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = [
        "begin",
        "fault",
        "trigger",
        "suffering",
        "page",
        "agent_begin",
        "agent_end",
        "judge_begin",
        "judge_end",
        "end",
    ]
    marks = dict(zip(names, [1000, 1008, 1008.1, 1012, 1014, 1014, 1014, 1014.1, 1019, 1000 + seconds], strict=True))
    check = {
        "id": "users-served",
        "family": "outcome",
        "result": "fail",
        "said": "0 % <served>",
        "why": "They & we.",
        "seconds": 5,
    }
    document = {
        "problem": "grey-otter", "title": "A <b> & its end", "agent": agent, "verdict": "failed", "state": "finished",
        "why": "users-served: 0 % <served>", "marks": marks, "checks": [check], "seconds": {"total": 30.0},
        "harm": {"failed": 100, "due": 120, "minutes_failed": 0.2, "slow": 0},
    }  # fmt: skip
    (folder / "trial.json").write_text(json.dumps(document))
    return folder


def test_places():
    plane = _Plane(seconds=100, rows=0)
    assert plane.x(0) == LEFT
    assert plane.x(100) == WIDTH - RIGHT
    assert plane.x(50) == (LEFT + WIDTH - RIGHT) / 2
    assert plane.share(1.0) == plane.top
    assert plane.share(0.0) == plane.top + HIGH
    assert plane.latency(0.001) == plane.latency(0.0001) == plane.bottom
    assert plane.latency(10) == plane.latency(60) == plane.low_top
    assert plane.latency(1) == pytest.approx(plane.bottom - 0.75 * LOW)


def test_no_label_covers_another_nor_a_line():
    moments = [(10.0, "trigger", "mark"), (12.0, "users suffer", "mark"), (14.0, "page", "mark")]
    moments += [
        (14.0, "fix:something-long 3 s", "agent"),
        (17.0, "judging 60 s", "judge"),
        (99.0, "the very end", "mark"),
    ]
    labels, rows = _place(moments, 100.0)
    assert rows == max(label.row for label in labels) + 1
    for one, other in itertools.combinations(labels, 2):
        width = len(one.text) * CHAR
        if one.left <= other.left < one.left + width:
            assert other.row > one.row
    assert all(label.left + len(label.text) * CHAR <= WIDTH for label in labels)
    assert [label.text for label in labels][2:4] == ["page", "fix:something-long 3 s"]


def test_the_areas_say_what_was_served(tmp_path):
    view = read_view(folder_of(tmp_path))
    assert [(second.due, second.ok) for second in view.series] == [(10, 10)] * 10 + [(10, 0)] * 10
    root = ET.fromstring(draw(view))
    (good,) = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") == "good"]
    (bad,) = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") == "bad"]
    plane = _Plane(20, 0)
    assert good.count("M") == bad.count("M") == 10
    assert good.startswith(f"M{plane.x(0)} ")
    assert bad.startswith(f"M{plane.x(10)} ")
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "trigger" in texts
    assert "fault" not in texts  # 0.1 s before the trigger: one mark for both
    assert "judging 5 s" in texts
    hovers = [title.text for title in root.iter(f"{SVG}title")]
    assert "0 s: 10 of 10 requests served, median 10 ms, 95th percentile 10 ms" in hovers
    assert "19 s: 0 of 10 requests served, nobody served" in hovers


def test_a_page_holds_everything_and_shares_one_axis(tmp_path):
    folders = [folder_of(tmp_path), folder_of(tmp_path, agent="fix:good", seconds=60)]
    text = write_page(folders, tmp_path / "out" / "page.html").read_text()
    assert not re.search(r"""(src|href)=|url\(|@import""", text)
    assert "A &lt;b&gt; &amp; its end" in text
    assert "0 % &lt;served&gt;" in text
    assert "They &amp; we." in text
    first, second = (ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    ends = [
        max(float(t.text or 0) for t in svg.iter(f"{SVG}text") if (t.text or "").isdigit()) for svg in (first, second)
    ]
    assert ends == [60.0, 60.0]
    ET.fromstring((folders[0] / "users.svg").read_text())


def test_a_trial_that_ended_before_its_users_came(tmp_path):
    folder = folder_of(tmp_path)
    document = json.loads((folder / "trial.json").read_text())
    document.update(marks={}, checks=[], harm=None, verdict=None, state="running", why="")
    (folder / "trial.json").write_text(json.dumps(document))
    text = write_page([folder], tmp_path / "page.html").read_text()
    assert "running" in text
    assert "No user came so far." in text
    with pytest.raises(AftershockError, match=r"no trial\.json"):
        read_view(tmp_path)
