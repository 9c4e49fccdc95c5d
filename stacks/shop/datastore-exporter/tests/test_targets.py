"""The exporter against answers as the stores gave them, and its own protocol against a real PostgreSQL."""

import asyncio
import importlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]
BIN = Path("/usr/lib/postgresql/15/bin")
MEMCACHED = (
    "bytes 120", "limit_maxbytes 33554432", "curr_items 2", "curr_connections 3", "evictions 5", "get_hits 7",
    "get_misses 11", "uptime 13", "version 1.6.18",
)  # fmt: skip


@pytest.fixture
def load() -> Iterator[Load]:
    folder = str(Path(__file__).parents[1] / "src")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(folder)
        for name in ("targets", "wire"):
            sys.modules.pop(name, None)


async def answering(text: bytes) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(text)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def asked(load: Load, kind: str, text: bytes) -> dict[str, float]:
    async for port in answering(text):
        samples = await load("targets").Store(kind, "127.0.0.1", port, kind).samples()
        return {metric: value for metric, _, value in samples}
    raise AssertionError


async def test_memcached(load: Load) -> None:
    lines = "".join(f"STAT {line}\r\n" for line in MEMCACHED)
    found = await asked(load, "memcached", f"{lines}END\r\n".encode())
    assert found["memcached_evictions_total"] == 5
    assert found["memcached_limit_bytes"] == 33554432
    assert "memcached_version" not in found


async def test_redis_replica(load: Load) -> None:
    info = (
        "# Memory\r\nused_memory:900\r\nmaxmemory:67108864\r\naof_last_write_status:ok\r\n"
        "# Replication\r\nrole:slave\r\nmaster_link_status:down\r\n# Keyspace\r\ndb0:keys=4,expires=1,avg_ttl=0\r\n"
    )
    found = await asked(load, "redis", f"${len(info)}\r\n{info}\r\n+PONG\r\n".encode())
    assert found["redis_memory_used_bytes"] == 900
    assert found["redis_aof_last_write_ok"] == 1
    assert (found["redis_is_master"], found["redis_link_up"], found["redis_keys"]) == (0, 0, 4)


async def test_an_answer_without_an_end_is_a_failure(load: Load) -> None:
    with pytest.raises(load("wire").Failed, match="without an end"):
        await asked(load, "memcached", b"STAT bytes 1\r\n")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[int]:
    """A PostgreSQL of its own that wants SCRAM from everybody."""
    if not (BIN / "initdb").exists() or os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs PostgreSQL 15 and root")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    home = tmp_path / "pg"
    home.mkdir()
    (home / "password").write_text("p=a,s's")
    shutil.chown(home, "postgres")
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    make = ["--username=monitoring", f"--pwfile={home}/password", "--auth=scram-sha-256", "--no-sync"]
    subprocess.run([*user, str(BIN / "initdb"), "-D", str(home / "data"), *make], check=True, capture_output=True)
    options = ["-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"]
    process = await asyncio.create_subprocess_exec(
        *user, str(BIN / "postgres"), "-D", str(home / "data"), *options, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        ready = [str(BIN / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        for _ in range(100):
            asking = await asyncio.create_subprocess_exec(*ready)
            if await asking.wait() == 0:
                break
            await asyncio.sleep(0.1)
        yield port
    finally:
        process.terminate()
        await process.wait()


async def test_the_protocol(load: Load, server: int) -> None:
    wire = load("wire")
    connection = await wire.Connection.connect("127.0.0.1", server, "monitoring", "p=a,s's", "postgres", "test")
    try:
        rows = await connection.query("select 1 as one, null as nothing, 'ä' as letter union all select 2, 'x', ''")
        assert rows == [
            {"one": "1", "nothing": None, "letter": "ä"},
            {"one": "2", "nothing": "x", "letter": ""},
        ]
        with pytest.raises(wire.Failed, match="42P01"):
            await connection.query("select * from nowhere")
        assert await connection.query("select 3 as three") == [{"three": "3"}]
    finally:
        connection.close()
    with pytest.raises(wire.Failed, match="28P01"):
        await wire.Connection.connect("127.0.0.1", server, "monitoring", "wrong", "postgres", "test")
