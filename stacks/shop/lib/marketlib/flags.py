"""Feature flags: the values that the flags service holds, asked for every few seconds.

    if flag("related-products", True): ...

While it cannot be asked the last values stay; before the first answer the defaults hold.
"""

import asyncio
import os
import random
from typing import Any

from marketlib.client import Client
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter

__all__ = ["Flags", "flag", "flags"]

URL = os.environ.get("FLAGS_URL", "http://flags.shop:8000")
EVERY_SECONDS = 5.0

polls = Counter("flag_polls", "Times that the flags were asked for.", ["result"])


class Flags:
    def __init__(self, url: str = URL, *, every: float = EVERY_SECONDS) -> None:
        self.values: dict[str, Any] = {}
        self._every = every
        self._etag = ""
        self._failing = False
        self._client = Client(url, "flags", timeout=2.0, retries=0)

    def get(self, name: str, default: Any) -> Any:
        """The flag's value if it is of the default's kind, and the default otherwise."""
        value = self.values.get(name, default)
        return value if default is None or type(value) is type(default) else default

    async def refresh(self) -> None:
        try:
            answer = await self._client.get("/flags", headers={"if-none-match": self._etag} if self._etag else {})
        except Unavailable as error:
            if not self._failing:
                log.warning("flags not refreshed, the last values stay", extra={"reason": error.why})
            self._failing = True
            polls.labels("failed").inc()
            return
        self._failing = False
        polls.labels(str(answer.status)).inc()
        if answer.status == 200 and isinstance(answer.data, dict):
            new = dict(answer.data.get("flags", {}))
            if self._etag and new != self.values:
                log.info("flags changed", extra={"flags": {k: v for k, v in new.items() if self.values.get(k) != v}})
            self.values, self._etag = new, answer.headers.get("etag", "")

    async def poll(self) -> None:
        """Keep the values fresh until cancelled."""
        try:
            while True:
                await self.refresh()
                await asyncio.sleep(self._every * random.uniform(0.9, 1.1))
        finally:
            await self._client.close()


flags = Flags()


def flag(name: str, default: Any) -> Any:
    """The value of a feature flag, or the default."""
    return flags.get(name, default)
