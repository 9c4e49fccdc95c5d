"""Parts: what is built once on a machine and kept, keyed by all that went into it.

A part is a folder. It is built beside its place, listed with the hash of every file, and renamed
into place, so that a reader finds a whole part or none. One lock a part makes concurrent first uses
wait for one build. Each use compares the files' stat data with the list, which costs milliseconds;
where they differ the content is hashed, and a damaged part is put aside and built again.
"""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aftershock.base.errors import BuildError
from aftershock.base.paths import cache_dir
from aftershock.base.record import write_json

__all__ = ["Part", "Progress", "digest", "ensure", "lock", "quiet", "verify"]

Progress = Callable[[str], None]
LIST = ".content.json"


def quiet(_: str) -> None:
    """Shows nothing."""


@dataclass(frozen=True)
class Part:
    """What to build: `build(folder, progress)` fills an empty folder.

    Args:
        name: kind of part, also the folder's prefix.
        key: hash of everything that went in.
        estimate: seconds that a build takes on two cores, shown to those who wait.
    """

    name: str
    key: str
    build: Callable[[Path, Progress], Awaitable[None]]
    estimate: float = 10.0

    @property
    def path(self) -> Path:
        return cache_dir() / "parts" / f"{self.name}-{self.key}"


def digest(*items: Any) -> str:
    """16 hexadecimal digits over texts, bytes, and the content of files and folders.

    >>> digest("a", b"b") == digest("a", "b")
    True
    >>> digest("ab") == digest("a", "b")
    False
    """
    total = hashlib.sha256()
    for item in items:
        if isinstance(item, Path):
            for path in sorted(item.rglob("*")) if item.is_dir() else [item]:
                if path.is_file() and "__pycache__" not in path.parts:
                    data = path.read_bytes()
                    name = str(path.relative_to(item)) if item.is_dir() else ""
                    total.update(f"{name}\0{path.stat().st_mode & 0o111}\0{len(data)}\0".encode())
                    total.update(data)
        else:
            data = item if isinstance(item, bytes) else str(item).encode()
            total.update(f"{len(data)}\0".encode())
            total.update(data)
    return total.hexdigest()[:16]


@contextlib.asynccontextmanager
async def lock(path: Path, waiting: Callable[[], None] | None = None, *, shared: bool = False) -> AsyncIterator[None]:
    """Hold a file lock; the kernel lets go of it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except OSError:
            if waiting:
                waiting()
            await asyncio.to_thread(fcntl.flock, file, kind)
        yield


def _entries(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    stack = [folder]
    while stack:
        with os.scandir(stack.pop()) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False) and entry.name != LIST:
                    yield os.path.relpath(entry.path, folder), entry


def _stamp(entry: os.DirEntry[str]) -> list[int]:
    stat = entry.stat(follow_symlinks=False)
    return [stat.st_size, stat.st_mtime_ns]


def _sha(path: str | Path) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path, **about: Any) -> None:
    """List a folder's files with their stat data and hashes; the last thing that a build does."""
    files = {name: [*_stamp(entry), _sha(entry.path)] for name, entry in _entries(folder)}
    write_json(folder / LIST, {**about, "files": files})


def verify(folder: Path, *, deep: bool = False) -> str:
    """Empty when a part is whole, else what is wrong with it. `deep` hashes every file."""
    try:
        files: dict[str, list[Any]] = json.loads((folder / LIST).read_text())["files"]
    except (OSError, ValueError, KeyError):
        return "its list of content is missing or damaged"
    seen = 0
    for name, entry in _entries(folder):
        known = files.get(name)
        if known is None:
            return f"{name} does not belong to it"
        seen += 1
        if (deep or _stamp(entry) != known[:2]) and _sha(entry.path) != known[2]:
            return f"{name} has changed"
    return "" if seen == len(files) else f"{len(files) - seen} files are missing"


def _failed(error: OSError, part: Part) -> BuildError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return BuildError(
        f"{part.name} could not be built: {error.strerror or error}",
        where=str(error.filename or part.path),
        todo="free some space and try again; nothing half-built remains"
        if full
        else "nothing half-built remains; try again",
    )


async def ensure(part: Part, progress: Progress = quiet) -> Path:
    """The part's folder, built now if it is not there or is damaged.

    Raises:
        BuildError: the build failed; nothing half-built remains.
    """
    path = part.path
    if path.exists() and not verify(path):
        return path
    locks = cache_dir() / "locks"
    async with lock(
        locks / path.name, lambda: progress(f"{part.name}: another process builds it (about {part.estimate:.0f} s)")
    ):
        if path.exists():
            if not (why := verify(path)):
                return path
            progress(f"{part.name}: damaged ({why}), building it again")
            aside = path.with_name(f".damaged-{path.name}-{os.getpid()}")
            path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
        beside = path.with_name(f".building-{path.name}")
        shutil.rmtree(beside, ignore_errors=True)
        begin = time.monotonic()
        progress(f"{part.name}: building (about {part.estimate:.0f} s)")
        try:
            beside.mkdir(parents=True)
            await part.build(beside, progress)
            seal(beside, name=part.name, key=part.key)
            beside.rename(path)
        except OSError as error:
            raise _failed(error, part) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        progress(f"{part.name}: built in {time.monotonic() - begin:.0f} s")
    return path


def every_part() -> Iterable[Path]:
    """The folders of all whole parts in the cache."""
    parts = cache_dir() / "parts"
    return sorted(p for p in parts.iterdir() if not p.name.startswith(".")) if parts.is_dir() else []
