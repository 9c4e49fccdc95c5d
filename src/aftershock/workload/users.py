"""The users' program: `python -m aftershock.workload.users`, run in the world outside the cluster.

It writes three files of JSON Lines into --out: `requests.jsonl`, begun by a line with the rate and the
time of the first request and then one line for each request when it has ended; `ledger.jsonl`, one line
for each thing that the shop acknowledged, written before the request is counted as served; and
`attempts.jsonl`, one line for each thing that was asked for, written before the asking: what came of it
without an answer is known to nobody else. Each request is a new connection from its user's address.

Wall-clock times are those of the start plus the monotonic clock: a jump of the wall clock moves nothing.
SIGTERM ends it at once; requests under way are then left out.
"""

import argparse
import asyncio
import contextlib
import gc
import ipaddress
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from aftershock.base.errors import AftershockError
from aftershock.workload.arrivals import Alarm, Schedule
from aftershock.workload.journal import Journal
from aftershock.workload.journeys import Answer, Ask, Journey, journey
from aftershock.workload.parent import die_with_parent

__all__ = ["Population", "main"]

TIMEOUT = 10.0
SOURCES = 24
PRIORITY = -10
RETRY_BASE, RETRY_MOST = 0.5, 8.0


class Population:
    """Users that arrive at a steady rate, each with one request."""

    def __init__(
        self, front: str, host: str, rate: float, out: Path, seed: int, what: Journey, sources: Sequence[str | None]
    ) -> None:
        self._front = front.rstrip("/")
        self._host = host
        self._rate = rate
        self._seed = seed
        self._rng = random.Random(seed)
        self._again = random.Random(f"again {seed}")
        self._journey = what
        self._sources = sources
        self._clock = time.time() - time.monotonic()
        self._requests = Journal(out / "requests.jsonl")
        self._ledger = Journal(out / "ledger.jsonl")
        self._attempts = Journal(out / "attempts.jsonl")
        self._failed: BaseException | None = None

    def _now(self) -> float:
        return self._clock + time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Go on until `stop` is set."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with contextlib.AsyncExitStack() as stack:
            sessions = []
            for source in self._sources:
                connector = aiohttp.TCPConnector(limit=0, force_close=True, local_addr=(source, 0) if source else None)
                session = aiohttp.ClientSession(
                    connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
                )
                sessions.append(await stack.enter_async_context(session))
            await self._arrivals(sessions, stop)
        for journal in (self._requests, self._ledger, self._attempts):
            journal.close()

    async def _arrivals(self, sessions: Sequence[aiohttp.ClientSession], stop: asyncio.Event) -> None:
        begin = self._now() + 0.2
        schedule = Schedule(begin, self._rate, self._seed if self._journey.spread else None)
        head = {"begin": begin, "rate": self._rate, "clock": self._clock, "timeout": TIMEOUT, "spread": schedule.seed}
        self._requests.write(head)
        with contextlib.closing(Alarm()) as alarm:
            ended = asyncio.create_task(stop.wait())
            ended.add_done_callback(lambda _: alarm.wake())
            pending: set[asyncio.Task[None]] = set()
            n = 0
            while not stop.is_set() and not self._failed:
                due = schedule.due(n)
                if due > self._now():
                    await alarm.until(due - self._clock)
                    if due > self._now():
                        continue
                ask = self._journey.next(self._rng)
                task = asyncio.create_task(self._one(n, due, ask, sessions[self._source(n, ask)]))
                pending.add(task)
                task.add_done_callback(pending.discard)
                n += 1
                if n % 50 == 0:
                    await asyncio.sleep(0)  # a program that fell behind still reads answers
            ended.cancel()
        finished = self._now()
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if self._failed:
            raise self._failed
        self._requests.write({"finished": finished})

    def _source(self, n: int, ask: Ask) -> int:
        return (n if ask.user is None else ask.user) % len(self._sources)

    async def _one(self, n: int, due: float, ask: Ask, session: aiohttp.ClientSession) -> None:
        """One request of the stream, and what a program behind it asks again when it fails."""
        try:
            line = await self._request(ask, session)
            self._requests.write({"n": n, "due": due, **line})
            for attempt in range(ask.retries):
                if line["ok"] or 400 <= line["status"] < 500:
                    return
                await asyncio.sleep(self._again.uniform(0, min(RETRY_MOST, RETRY_BASE * 2.0**attempt)))
                line = await self._request(ask, session)
                self._requests.write({"again": n, "attempt": attempt + 1, **line})
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a journey's own defect, or a full disk: figures after it mean nothing
            self._failed = error

    async def _request(self, ask: Ask, session: aiohttp.ClientSession) -> Mapping[str, Any]:
        if ask.attempt is not None:
            self._attempts.write({**ask.attempt, "attempted": self._now()})
        start = self._now()
        status, error, answer = 0, "", None
        headers = {"Host": self._host, "User-Agent": "Mozilla/5.0", **ask.headers}
        try:
            async with session.request(
                ask.method, self._front + ask.path, json=ask.body, headers=headers, allow_redirects=False
            ) as response:
                status = response.status
                body = await response.read()
            end = self._now()
            with contextlib.suppress(ValueError):
                answer = json.loads(body)
            error = self._journey.judge(ask, status, answer)
        except TimeoutError:
            end, error = self._now(), "timeout"
        except aiohttp.ClientError as problem:
            end, error = self._now(), type(problem).__name__
        if not error and (entry := self._journey.promise(ask, answer)) is not None:
            self._ledger.write({**entry, "acknowledged": end})
            self._journey.remember(entry)
        self._journey.done(ask, Answer(status, answer, error))
        return {"start": start, "end": end, "kind": ask.kind, "ok": not error, "status": status, "error": error}


def settle() -> None:
    """Have this program run on time: before others where that is allowed, without pauses for old garbage.

    It needs a twentieth of a core. An instrument that waits for its turn among what it measures would
    take the machine's crowding for the shop's.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 50, 1000)


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
        journey(arguments.journey, arguments.journeys, filter(None, arguments.components.split(","))),
        sources_of(arguments.sources),
    )
    settle()
    await population.run(stop)


def main() -> int:
    parser = argparse.ArgumentParser(prog="users", description="Users of a shop, at a steady open-loop rate.")
    parser.add_argument("--front", required=True, help="address of the front door, for example http://192.0.2.10")
    parser.add_argument("--host", required=True, help="the shop's name, for the Host header")
    parser.add_argument("--rate", type=float, default=20.0, help="requests due per second")
    parser.add_argument("--out", type=Path, required=True, help="folder of the request log and the ledger")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--journeys", type=Path, required=True, help="the stack's module of journeys")
    parser.add_argument("--journey", required=True, help="one that it names")
    parser.add_argument("--components", default="", help="what the stack consists of, by commas")
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
