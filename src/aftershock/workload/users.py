"""The users' program: `python -m aftershock.workload.users`, run in the world outside the cluster.

It writes two files of JSON Lines into --out: `requests.jsonl`, begun by a line with the rate and the
time of the first request and then one line for each request when it has ended; and `ledger.jsonl`,
one line for each order that the shop acknowledged, written before the request is counted as served.
Each request is a new connection from an address of its own: users do not share connections.

Wall-clock times are those of the start plus the monotonic clock: a jump of the wall clock moves nothing.
SIGTERM ends it at once; requests under way are then left out.
"""

import argparse
import asyncio
import contextlib
import ctypes
import ipaddress
import json
import random
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import aiohttp

from aftershock.base.errors import AftershockError
from aftershock.workload.journeys import Ask, Journey, journey

__all__ = ["Population", "main"]

TIMEOUT = 10.0
SOURCES = 24
PR_SET_PDEATHSIG = 1


class Population:
    """Users that arrive at a steady rate, each with one request."""

    def __init__(
        self, front: str, host: str, rate: float, out: Path, seed: int, what: Journey, sources: Sequence[str | None]
    ) -> None:
        self._front = front.rstrip("/")
        self._host = host
        self._rate = rate
        self._rng = random.Random(seed)
        self._journey = what
        self._sources = sources
        self._clock = time.time() - time.monotonic()
        self._requests: TextIO = (out / "requests.jsonl").open("a", buffering=1)
        self._ledger: TextIO = (out / "ledger.jsonl").open("a", buffering=1)

    def _now(self) -> float:
        return self._clock + time.monotonic()

    def _write(self, file: TextIO, **line: Any) -> None:
        file.write(json.dumps(line) + "\n")

    async def run(self, stop: asyncio.Event) -> None:
        """Go on until `stop` is set."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with contextlib.AsyncExitStack() as stack:
            sessions = []
            for source in self._sources:
                connector = aiohttp.TCPConnector(limit=0, force_close=True, local_addr=(source, 0) if source else None)
                session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
                sessions.append(await stack.enter_async_context(session))
            await self._arrivals(sessions, stop)
        self._requests.close()
        self._ledger.close()

    async def _arrivals(self, sessions: Sequence[aiohttp.ClientSession], stop: asyncio.Event) -> None:
        begin = self._now() + 0.2
        self._write(self._requests, begin=begin, rate=self._rate, clock=self._clock, timeout=TIMEOUT)
        ended = asyncio.create_task(stop.wait())
        pending: set[asyncio.Task[None]] = set()
        n = 0
        while not stop.is_set():
            due = begin + n / self._rate
            if (pause := due - self._now()) > 0:
                await asyncio.wait((ended,), timeout=pause)
                continue
            ask = self._journey.next(self._rng)
            task = asyncio.create_task(self._one(n, due, ask, sessions[n % len(sessions)]))
            pending.add(task)
            task.add_done_callback(pending.discard)
            n += 1
            if n % 50 == 0:
                await asyncio.sleep(0)  # a program that fell behind still reads answers
        finished = self._now()
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        self._write(self._requests, finished=finished)

    async def _one(self, n: int, due: float, ask: Ask, session: aiohttp.ClientSession) -> None:
        start = self._now()
        status, error, answer = 0, "", None
        headers = {"Host": self._host, "User-Agent": "Mozilla/5.0"}
        try:
            async with session.request(
                ask.method, self._front + ask.path, json=ask.body, headers=headers, allow_redirects=False
            ) as response:
                status = response.status
                body = await response.read()
            with contextlib.suppress(ValueError):
                answer = json.loads(body)
            error = self._journey.judge(ask, status, answer)
        except TimeoutError:
            error = "timeout"
        except aiohttp.ClientError as problem:
            error = type(problem).__name__
        end = self._now()
        if not error and (entry := self._journey.promise(ask, answer)) is not None:
            self._write(self._ledger, **entry, acknowledged=end)
            self._journey.remember(entry)
        self._write(
            self._requests, n=n, due=due, start=start, end=end, kind=ask.kind, ok=not error, status=status, error=error
        )


def sources_of(network: str) -> list[str | None]:
    """Addresses of a network that can be bound here, [None] where none can."""
    if not network:
        return [None]
    hosts = [str(host) for host in ipaddress.ip_network(network).hosts()]
    step = max(1, len(hosts) // SOURCES)
    chosen = hosts[step // 2 :: step][:SOURCES]
    for address in chosen:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                return [None]
    return list(chosen)


def die_with_parent() -> None:
    """Have the kernel end this program when the one that started it is gone, however that came about."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def _main(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    arguments.out.mkdir(parents=True, exist_ok=True)
    population = Population(
        arguments.front,
        arguments.host,
        arguments.rate,
        arguments.out,
        arguments.seed,
        journey(arguments.journey),
        sources_of(arguments.sources),
    )
    await population.run(stop)


def main() -> int:
    parser = argparse.ArgumentParser(prog="users", description="Users of a shop, at a steady open-loop rate.")
    parser.add_argument("--front", required=True, help="address of the front door, for example http://192.0.2.10")
    parser.add_argument("--host", required=True, help="the shop's name, for the Host header")
    parser.add_argument("--rate", type=float, default=20.0, help="requests due per second")
    parser.add_argument("--out", type=Path, required=True, help="folder of the request log and the ledger")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--journey", default="orders")
    parser.add_argument("--sources", default="198.51.100.0/24", help="network that the users come from")
    parser.add_argument("--die-with-parent", action="store_true")
    arguments = parser.parse_args()
    if arguments.die_with_parent:
        die_with_parent()
    try:
        asyncio.run(_main(arguments))
    except AftershockError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
