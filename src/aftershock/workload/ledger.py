"""The users' ledger: what the shop acknowledged to them. It is the truth that stores are held against."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aftershock.workload.tail import Tail

__all__ = ["ORDER", "Ledger", "Promise"]

ORDER = "order"


@dataclass(frozen=True)
class Promise:
    """Something acknowledged to a user at `acknowledged` (seconds since the epoch): an order, if not said otherwise."""

    id: str
    acknowledged: float
    fields: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.fields.get("kind", ORDER))


class Ledger:
    """The ledger file, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._promises: dict[str, Promise] = {}

    def promises(self) -> dict[str, Promise]:
        """All promises so far, by id."""
        for line in self._tail:
            fields = {key: value for key, value in line.items() if key not in ("id", "acknowledged")}
            self._promises[line["id"]] = Promise(line["id"], line["acknowledged"], fields)
        return dict(self._promises)
