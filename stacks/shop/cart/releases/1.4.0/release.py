"""The cart as of release 1.4.0."""

from typing import Any

from marketlib.cache import Redis
from marketlib.settings import Settings

VERSION = "1.4.0"


async def change(store: Redis, settings: Settings, key: str, product: int, quantity: int) -> dict[str, str]:
    """Set the quantity of a product; returns the cart afterwards."""
    edit: tuple[Any, ...] = ("HSET", key, product, quantity) if quantity else ("HDEL", key, product)
    ttl = int(settings.seconds("CART_TTL", 7 * 86400))
    answers = await store.pipeline(edit, ("EXPIRE", key, ttl), ("HGETALL", key))
    kept: dict[str, str] = answers[2]
    return kept
