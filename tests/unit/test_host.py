"""What a machine lacks is said before anything is done, with the next step."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from aftershock.base.errors import HostError
from aftershock.cluster import host


def test_without_root_a_box_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HostError, match=r"lacks what a box needs: root \(uid 1000\)") as refused:
        host.require_host()
    assert "run as root" in refused.value.todo
    assert "aftershock doctor" in refused.value.todo


def test_on_another_system_the_rest_is_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.platform, "system", lambda: "Darwin")
    found = host.findings()
    assert [(f.name, f.ok) for f in found] == [("linux", False)]


def test_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **kw: None if name == "mmdebstrap" else which(name, **kw))
    with pytest.raises(HostError, match="mmdebstrap") as refused:
        host.require_host()
    assert "apt-get install mmdebstrap" in refused.value.todo


def test_too_little_space_is_told_before_work_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 40, 0, 100 << 20))
    with pytest.raises(HostError, match="only 100 MiB free, 500 MiB wanted"):
        host.require_room(tmp_path / "not/made/yet", 500, "a box")
    host.require_room(tmp_path, 99, "a box")
    assert [f.ok for f in host.findings() if f.name.startswith("space")] == [False, False]


def test_the_limit_of_watches_is_raised_and_never_lowered(tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    host.allow_watches(limit)
    assert limit.read_text() == "4096\n"
    limit.write_text("8192\n")
    host.allow_watches(limit)
    assert limit.read_text() == "8192\n"
    with pytest.raises(HostError, match="inotify") as refused:
        host.allow_watches(tmp_path / "none" / "max_user_instances")
    assert "sysctl" in refused.value.todo
