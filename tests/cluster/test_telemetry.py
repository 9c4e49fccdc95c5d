"""The telemetry of the shop on a real box: what is recorded, who is paged, and how the past moves in time."""

import asyncio
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from aftershock.base.paths import source_root
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import snapshot
from aftershock.cluster.box.box import Box
from aftershock.cluster.image.spec import ImageSpec
from aftershock.stack import content, history
from aftershock.stack.history import LOGS, METRICS, TRACES, Stores

SHOP = source_root() / "stacks/shop"
FOLDERS = ("metrics", "cluster-state", "rules", "alertmanager", "logs", "log-agent", "traces", "dashboards")
WORKLOADS = ("Deployment", "DaemonSet")
PAGER = """
import http.server, sys
class Pager(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        sys.stdout.write(self.rfile.read(int(self.headers["Content-Length"])).decode() + "\\n")
        sys.stdout.flush()
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): ...
http.server.HTTPServer(("203.0.113.13", 80), Pager).serve_forever()
"""
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "short-lived", "namespace": "monitoring"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "registry.internal/platform/dashboards:2.1.0",
                "command": ["sh", "-c", """echo '{"level":"error","msg":"needle-7731"}'; sleep 600"""],
            }
        ],
    },
}


def specs() -> list[ImageSpec]:
    return [spec for folder in FOLDERS for spec in content.images(SHOP, SHOP / folder)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def box() -> AsyncIterator[Box]:
    made = await boxes.up(f"test-{secrets.token_hex(3)}", nodes=2, images=specs(), ephemeral=True)
    async with boxes.closing(made), made.api() as api:
        objects = [obj for folder in FOLDERS for obj in content.manifest(SHOP / folder / "manifest.yaml")]
        await api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}})
        await api.apply_all(objects)
        for obj in objects:
            if obj["kind"] in WORKLOADS:
                await api.rolled_out(obj["kind"], obj["metadata"]["name"], "monitoring", seconds=120)
        yield made


async def query(stores: Stores, text: str) -> dict[str, float]:
    """Values of an instant query, by all their labels."""
    found = json.loads(await stores.ask("GET", METRICS, "/api/v1/query", query=text))["data"]["result"]
    return {",".join(sorted(row["metric"].values())): float(row["value"][1]) for row in found}


async def lines(stores: Stores, text: str) -> list[dict[str, str]]:
    return [json.loads(x) for x in (await stores.ask("GET", LOGS, "/select/logsql/query", query=text)).splitlines()]


async def test_pods_nodes_and_objects_are_seen(box: Box) -> None:
    async with box.api() as api:
        stores = Stores(api)

        async def probe() -> None:
            for text, wanted in {
                'count(up{job="pods"} == 1)': 8.0,  # with two log agents; the dashboards have no metrics
                'count(up{job="containers"} == 1)': 2.0,
                'count(kube_node_status_condition{condition="Ready",status="true"} == 1)': 2.0,
                'count(kube_deployment_status_replicas_available{namespace="monitoring"} == 1)': 7.0,
                'count(sum by (pod) (container_memory_working_set_bytes{namespace="monitoring",container!=""}))': 9.0,
            }.items():
                if await query(stores, text) != {"": wanted}:
                    raise NotYet(f"{text} is {await query(stores, text)}")

        await until(probe, what="everything is scraped", seconds=90, every=2)
        assert await query(stores, "count(up == 0)") == {}


async def test_lines_of_a_pod_that_is_gone_are_found(box: Box) -> None:
    async with box.api() as api:
        stores = Stores(api)

        async def probe() -> dict[str, str]:
            if not (found := await lines(stores, "needle-7731")):
                raise NotYet("not there")
            return found[0]

        await api.create(POD)
        line = await until(probe, what="the line is found", seconds=60, every=0.5)
        await api.delete("Pod", "short-lived", "monitoring", grace=0)
        await api.wait_for("Pod", "short-lived", "monitoring", lambda obj: "still there" if obj else "", seconds=30)
        assert await probe() == line
        assert (line["_msg"], line["level"], line["kubernetes.pod_name"]) == ("needle-7731", "error", "short-lived")


async def test_a_burning_budget_pages_the_on_call_outside(box: Box) -> None:
    assert box.world
    pager = await asyncio.create_subprocess_exec(
        *box.world.argv([sys.executable, "-c", PAGER]), stdout=asyncio.subprocess.PIPE
    )
    assert pager.stdout
    common = {"__name__": "http_requests_total", "service": "gateway", "route": "/checkout", "journey": "checkout"}
    begin = time.time()
    page = asyncio.create_task(pager.stdout.readline())
    try:
        async with box.api() as api:
            stores = Stores(api)
            async with asyncio.timeout(150):
                while not page.done():
                    now = time.time()
                    rows = [
                        json.dumps({
                            "metric": {**common, "status": status}, "values": [rate * (now - begin)],
                            "timestamps": [int(now * 1000)],
                        }) for status, rate in (("201", 1.8), ("503", 0.2))
                    ]  # fmt: skip
                    await stores.ask("POST", METRICS, "/api/v1/import", body="\n".join(rows).encode())
                    await asyncio.wait([page], timeout=5)
        said = json.loads(await page)
    finally:
        page.cancel()
        pager.kill()
        await pager.wait()
    assert (said["receiver"], said["status"]) == ("on-call", "firing")
    assert said["commonLabels"]["alertname"] == "ErrorBudgetBurnFast"
    assert said["commonLabels"]["journey"] == "checkout"
    assert (SHOP / "docs" / said["commonAnnotations"]["runbook"]).is_file()


async def test_the_past_moves_with_a_restored_state(box: Box, tmp_path: Path) -> None:
    """Runs last: it ends the box."""
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    at = time.time() - 120
    written = {
        "traceId": trace, "spanId": span, "name": "GET /home", "kind": 2,
        "startTimeUnixNano": f"{int(at * 1e9)}", "endTimeUnixNano": f"{int(at * 1e9) + 7_000_000}",
    }  # fmt: skip
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "gateway"}}]}
    spans = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [written]}]}]}
    async with box.api() as api:
        stores = Stores(api)
        await stores.ask("POST", (TRACES[0], history.OTLP_PORT), "/v1/traces", body=json.dumps(spans).encode())
        needle = (await lines(stores, "needle-7731"))[0]
    exported = await history.export(box, tmp_path)
    end = time.time()
    assert exported.series > 300
    assert exported.lines > 30
    assert exported.traces == 1
    name = f"{box.name}-state"
    saved = await snapshot.save(box, name, again=False)
    try:
        again = await snapshot.restore(saved, f"{box.name}-b", ephemeral=True, images=specs())
        async with boxes.closing(again), again.api() as api:
            begin = time.monotonic()
            await history.restore(again, tmp_path, time.time())
            assert time.monotonic() - begin < 10
            stores = Stores(api)
            moved = (await lines(stores, "needle-7731"))[0]
            shift = history._seconds(moved["_time"]) - history._seconds(needle["_time"])
            assert shift > 5  # at least what saving and restoring took
            assert abs(time.time() - (end + shift)) < 60
            assert moved["kubernetes.pod_name"] == needle["kubernetes.pod_name"]
            # Nothing recorded lies before the moved past, and samples go on without a gap.
            up = await query(stores, 'count_over_time(up{app="metrics"}[10m]) * 10 > 60')
            assert up
            found = json.loads(await stores.ask("GET", TRACES, f"/api/traces/{trace}"))["data"][0]["spans"][0]
            assert abs(found["startTime"] / 1e6 - (at + shift)) < 0.01
            assert found["duration"] == 7000
    finally:
        snapshot.remove(name)
