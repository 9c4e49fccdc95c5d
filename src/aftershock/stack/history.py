"""Telemetry has a past: what was recorded before a state was saved is there after it is restored.

The stores of metrics, logs and traces keep their data outside the saved volumes. Before the state is saved
their content is read through their own APIs and laid beside it, each moment as its distance from the end.
After a restore it is written back through the same APIs with all moments counted from an end just before
the first thing that the new cluster recorded: graphs run on without a gap, no two samples of one series
interleave, and nothing tells when the state was saved. What the samples and lines *say* about the saved
objects themselves (the age of a pod, the expiry of a certificate) is left as it is, as the objects are.

Stores are reached through the API server, so it works on any cluster. Writing back takes seconds and goes
on beside serving.
"""

import asyncio
import gzip
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from aftershock.base.errors import BuildError, ClusterError
from aftershock.base.record import write_json
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import Api
from aftershock.cluster.base import Cluster
from aftershock.stack.stamps import lift, lower

__all__ = ["History", "export", "present", "restore"]

NAMESPACE = "monitoring"
METRICS, LOGS, TRACES = ("metrics", 8428), ("logs", 9428), ("traces", 16686)
OTLP_PORT = 4318
STREAM_FIELDS = "kubernetes.container_name,kubernetes.pod_name,kubernetes.pod_namespace"
# The store makes the first two anew; the others tell of containers that are gone.
NOT_KEPT = ("_stream", "_stream_id", "kubernetes.container_id", "kubernetes.pod_ip")
CHUNK = 8 << 20
TRACES_AT_MOST = 5000
# Values that are moments of what runs, and so move; those of saved objects stay.
MOVES = re.compile(
    rb'"__name__":"(?!kube_|certificate_|backup_)\w*(?:_time_seconds|_timestamp_seconds|ALERTS_FOR_STATE)"'
)
Store = tuple[str, int]


@dataclass(frozen=True)
class History:
    """What was exported: how far back it goes in seconds, and how many series, lines and traces there are."""

    seconds: float
    series: int = 0
    lines: int = 0
    traces: int = 0


class Stores:
    """The telemetry stores of a cluster, asked through its API server."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def there(self, store: Store) -> bool:
        return await self.api.get("Service", store[0], NAMESPACE) is not None

    async def ask(self, method: str, store: Store, path: str, *, body: bytes | None = None, **query: Any) -> bytes:
        """One request to a store.

        Raises:
            ClusterError: with the store's own words.
        """
        name, port = store
        url = f"/api/v1/namespaces/{NAMESPACE}/services/{name}:{port}/proxy{path}"
        answer: httpx.Response = await self.api.request(method, url, body=body, timeout=60, **query)
        if answer.is_error:
            raise ClusterError(
                f"the store of {name} refused ({answer.status_code}): {answer.text[:300]}",
                where=f"{method} {path}",
                todo=f"see `kubectl -n {NAMESPACE} get pods` and the log of {name}",
            )
        return answer.content

    async def answers(self, store: Store, path: str) -> None:
        async def probe() -> None:
            try:
                await self.ask("GET", store, path)
            except ClusterError as error:
                raise NotYet(error.what) from error

        await until(probe, what=f"the store of {store[0]} answers", seconds=30, every=0.2)


def present(folder: Path) -> bool:
    """Whether there is history in a folder."""
    return (folder / "history.json").is_file()


async def export(cluster: Cluster, folder: Path, *, seconds: float = 3600.0) -> History:
    """Write what the stores recorded within the last `seconds` into a folder.

    Raises:
        ClusterError: a store is there and does not answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end = time.time()
    async with cluster.api() as api:
        stores = Stores(api)
        counts = await asyncio.gather(
            *(_export(stores, store, read, folder, end, seconds) for store, read, _ in KINDS.values())
        )
    history = History(seconds, *counts)
    write_json(folder / "history.json", asdict(history))
    return history


async def _export(stores: Stores, store: Store, read: "Read", folder: Path, end: float, seconds: float) -> int:
    if not await stores.there(store):
        return 0
    lines = await read(stores, end, seconds)

    def write() -> int:
        with gzip.open(folder / f"{store[0]}.gz", "wb", compresslevel=1) as file:
            count = 0
            for line in lines:
                file.write(line + b"\n")
                count += 1
        return count

    return await asyncio.to_thread(write)


async def restore(cluster: Cluster, folder: Path, now: float) -> History:
    """Write a folder's history into the stores, ending at `now` or where the cluster's own records begin.

    Returns when all of it can be found.

    Raises:
        BuildError: the folder holds no history.
        ClusterError: a store refused.
    """
    try:
        history = History(**json.loads((folder / "history.json").read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise BuildError("there is no history to restore", where=str(folder), todo="save the state again") from error
    async with cluster.api() as api:
        stores = Stores(api)
        wanted = [
            (store, write) for store, _, write in KINDS.values()
            if (folder / f"{store[0]}.gz").is_file() and await stores.there(store)
        ]  # fmt: skip
        end = min([now, *await asyncio.gather(*(_begin(stores, store, now) for store, _ in wanted))])

        async def one(store: Store, write: "Write") -> None:
            packed = (folder / f"{store[0]}.gz").read_bytes()
            await write(stores, await asyncio.to_thread(gzip.decompress, packed), end)

        await asyncio.gather(*(one(store, write) for store, write in wanted))
    return history


async def _begin(stores: Stores, store: Store, now: float) -> float:
    """When a store's own records begin; `now` where it has none, or keeps none in order."""
    if store == METRICS:
        await stores.answers(store, "/health")
        said = await stores.ask(
            "GET", store, "/api/v1/query", query="min(tfirst_over_time(up[15m]))", latency_offset="1ms", nocache="1"
        )
        found = json.loads(said)["data"]["result"]
        return float(found[0]["value"][1]) - 1 if found else now
    if store == LOGS:
        await stores.answers(store, "/health")
        said = await stores.ask("GET", store, "/select/logsql/query", query="* | stats min(_time) first")
        first = json.loads(said.splitlines()[0]).get("first") if said.strip() else ""
        return _seconds(first) - 0.001 if first else now
    return now


def _seconds(stamp: str) -> float:
    """An RFC 3339 moment in UTC, in seconds since 1970."""
    whole, _, rest = stamp.rstrip("Z").partition(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(f"0.{rest or 0}")


async def _read_metrics(stores: Stores, end: float, seconds: float) -> Iterable[bytes]:
    await stores.ask("GET", METRICS, "/internal/force_flush")
    all_of_it: dict[str, Any] = {"match[]": '{__name__!=""}', "start": end - seconds, "end": end}
    data = await stores.ask("GET", METRICS, "/api/v1/export", **all_of_it)
    base = round(end * 1000)
    return (moved_series(line, -base) for line in data.splitlines())


def moved_series(line: bytes, by: int) -> bytes:
    """One series of VictoriaMetrics' JSON lines with its stamps, in milliseconds, moved.

    >>> moved_series(b'{"metric":{"__name__":"up"},"values":[1,0],"timestamps":[5000,6000]}', -6000)
    b'{"metric":{"__name__":"up"},"values":[1,0],"timestamps":[-1000,0]}'
    """
    head, _, rest = line.partition(b'"timestamps":[')
    stamps, _, tail = rest.partition(b"]")
    moved = b",".join(b"%d" % (int(stamp) + by) for stamp in stamps.split(b","))
    if MOVES.search(head):
        metric, _, values = head.partition(b'"values":[')
        values, _, _ = values.partition(b"]")
        shown = ",".join(v if v in ("null", "0") else f"{float(v) + by / 1000:.3f}" for v in values.decode().split(","))
        head = b'%b"values":[%b],' % (metric, shown.encode())
    return b'%b"timestamps":[%b]%b' % (head, moved, tail)


async def _write_metrics(stores: Stores, data: bytes, end: float) -> None:
    by = round(end * 1000)
    lines = await asyncio.to_thread(lambda: [moved_series(line, by) for line in data.splitlines()])
    for chunk in chunks(lines):
        await stores.ask("POST", METRICS, "/api/v1/import", body=chunk)
    # Answers about the past, given before it was there, are forgotten.
    await stores.ask("GET", METRICS, "/internal/force_flush")
    await stores.ask("GET", METRICS, "/internal/resetRollupResultCache")


async def _read_logs(stores: Stores, end: float, seconds: float) -> Iterable[bytes]:
    await stores.ask("GET", LOGS, "/internal/force_flush")
    data = await stores.ask("GET", LOGS, "/select/logsql/query", query="*", start=end - seconds, end=end)

    def lines() -> Iterable[bytes]:
        for line in data.splitlines():
            row = json.loads(line)
            row = {key: value for key, value in row.items() if key not in NOT_KEPT}
            row["_time"] = full(row["_time"])
            yield lift(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode(), end, seconds)

    return lines()


def full(stamp: str) -> str:
    """A moment of the log store, which leaves out zeros at the end, with all nine digits; order is kept by them.

    >>> full("2024-05-01T10:00:00.25Z"), full("2024-05-01T10:00:00Z")
    ('2024-05-01T10:00:00.250000000Z', '2024-05-01T10:00:00.000000000Z')
    """
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return f"{whole}.{fraction:0<9}Z"


async def _write_logs(stores: Stores, data: bytes, end: float) -> None:
    moved = await asyncio.to_thread(lower, data, end)
    for chunk in chunks(moved.splitlines()):
        await stores.ask(
            "POST", LOGS, "/insert/jsonline", body=chunk, _stream_fields=STREAM_FIELDS, _time_field="_time",
            _msg_field="_msg",
        )  # fmt: skip
    await stores.ask("GET", LOGS, "/internal/force_flush")


async def _read_traces(stores: Stores, end: float, seconds: float) -> Iterable[bytes]:
    """One line a service and resource, in OTLP's JSON, every span once."""
    services = json.loads(await stores.ask("GET", TRACES, "/api/v3/services")).get("services") or []
    window: dict[str, Any] = {
        "query.start_time_min": _rfc3339(end - seconds),
        "query.start_time_max": _rfc3339(end),
        "query.search_depth": TRACES_AT_MOST,
    }
    spans: dict[tuple[str, str], bytes] = {}
    for service in services:
        query = {"query.service_name": service, **window}
        said = await stores.ask("GET", TRACES, "/api/v3/traces", **query)
        for document in said.splitlines():
            for of in (json.loads(document).get("result") or {}).get("resourceSpans") or []:
                for scope in of.get("scopeSpans") or []:
                    for span in scope.get("spans") or []:
                        whole = {"resource": of.get("resource"), "scopeSpans": [{**scope, "spans": [span]}]}
                        spans[span["traceId"], span["spanId"]] = json.dumps(whole, separators=(",", ":")).encode()
    return (lift(span, end, seconds) for _, span in sorted(spans.items()))


async def _write_traces(stores: Stores, data: bytes, end: float) -> None:
    lines = (await asyncio.to_thread(lower, data, end)).splitlines()
    for chunk in chunks(lines, size=1 << 20):
        body = b'{"resourceSpans":[' + b",".join(chunk.splitlines()) + b"]}"
        await stores.ask("POST", (TRACES[0], OTLP_PORT), "/v1/traces", body=body)


def _rfc3339(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def chunks(lines: Iterable[bytes], size: int = CHUNK) -> Iterable[bytes]:
    """Lines in bodies of about that many bytes.

    >>> list(chunks([b"aa", b"bb", b"cc"], size=5))
    [b'aa\\nbb\\n', b'cc\\n']
    """
    held: list[bytes] = []
    total = 0
    for line in lines:
        held.append(line + b"\n")
        total += len(line) + 1
        if total >= size:
            yield b"".join(held)
            held, total = [], 0
    if held:
        yield b"".join(held)


Read = Callable[[Stores, float, float], Awaitable[Iterable[bytes]]]
Write = Callable[[Stores, bytes, float], Awaitable[None]]
KINDS: dict[str, tuple[Store, Read, Write]] = {
    "metrics": (METRICS, _read_metrics, _write_metrics),
    "logs": (LOGS, _read_logs, _write_logs),
    "traces": (TRACES, _read_traces, _write_traces),
}
