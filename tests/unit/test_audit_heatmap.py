"""The heat map as one HTML file."""

import re
from html.parser import HTMLParser
from typing import Any

from aftershock.audit.heatmap import render

CELL = {
    "name": "fix:stop", "kind": "wrong", "expected": "failed", "verdict": "failed", "check": "kept", "ok": True,
    "seconds": 91.2, "why": "", "results": {"served": "pass", "kept": "fail", "again": "skipped"},
    "said": {"kept": 'gone <b>"all"</b>'}, "void": "", "hangs_on": "kept",
}  # fmt: skip
CHECK = {"family": "outcome", "kills": [], "alone": [], "idle": True}


def document(**said: Any) -> dict[str, Any]:
    return {
        "problem": "grey-otter", "sound": False, "why": "a <wrong> fix passes", "audited": "2026-01-01T00:00:00Z",
        "judged": "0123456789abcdef0123", "seconds": 480.4, "machine": {"jobs": 3}, "cells": [CELL],
        "checks": [{"id": name, **CHECK} for name in ("served", "kept", "again")],
        "findings": [{"code": "wrong-passes", "what": "fix:x passes", "grave": True}], "leaks": [], **said,
    }  # fmt: skip


class Tags(HTMLParser):
    """Counts marks by class, and whether every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.marks: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        said = dict(attrs).get("class") or ""
        if tag == "td" and said.startswith("mark"):
            self.marks.append(said.removeprefix("mark").strip())

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_cell_shows_every_check_and_the_one_that_decided():
    tags = Tags(render(document()))
    assert tags.marks == ["pass", "fail decided", "skipped"]
    assert tags.open == []


def test_what_was_said_is_text_and_not_markup():
    page = render(document())
    assert "<b>" not in page
    assert "a &lt;wrong&gt; fix passes" in page
    assert 'title="gone &lt;b&gt;&quot;all&quot;&lt;/b&gt;"' in page


def test_it_needs_nothing_from_elsewhere():
    assert not re.search(r"https?://|<script|<link|@import|url\(", render(document()))


def test_it_says_whether_it_is_sound_and_what_follows():
    page = render(document())
    assert "not sound" in page
    assert "fix:x passes" in page
    assert "hangs on kept alone" in page
    assert ">sound<" in render(document(sound=True, why="", findings=[]))
