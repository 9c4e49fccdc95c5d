"""Redis as a store, memcached as a cache.

products = Cache(Memcached("memcached.data"), "catalog")
product = await products.through("product:7", 60, load)     # load is called on a miss, once at a time

store = Redis("redis://redis.data:6379/0")
lines = await store.call("HGETALL", "cart:7")               # raises Unavailable
"""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from marketlib import tracing
from marketlib.errors import Unavailable
from marketlib.memcached import Memcached
from marketlib.metrics import BUCKETS, Counter, Histogram

if TYPE_CHECKING:
    from redis.asyncio import Redis as Connections

__all__ = ["Cache", "Memcached", "Redis", "Unavailable"]

lookups = Counter("cache_requests", "Look-ups in the cache.", ["cache", "result"])
commands = Counter("redis_commands", "Commands to Redis.", ["command", "result"])
command_times = Histogram("redis_command_duration_seconds", "Time of a command.", ["command"], buckets=BUCKETS)


class Cache:
    """JSON values in memcached. A cache that cannot be asked is a miss: it never fails a request.

    Args:
        name: in the metrics.
        prefix: put before each key; another one lets values of another release alone.
    """

    def __init__(self, memcached: Memcached, name: str, *, prefix: str = "") -> None:
        self._memcached = memcached
        self._name = name
        self._prefix = prefix
        self._loading: dict[str, asyncio.Future[Any]] = {}

    async def get(self, key: str) -> Any:
        """The value, None for a miss."""
        try:
            found = await self._memcached.get(self._prefix + key)
        except Unavailable:
            lookups.labels(self._name, "error").inc()
            return None
        lookups.labels(self._name, "miss" if found is None else "hit").inc()
        return None if found is None else json.loads(found)

    async def set(self, key: str, value: Any, seconds: float) -> None:
        """Keep it for that long, a tenth more or less, so that what came together does not go together."""
        data = json.dumps(value, separators=(",", ":")).encode()
        try:
            await self._memcached.set(self._prefix + key, data, seconds * random.uniform(0.9, 1.1))
        except Unavailable:
            lookups.labels(self._name, "error").inc()

    async def delete(self, key: str) -> None:
        try:
            await self._memcached.delete(self._prefix + key)
        except Unavailable:
            lookups.labels(self._name, "error").inc()

    async def through(self, key: str, seconds: float, load: Callable[[], Awaitable[Any]]) -> Any:
        """The cached value, or the loaded one, which is then kept (unless it is None).

        Requests of one process that miss the same key together load it once.
        """
        if (found := await self.get(key)) is not None:
            return found

        async def loaded() -> Any:
            value = await load()
            if value is not None:
                await self.set(key, value, seconds)
            return value

        return await self.together(key, loaded)

    async def together(self, key: str, load: Callable[[], Awaitable[Any]]) -> Any:
        """What `load` gives; called while it runs for the same key already, the result of that one."""
        if (loading := self._loading.get(key)) is None:
            loading = self._loading[key] = asyncio.ensure_future(load())
            loading.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(loading)

    def _loaded(self, key: str, done: asyncio.Future[Any]) -> None:
        self._loading.pop(key, None)
        if not done.cancelled():
            done.exception()  # seen, also where everybody who asked has gone


class Redis:
    """A pool of connections to Redis; answers are text.

    Args:
        url: redis://host:port/database.
        timeout: seconds for a command, and for making a connection.
        size: most connections; commands beyond them wait within their time.
    """

    def __init__(self, url: str, *, timeout: float = 0.5, size: int = 20, password: str = "") -> None:
        from redis import asyncio as redis  # 0.04 s of CPU that only its users should pay
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError

        self._trouble = (RedisError, OSError, TimeoutError)
        pool = redis.BlockingConnectionPool.from_url(
            url,
            max_connections=size,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            health_check_interval=15,
            decode_responses=True,
            password=password or None,
            retry=Retry(NoBackoff(), 1),  # once, on a new connection: the old one may have been closed while idle
        )
        self._redis: Connections = redis.Redis(connection_pool=pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def call(self, command: str, *arguments: Any) -> Any:
        """One command. Raises Unavailable."""
        return (await self.pipeline((command, *arguments)))[0]

    async def pipeline(self, *calls: tuple[Any, ...]) -> list[Any]:
        """Several commands as one transaction (MULTI). Raises Unavailable."""
        name = str(calls[0][0]) if len(calls) == 1 else "MULTI"
        begin = time.perf_counter()
        result = "error"
        try:
            with tracing.span(f"redis {name}", "client", **{"db.system": "redis"}):
                if len(calls) == 1:
                    answers = [await self._redis.execute_command(*calls[0])]
                else:
                    async with self._redis.pipeline(transaction=True) as pipe:
                        for call in calls:
                            pipe.execute_command(*call)
                        answers = await pipe.execute()
            result = "ok"
        except self._trouble as error:
            raise Unavailable("redis", f"{name}: {type(error).__name__}: {error}") from error
        finally:
            commands.labels(name, result).inc()
            command_times.labels(name).observe(time.perf_counter() - begin)
        return answers

    async def check(self) -> None:
        """Raise Unavailable unless it answers."""
        await self.call("PING")
