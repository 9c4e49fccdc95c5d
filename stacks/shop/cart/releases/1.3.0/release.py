"""The cart as of release 1.3.0."""

from marketlib.cache import Redis
from marketlib.settings import Settings

VERSION = "1.3.0"


async def change(store: Redis, settings: Settings, key: str, product: int, quantity: int) -> dict[str, str]:
    """Set the quantity of a product; returns the cart afterwards."""
    if quantity:
        await store.call("HSET", key, product, quantity)
    else:
        await store.call("HDEL", key, product)
    await store.call("EXPIRE", key, int(settings.seconds("CART_TTL", 7 * 86400)))
    kept: dict[str, str] = await store.call("HGETALL", key)
    return kept
