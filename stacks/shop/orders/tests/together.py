"""The services together on this machine: PostgreSQL, NATS, and their processes, without a cluster.

External parties (the payment provider, the mail relay, a partner) are small servers of this process that keep
books of their own and can be told to misbehave.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import asyncpg
import httpx

SHOP = Path(__file__).parents[2]
PG_BIN = Path("/usr/lib/postgresql/15/bin")
NATS = os.environ.get("NATS_SERVER") or shutil.which("nats-server")
LOGINS = "catalog accounts orders payments inventory shipping notify flags backoffice settlement reports backup oncall"


def missing() -> str:
    """Why this machine cannot run them; nothing if it can."""
    if not (PG_BIN / "postgres").exists():
        return "needs Debian's postgresql-15"
    if not NATS:
        return "needs nats-server on PATH or in $NATS_SERVER"
    return ""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def until(check: Callable[[], Awaitable[Any]], seconds: float, what: str) -> Any:
    """Wait until the check is true."""
    end = asyncio.get_running_loop().time() + seconds
    last: Any = None
    while asyncio.get_running_loop().time() < end:
        with contextlib.suppress(httpx.HTTPError, OSError):
            if last := await check():
                return last
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} s: {what} (last: {last!r})")


class Outside:
    """One HTTP server for the provider and the partner. `mode` is the provider's."""

    def __init__(self) -> None:
        self.port = free_port()
        self.mode = "good"  # good, late (charges, answers too late), slow, decline, error, error_after
        self.charges: list[dict[str, Any]] = []
        self.refunds: list[dict[str, Any]] = []
        self.hooks: list[str] = []
        self._keys: dict[str, dict[str, Any]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, target, _ = first.split(" ")
                status, answer = await self._answer(method, target, headers, json.loads(body) if body else {})
                text = json.dumps(answer).encode()
                writer.write(
                    f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(text)}\r\n\r\n".encode()
                    + text
                )
                await writer.drain()
        writer.close()

    async def _answer(self, method: str, target: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        path, _, query = target.partition("?")
        if path.startswith("/sellers/"):
            self.hooks.append(headers["x-event-id"])
            return 200, {}
        if method == "GET":
            name, reference = path.removeprefix("/v1/"), query.removeprefix("reference=")
            book = self.charges if name == "charges" else self.refunds
            return 200, {name: [one for one in book if one["reference"] == reference]}
        key, mode = headers["idempotency-key"], self.mode
        if mode == "error":
            return 500, {"error": "out of order"}
        if mode == "decline" and path == "/v1/charges":
            return 402, {"error": "declined"}
        if mode == "slow":
            await asyncio.sleep(random.uniform(0.05, 0.5))
        if key not in self._keys:
            book = self.charges if path == "/v1/charges" else self.refunds
            self._keys[key] = {"id": f"x_{uuid.uuid4().hex}", "status": "captured", **body}
            book.append(self._keys[key])
        if mode == "late":
            await asyncio.sleep(20)
        return (500, {}) if mode == "error_after" else (201, self._keys[key])


class Relay:
    """A mail relay. `mode` drop: takes the mail and closes without a word, every second time."""

    def __init__(self) -> None:
        self.port = free_port()
        self.mode = "good"
        self.taken: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.write(b"220 relay\r\n")
            while line := (await reader.readline()).decode().strip():
                if line == "DATA":
                    writer.write(b"354 go on\r\n")
                    text = (await reader.readuntil(b"\r\n.\r\n")).decode()
                    self.taken += [x.split(": ")[1] for x in text.split("\r\n") if x.startswith("Message-ID")]
                    if self.mode == "drop" and random.random() < 0.5:
                        break
                if line == "QUIT":
                    break
                writer.write(b"250 ok\r\n")
        writer.close()


class Shop:
    """All of it. `kill` and `start` work on one process, by the name it was started under."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outside, self.relay = Outside(), Relay()
        self.ports: dict[str, int] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.http = httpx.AsyncClient(timeout=20, limits=httpx.Limits(max_connections=100))
        self.pg_port, self.nats_port = free_port(), free_port()
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Self:
        try:
            await self._all()
        except BaseException:
            self._stop()
            raise
        return self

    async def _all(self) -> None:
        self._postgres()
        self.start_nats()
        for party in (self.outside, self.relay):
            self._servers.append(await asyncio.start_server(party.serve, "127.0.0.1", party.port))
        keys = self.folder / "token-keys"
        keys.mkdir()
        (keys / "k1").write_text("a key for these tests")
        (self.folder / "admin").write_text("letmein")
        self.db = await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{self.pg_port}/market")
        self.began = f"'{await self.db.fetchval('select now()')}'::timestamptz"  # the past ends here
        hooks = f"http://127.0.0.1:{self.outside.port}/sellers/"
        await self.db.execute("update notify.partners set url = $1 || seller || '/orders'", hooks)
        for name, service in (
            ("catalog", "catalog"), ("inventory", "inventory"), ("payments", "payments"), ("payments-2", "payments"),
            ("shipping", "shipping"), ("notify", "notify"), ("orders", "orders"), ("orders-2", "orders"),
        ):  # fmt: skip
            self.start(name, service)
        for name in self.processes:
            if name not in ("postgres", "nats"):
                await self.is_ready(name)

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        await self.db.close()
        self._stop()

    def _stop(self) -> None:
        """End what was started, the stores last."""
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGINT)
        for process in reversed(self.processes.values()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()
            process.wait()
        for server in self._servers:
            server.close()

    def _spawn(self, name: str, command: list[str], env: dict[str, str] | None = None) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)

    def _as_postgres(self) -> list[str]:
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []

    def _postgres(self) -> None:
        data = self.folder / "pg"
        data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(data, "postgres")
        initdb = [str(PG_BIN / "initdb"), "-D", str(data / "data"), "-U", "postgres", "--auth=trust", "--no-sync"]
        subprocess.run(self._as_postgres() + initdb, check=True, capture_output=True)
        options = {"port": self.pg_port, "listen_addresses": "127.0.0.1", "unix_socket_directories": str(data),
                   "fsync": "off", "timezone": "UTC", "jit": "off", "shared_buffers": "64MB"}  # fmt: skip
        flags = [x for name, value in options.items() for x in ("-c", f"{name}={value}")]
        self._spawn("postgres", [*self._as_postgres(), str(PG_BIN / "postgres"), "-D", str(data / "data"), *flags])
        logins = self.folder / "logins"
        logins.mkdir()
        for name in LOGINS.split():
            (logins / name).write_text(f"pw-{name}\n")
        env = {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(self.pg_port), "PGUSER": "postgres",
               "SQL": str(SHOP / "migrations/sql"), "LOGINS": str(logins)}  # fmt: skip
        subprocess.run(["dash", str(SHOP / "migrations/migrate.sh")], env=env, check=True, capture_output=True)
        psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "market"]
        for name in ("customers", "shop"):
            file = SHOP / f"migrations/history/{name}.sql"
            subprocess.run([*psql, "-f", str(file)], env=env, check=True, capture_output=True)

    def start_nats(self) -> None:
        store = str(self.folder / "nats")
        self._spawn("nats", [str(NATS), "-a", "127.0.0.1", "-p", str(self.nats_port), "-js", "-sd", store])

    def start(self, name: str, service: str, version: str = "") -> None:
        """A process of a service, of its newest release unless one is named."""
        home = SHOP / service
        release = home / "releases" / (version or max((p.name for p in (home / "releases").iterdir()), key=version_key))
        self.ports.setdefault(name, free_port())
        url = "http://127.0.0.1:"
        env = {
            **{k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")},
            "PYTHONPATH": f"{SHOP / 'lib'}:{release}", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PORT": str(self.ports[name]), "TOKEN_KEYS": str(self.folder / "token-keys"),
            "DATABASE_URL": f"postgresql://{service}@127.0.0.1:{self.pg_port}/market",
            "ADMIN_TOKEN_FILE": str(self.folder / "admin"), "NATS_URL": f"nats://127.0.0.1:{self.nats_port}",
            "PROVIDER_URL": f"{url}{self.outside.port}", "SHIP_AFTER_SECONDS": "2",
            "SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(self.relay.port), "FLAGS_URL": "http://127.0.0.1:9",
            "TRACES_URL": "http://127.0.0.1:9", "TRACE_SAMPLE": "0", "MEMCACHED_HOST": "127.0.0.1",
        }  # fmt: skip
        for other in ("catalog", "inventory", "payments", "shipping"):
            env[f"{other.upper()}_URL"] = f"{url}{self.ports.get(other, 9)}"
        self._spawn(name, [sys.executable, str(home / "src/main.py")], env)

    def kill(self, name: str) -> None:
        """As a node that loses power."""
        self.processes[name].kill()
        self.processes[name].wait()

    async def is_ready(self, name: str) -> None:
        async def ready() -> bool:
            return (await self.http.get(f"http://127.0.0.1:{self.ports[name]}/readyz")).status_code == 200

        await until(ready, 120, f"{name} is ready; its log is {self.folder / name}.log")

    async def sql(self, query: str, *arguments: Any) -> Any:
        return await self.db.fetchval(query, *arguments)

    def token(self, customer: int) -> str:
        sys.path.insert(0, str(SHOP / "lib"))
        from marketlib.tokens import Keys

        return Keys(self.folder / "token-keys").sign({"customer": customer}, 3600)

    async def checkout(
        self, key: str, customer: int, lines: list[dict[str, int]], *, at: str = "orders"
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token(customer)}", "idempotency-key": key}
        body = {"lines": lines, "address": "1 Quay Street", "channel": "web"}
        return await self.http.post(f"http://127.0.0.1:{self.ports[at]}/checkout", json=body, headers=headers)

    async def buy(self, lines: list[dict[str, int]], *, tries: int = 1, customer: int = 7) -> tuple[str, int, Any]:
        """As a customer's app: asks again under the same key, at either replica, while it gets no answer."""
        key, status, body = str(uuid.uuid4()), 0, None
        for attempt in range(tries):
            try:
                answer = await self.checkout(key, customer, lines, at=random.choice(("orders", "orders-2")))
                status, body = answer.status_code, answer.json()
                if status < 500:
                    break
            except httpx.HTTPError:
                status = 0
            await asyncio.sleep(0.2 * (attempt + 1))
        return key, status, body

    async def settled(self, seconds: float = 30) -> None:
        """Wait until nothing is open: orders, goods, events, shipments, mails."""
        query = (
            "select (select count(*) from orders.orders"
            "    where status in ('new', 'pending', 'returning') or stock = 'held')"
            " + (select count(*) from orders.outbox where published_at is null)"
            " + (select count(*) from orders.orders o left join shipping.shipments s on s.order_id = o.id"
            "    where o.status = 'paid' and o.created_at > {began} and s.announced_at is null)"
            " + (select count(*) from orders.outbox x"
            "    left join notify.sent m on m.order_id = x.order_id and m.event = x.subject"
            "    where x.created_at > {began} and m.status is distinct from 'sent')"
            " + (select count(*) from shipping.shipments s left join notify.sent m on m.order_id = s.order_id"
            "    and m.event = 'shipments.created'"
            "    where s.created_at > {began} and m.status is distinct from 'sent')"
        )

        async def nothing_open() -> bool:
            return await self.sql(query.format(began=self.began)) == 0

        await until(nothing_open, seconds, "all is settled")


def version_key(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
