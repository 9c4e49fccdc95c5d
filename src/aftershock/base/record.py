"""The one way to write a record: JSON Lines as things happen, one JSON document at the end.

A line is written and flushed before the thing it tells of is relied on, so a killed run leaves a
record of all that was done. Final documents are written beside their place and renamed into it:
a reader sees the old one or the new one, never half.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aftershock.base.errors import AftershockError, HostError

__all__ = ["Record", "read_lines", "write_json"]


def write_json(path: Path, document: Any, mode: int = 0o644) -> None:
    """Replace a JSON file in one step."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w") as file:
            json.dump(document, file, indent=1, default=str)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(mode)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise HostError(f"could not write {path}: {error.strerror}", todo="free some space and try again") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSON Lines file; a last line cut by a kill is left out."""
    if not path.exists():
        return
    with path.open() as file:
        for number, line in enumerate(file, 1):
            try:
                yield json.loads(line)
            except ValueError:
                if line.endswith("\n"):
                    raise AftershockError("a damaged line in a record", where=f"{path}:{number}") from None


class Record:
    """A run's folder: `events.jsonl` as it goes, named JSON documents beside it."""

    def __init__(self, folder: Path, listener: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.folder = folder
        self._listener = listener
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "events.jsonl").open("a", buffering=1)
        self._begin = time.monotonic()

    def event(self, kind: str, **data: Any) -> None:
        """Append one event: wall-clock time `t`, seconds since the start `s`, its kind and data."""
        line = {"t": round(time.time(), 3), "s": round(time.monotonic() - self._begin, 3), "event": kind, **data}
        self._file.write(json.dumps(line, default=str) + "\n")
        if self._listener:
            self._listener(line)

    def document(self, name: str, document: Any) -> Path:
        """Write `name`.json and return its path."""
        path = self.folder / f"{name}.json"
        write_json(path, document)
        return path

    def close(self) -> None:
        self._file.close()
