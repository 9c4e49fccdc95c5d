"""Reading a growing JSON Lines file a bit at a time: each poll reads only what is new."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aftershock.base.errors import AftershockError

__all__ = ["Tail"]


class Tail:
    """The new records of a file since the last call. A line that is not finished yet is kept for the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._rest = b""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """
        Raises:
            AftershockError: a whole line is no JSON object.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                raise AftershockError(f"a damaged line: {line[:80]!r}", where=str(self.path)) from None
