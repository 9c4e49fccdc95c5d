"""Measures what the README claims, on this machine, now. Run it with `make bench`.

Each figure is the median of several runs, with the least and the most beside it; the goal is that of
the design. Nothing here asserts: a slow or busy machine gives large figures, not failures. Times are
also given as multiples of a fixed piece of work (hashing 256 MB), so that machines can be compared.
"""

import argparse
import asyncio
import hashlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aftershock.base.wait import NotYet, until
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import cgroups, lifecycle, snapshot
from aftershock.stack import load as stacks
from aftershock.stack.deploy import front_answers
from aftershock.stack.provide import saved

PROGRAM = str(Path(sys.executable).with_name("aftershock"))
Row = tuple[str, list[float], str, str]


def yardstick() -> float:
    """Seconds for hashing 256 MB: how fast one core of this machine is at the moment."""
    data = b"x" * (1 << 20)
    begin = time.perf_counter()
    total = hashlib.sha256()
    for _ in range(256):
        total.update(data)
    return time.perf_counter() - begin


def name() -> str:
    return f"bench-{secrets.token_hex(3)}"


async def repeat(runs: int, work: Callable[[], Awaitable[list[float]]]) -> list[list[float]]:
    return [await work() for _ in range(runs)]


async def new_cluster() -> list[float]:
    """Seconds until three nodes are ready, until DNS answers too, and of `down`."""
    box = await boxes.up(name(), nodes=3, ephemeral=True)
    ended = await boxes.down(box.name)
    return [box.seconds, box.usable_seconds, ended]


async def kept_cluster(box: boxes.Box) -> list[float]:
    await boxes.down(box.name, keep=True)
    again = await boxes.up(box.name)
    return [again.seconds]


async def restored_stack(state: Any, stack: Any) -> list[float]:
    begin = time.monotonic()
    box = await snapshot.restore(state, name(), ephemeral=True, images=stack.images())
    try:
        await front_answers(box, stack)
        return [time.monotonic() - begin]
    finally:
        await box.close()


async def idle(box: boxes.Box, seconds: float = 20) -> tuple[float, float]:
    """Cores and mebibytes that a box uses when nothing happens."""

    def used() -> float:
        return cgroups.cpu_seconds(box.layout)

    first, begin = used(), time.monotonic()

    async def passed() -> None:
        if time.monotonic() - begin < seconds:
            raise NotYet("measuring")

    await until(passed, what="the idle box has been watched", seconds=seconds + 5, every=0.5)
    return (used() - first) / (time.monotonic() - begin), cgroups.memory_used(box.layout) / (1 << 20)


def command(*argv: str) -> float:
    begin = time.perf_counter()
    subprocess.run(argv, capture_output=True, check=True)
    return time.perf_counter() - begin


async def measure(runs: int) -> list[Row]:
    rows: list[Row] = []
    rows.append(("aftershock --help", [command(PROGRAM, "--help") for _ in range(5)], "s", "0.3"))
    imports = [command(sys.executable, "-c", "import aftershock") - command(sys.executable, "-c", "") for _ in range(5)]
    rows.append(("import aftershock (beyond an empty Python)", [max(0.0, i) for i in imports], "s", "0.1"))
    new = await repeat(runs, new_cluster)
    rows.append(("3 nodes new: all ready", [r[0] for r in new], "s", "4"))
    rows.append(("3 nodes new: DNS answers too", [r[1] for r in new], "s", ""))
    rows.append(("down", [r[2] for r in new], "s", "1"))
    box = await boxes.up(name(), nodes=3, ephemeral=True)
    try:
        kept = await repeat(runs, lambda: kept_cluster(box))
        rows.append(("3 nodes from kept state: all ready", [r[0] for r in kept], "s", "3.5"))
        cores, mebibytes = await idle(boxes.open_box(box.name))
        rows.append(("idle box of 3 nodes", [cores], "core", "0.25"))
        rows.append(("idle box of 3 nodes", [mebibytes], "MiB", "800"))
    finally:
        await boxes.down(box.name)
    stack = stacks.load("orders")
    state = await saved(stack)
    restores = await repeat(runs, lambda: restored_stack(state, stack))
    rows.append(("restore of the stack `orders`, users served", [r[0] for r in restores], "s", "12"))
    begin = time.monotonic()
    four = await asyncio.gather(*(boxes.up(name(), nodes=1, ephemeral=True) for _ in range(4)))
    rows.append(("four boxes of 1 node at once, all usable", [time.monotonic() - begin], "s", ""))
    for made in four:
        await boxes.down(made.name)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lifecycle.require_host()
    unit = yardstick()
    load = os.getloadavg()[0]
    rows = asyncio.run(measure(options.runs))
    if options.json:
        print(json.dumps({"yardstick": unit, "load": load, "rows": rows}))
        return
    print(f"load at the start {load:.1f}; yardstick {unit:.2f} s (hashing 256 MB on one core)\n")
    print(f"{'figure':46} {'median':>8} {'least':>8} {'most':>8}  {'unit':5} {'goal':>6} {'yardsticks':>11}")
    for what, values, kind, goal in rows:
        median = statistics.median(values)
        ratio = f"{median / unit:.1f}" if kind == "s" else ""
        print(f"{what:46} {median:8.2f} {min(values):8.2f} {max(values):8.2f}  {kind:5} {goal:>6} {ratio:>11}")


if __name__ == "__main__":
    main()
