"""The cache of parts: whole or absent, built once, verified by hash."""

import asyncio
import os
from pathlib import Path

import pytest

from aftershock.base.errors import BuildError
from aftershock.cluster.parts import Part, Progress, digest, ensure, verify


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))


class Builds:
    """A build that counts itself."""

    def __init__(self, *, fail: Exception | None = None, hang: asyncio.Event | None = None) -> None:
        self.count = 0
        self.fail = fail
        self.hang = hang

    async def __call__(self, folder: Path, progress: Progress) -> None:
        self.count += 1
        (folder / "bin").mkdir()
        (folder / "bin/tool").write_text("tool")
        if self.hang:
            await self.hang.wait()
        if self.fail:
            raise self.fail
        (folder / "big").write_bytes(b"\0" * 100_000)


async def test_a_part_is_built_once_and_found_again() -> None:
    build = Builds()
    part = Part("tool", "k1", build)
    first = await ensure(part)
    assert (first / "bin/tool").read_text() == "tool"
    assert await ensure(part) == first
    assert build.count == 1
    assert await ensure(Part("tool", "k2", build)) != first
    assert build.count == 2


async def test_two_first_uses_wait_for_one_build() -> None:
    go = asyncio.Event()
    build = Builds(hang=go)
    said: list[str] = []
    uses = [asyncio.create_task(ensure(Part("tool", "k", build), said.append)) for _ in range(3)]
    while sum("another process" in line for line in said) < 2:
        await asyncio.sleep(0.01)
    go.set()
    assert len(set(await asyncio.gather(*uses))) == 1
    assert build.count == 1


@pytest.mark.parametrize("error", [BuildError("no network"), OSError(28, "No space left on device")])
async def test_a_failed_build_leaves_nothing_usable(error: Exception) -> None:
    part = Part("tool", "k", Builds(fail=error))
    with pytest.raises(BuildError) as failed:
        await ensure(part)
    if isinstance(error, OSError):
        assert "free some space" in failed.value.todo
    assert not part.path.exists()
    assert [p.name for p in part.path.parent.iterdir()] == []
    assert (await ensure(Part("tool", "k", Builds()))).exists()


async def test_what_a_killed_build_left_is_not_used() -> None:
    part = Part("tool", "k", Builds())
    half = part.path.with_name(f".building-{part.path.name}")
    half.mkdir(parents=True)
    (half / "old").write_text("half")
    path = await ensure(part)
    assert not (path / "old").exists()
    assert not half.exists()


@pytest.mark.parametrize("damage", ["changed", "missing", "extra", "list"])
async def test_a_damaged_part_is_built_again(damage: str) -> None:
    build = Builds()
    path = await ensure(Part("tool", "k", build))
    match damage:
        case "changed":
            (path / "bin/tool").write_text("t00l")
        case "missing":
            (path / "big").unlink()
        case "extra":
            (path / "bin/more").write_text("?")
        case "list":
            (path / ".content.json").write_text("{")
    assert verify(path)
    said: list[str] = []
    assert verify(await ensure(Part("tool", "k", build), said.append)) == ""
    assert build.count == 2
    assert any("damaged" in line for line in said)


async def test_a_touched_file_is_compared_by_content_and_hidden_damage_is_found_by_hashing_all() -> None:
    path = await ensure(Part("tool", "k", Builds()))
    os.utime(path / "big", (1, 1))
    assert verify(path) == ""
    stat = (path / "bin/tool").stat()
    (path / "bin/tool").write_text("t00l")
    os.utime(path / "bin/tool", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert verify(path) == ""
    assert verify(path, deep=True) == "bin/tool has changed"


def test_digests_tell_contents_names_and_modes_apart(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "a").write_text("x")
    seen = {digest(folder)}
    (folder / "a").chmod(0o755)
    seen.add(digest(folder))
    (folder / "a").rename(folder / "b")
    seen.add(digest(folder))
    (folder / "b").write_text("y")
    seen.add(digest(folder))
    assert len(seen) == 4
    assert digest("ab", "c") != digest("a", "bc")
