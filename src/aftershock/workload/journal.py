"""JSON Lines that are whole after a crash: each line is written by one call, or not at all.

What is in the file survives the end of the program, however it came about; nothing is forced onto the
disk, for a ledger need not outlive the machine. A last line that was cut (the disk was full) is taken
away when the file is opened again: whatever it was to tell of had not been relied on yet.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aftershock.base.errors import HostError

__all__ = ["Journal"]


class Journal:
    """A file to which lines are added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._mend()

    def _mend(self) -> None:
        """Cut off what follows the last newline."""
        size = end = os.fstat(self._file).st_size
        while end and os.pread(self._file, 1, end - 1) != b"\n":
            begin = max(0, end - 65536)
            end = begin + os.pread(self._file, end - begin, begin).rfind(b"\n") + 1
        if end < size:
            os.ftruncate(self._file, end)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line; when this returns it is in the file.

        Raises:
            HostError: the disk is full; the file is as it was.
        """
        data = json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            done = os.write(self._file, data)
        except OSError as error:
            raise HostError(
                f"could not write: {error.strerror}", where=str(self.path), todo="free some space"
            ) from error
        if done < len(data):
            os.ftruncate(self._file, os.fstat(self._file).st_size - done)
            raise HostError("could not write a whole line", where=str(self.path), todo="free some space")

    def close(self) -> None:
        os.close(self._file)
