"""The index: which products have a word in their name."""

import bisect
import re
from typing import Any

__all__ = ["Index", "words"]

WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


class Index:
    """Products by the words of their names. Built once and then only read."""

    def __init__(self, products: list[dict[str, Any]]) -> None:
        self.products = {item["id"]: {key: item[key] for key in ("id", "name", "price")} for item in products}
        self._ids: dict[str, set[int]] = {}
        for item in products:
            for word in words(item["name"]):
                self._ids.setdefault(word, set()).add(item["id"])
        self._sorted = sorted(self._ids)

    def exact(self, word: str) -> set[int]:
        return self._ids.get(word, set())

    def beginning(self, prefix: str) -> set[int]:
        """Products with a word that begins so."""
        found: set[int] = set()
        for place in range(bisect.bisect_left(self._sorted, prefix), len(self._sorted)):
            if not self._sorted[place].startswith(prefix):
                break
            found |= self._ids[self._sorted[place]]
        return found
