"""How a party behaves: well, or as it was told, for a share of its requests or for so many of them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from aftershock.base.errors import UsageError

__all__ = ["Behaviour", "Moods"]


@dataclass(frozen=True)
class Behaviour:
    """What a party does with a request.

    Args:
        mood: `well`, or one that the party knows (`decline`, `fail`, `hang-after`, ...).
        delay: seconds before it begins with any request.
        share: of the requests that meet the mood, 0 to 1; the others are treated well.
        count: so many requests meet it, then all is well again; 0 for no end.
        keys: whether it honours idempotency keys (the payment provider).
    """

    mood: str = "well"
    delay: float = 0.0
    share: float = 1.0
    count: int = 0
    keys: bool = True


class Moods:
    """The behaviour of one party, as it was last told."""

    def __init__(self, party: str, known: tuple[str, ...], seed: int = 1) -> None:
        self.party = party
        self._known = ("well", *known)
        self._rng = random.Random(f"{party} {seed}")
        self._left = 0
        self.now = Behaviour()

    def tell(self, how: Mapping[str, Any]) -> Behaviour:
        """Behave like this from now on; what is not said is as usual.

        Raises:
            UsageError: it knows no such mood or key.
        """
        names = {field.name for field in fields(Behaviour)}
        if unknown := next((key for key in how if key not in names), ""):
            raise UsageError(
                f"a party's behaviour has no `{unknown}`", where=self.party, todo=f"known: {', '.join(sorted(names))}"
            )
        if how.get("mood", "well") not in self._known:
            raise UsageError(
                f"the party has no mood `{how['mood']}`", where=self.party, todo=f"known: {', '.join(self._known)}"
            )
        self.now = Behaviour(**how)
        self._left = self.now.count
        return self.now

    def meet(self) -> str:
        """The mood that the next request meets."""
        if self.now.mood == "well" or self._rng.random() >= self.now.share:
            return "well"
        if self.now.count:
            if not self._left:
                return "well"
            self._left -= 1
        return self.now.mood
