"""Settings, tokens, flags, the caches, workers, traces."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib import context, tracing, worker
from marketlib.cache import Cache, Memcached
from marketlib.errors import HttpError, Unavailable
from marketlib.flags import Flags
from marketlib.settings import SettingError, Settings
from marketlib.tokens import Keys


def test_the_environment_comes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cart.yaml"
    path.write_text("pool_size: 7\npool_wait: 250ms\nlog_requests: no\nratio: 0.5\n")
    settings = Settings.load("cart", path=path, env={"POOL_SIZE": "9"})
    assert settings.int("POOL_SIZE", 1) == 9
    assert settings.seconds("POOL_WAIT", 1) == 0.25
    assert settings.bool("LOG_REQUESTS", True) is False
    assert settings.float("RATIO", 0) == 0.5
    assert settings.str("ABSENT", "as ever") == "as ever"
    assert Settings.load("nobody", env={}).int("POOL_SIZE", 3) == 3


@pytest.mark.parametrize(
    ("text", "seconds"), [("2", 2), ("2s", 2), ("1.5s", 1.5), ("80ms", 0.08), ("5m", 300), ("168h", 604800)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Settings.load(env={"WAIT": text}).seconds("WAIT", 0) == pytest.approx(seconds)


def test_a_bad_value_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("pool_size: many\n")
    settings = Settings.load(path=path, env={"WAIT": "soon"})
    with pytest.raises(SettingError, match=r"pool_size in .*x.yaml must be a whole number, it is 'many'"):
        settings.int("POOL_SIZE", 1)
    with pytest.raises(SettingError, match=r"\$WAIT must be a duration"):
        settings.seconds("WAIT", 1)
    path.write_text("[1, 2")
    with pytest.raises(SettingError, match="cannot be read"):
        Settings.load(path=path, env={})


async def test_a_changed_file_is_taken_at_a_signal_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("pool_size: 1\n")
    settings = Settings.load(path=path, env={})
    taken = asyncio.Event()
    settings.on_change(taken.set)
    watching = asyncio.create_task(settings.watch())
    try:
        await asyncio.sleep(0)
        path.write_text("pool_size: 22\n")
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(taken.wait(), 5)
        assert settings.int("POOL_SIZE", 0) == 22
        path.write_text("pool_size: [\n")
        assert settings.reload() is False
        assert settings.int("POOL_SIZE", 0) == 22
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def test_tokens_outlive_a_change_of_keys(tmp_path: Path) -> None:
    (tmp_path / "k1").write_text("first")
    keys = Keys(tmp_path)
    old = keys.sign({"customer": 7}, 60)
    assert old.startswith("k1.")
    (tmp_path / "k2").write_text("second")
    keys._read_at = -100
    assert keys.sign({"customer": 7}, 60).startswith("k2.")
    assert keys.verify(old)["customer"] == 7
    (tmp_path / "k1").unlink()
    keys._read_at = -100
    with pytest.raises(HttpError, match="not valid"):
        keys.verify(old)


def test_tokens_that_are_not_ours_or_too_old(tmp_path: Path) -> None:
    (tmp_path / "k1").write_text("first")
    keys = Keys(tmp_path)
    kid, body, signature = keys.sign({"customer": 7}, 60).split(".")
    forged = tracing.json.dumps({"customer": 8, "exp": time.time() + 60}).encode()
    for token in ("", "a", "a.b.c", f"{kid}.{body}.", f"{kid}.{forged.hex()}.{signature}", f"k9.{body}.{signature}"):
        with pytest.raises(HttpError) as caught:
            keys.verify(token)
        assert caught.value.status == 401
    with pytest.raises(HttpError, match="expired"):
        keys.verify(keys.sign({"customer": 7}, -1))
    with pytest.raises(Unavailable, match="no key"):
        Keys(tmp_path / "none").check()


class Store:
    """memcached's protocol as far as the client speaks it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.calls = 0
        self.hang = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                self.calls += 1
                if self.hang:
                    await asyncio.sleep(30)
                command, key, *rest = line.decode().split()
                if command == "get":
                    if key in self.kept:
                        writer.write(f"VALUE {key} 0 {len(self.kept[key])}\r\n".encode() + self.kept[key] + b"\r\n")
                    writer.write(b"END\r\n")
                elif command == "set":
                    self.kept[key] = (await reader.readexactly(int(rest[2]) + 2))[:-2]
                    writer.write(b"STORED\r\n")
                else:
                    writer.write(b"DELETED\r\n" if self.kept.pop(key, None) else b"NOT_FOUND\r\n")
        writer.close()


@contextlib.asynccontextmanager
async def memcached() -> AsyncIterator[tuple[Store, Memcached]]:
    store = Store()
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
    async with Memcached("127.0.0.1", server.sockets[0].getsockname()[1], timeout=0.2) as client:
        try:
            yield store, client
        finally:
            await client.__aexit__(None, None, None)
            server.close()


async def test_memcached_keeps_bytes() -> None:
    async with memcached() as (_, client):
        assert await client.get("a") is None
        await client.set("a", b"x\r\nEND\r\n" * 3, 60)
        assert await client.get("a") == b"x\r\nEND\r\n" * 3
        await client.delete("a")
        assert await client.get("a") is None
        with pytest.raises(ValueError, match="not a key"):
            await client.get("a b")


async def test_a_value_is_loaded_once_for_all_who_miss_it_together() -> None:
    async with memcached() as (_, client):
        cache = Cache(client, "t", prefix="p:")
        loads = 0

        async def load() -> dict[str, int]:
            nonlocal loads
            loads += 1
            await asyncio.sleep(0.05)
            return {"n": loads}

        found = await asyncio.gather(*(cache.through("k", 60, load) for _ in range(20)))
        assert found == [{"n": 1}] * 20
        assert await cache.through("k", 60, load) == {"n": 1}
        await cache.delete("k")
        assert await cache.through("k", 60, load) == {"n": 2}


async def test_a_cache_that_hangs_is_a_miss_and_left_alone_for_a_while() -> None:
    async with memcached() as (store, client):
        store.hang = True
        cache = Cache(client, "t")

        async def load() -> int:
            return 7

        begin = time.monotonic()
        assert [await cache.through(f"k{i}", 60, load) for i in range(10)] == [7] * 10
        assert time.monotonic() - begin < 1  # one time-out of 0.2 s, not twenty
        assert store.calls == 1


async def test_flags_keep_their_last_values() -> None:
    asked: list[str] = []
    answers = [
        (200, {"a": True, "n": 3}),
        (304, None),
        (500, None),
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        status, values = answers.pop(0)
        body = json.dumps({"flags": values}).encode() if values else b""
        writer.write(
            f'HTTP/1.1 {status} X\r\nETag: "v1"\r\nContent-Type: application/json\r\nConnection: close\r\n'
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    flags = Flags(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert flags.get("a", False) is False
    for _ in range(3):
        await flags.refresh()
        assert flags.get("a", False) is True
    assert 'if-none-match: "v1"' in asked[1]
    assert flags.get("n", True) is True  # of another kind than the default
    assert flags.get("n", 1) == 3
    await flags._client.close()
    server.close()


async def test_a_loop_that_raises_is_started_again_and_one_that_hangs_is_cut() -> None:
    runs = 0
    again = asyncio.Event()

    async def fails(stop: asyncio.Event) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise Unavailable("queue", "not connected")
        again.set()
        await stop.wait()

    async def hangs(stop: asyncio.Event) -> None:
        await asyncio.sleep(30)

    async with asyncio.timeout(10), worker.running({"fails": fails, "hangs": hangs}, grace=0.2):
        await again.wait()
    assert runs == 2


async def test_spans_arrive_as_one_tree_and_are_dropped_when_they_cannot() -> None:
    got: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.split("content-length: ")[1].split("\r\n")[0])
        got.append(json.loads(await reader.readexactly(size)))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    exporter = tracing.Exporter(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/traces", room=2)
    exporter.describe("cart", "1")
    kept, tracing.exporter = tracing.exporter, exporter
    token = context.enter(context.received("r", "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "", False))
    try:
        with tracing.span("outer", "server", n=1), pytest.raises(ValueError, match="no"), tracing.span("inner"):
            raise ValueError("no")
        with tracing.span("one too many"):
            pass
    finally:
        context.leave(token)
        tracing.exporter = kept
    assert await exporter.flush()
    resource = got[0]["resourceSpans"][0]
    assert {"key": "service.name", "value": {"stringValue": "cart"}} in resource["resource"]["attributes"]
    inner, outer = resource["scopeSpans"][0]["spans"]
    assert (outer["parentSpanId"], inner["parentSpanId"]) == ("b" * 16, outer["spanId"])
    assert inner["status"]["code"] == 2
    assert inner["traceId"] == "a" * 32
    server.close()
    await server.wait_closed()
    await exporter._pool.aclose()
    exporter.add(tracing.Span("late", "internal", "a" * 32, "c" * 16, "", 1, {}, 2))
    assert not await exporter.flush()
