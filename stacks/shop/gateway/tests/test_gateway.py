"""The access log's metrics and spans, and routes that fit their names."""

import asyncio
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("prometheus_client")

from marketlib import metrics, tracing

FOLDER = Path(__file__).parents[1]
LINE = {
    "trace_id": "0123456789abcdef" * 2,
    "sampled": "00",
    "method": "GET",
    "path": "/api/home",
    "route": "/home",
    "status": 200,
    "seconds": 0.012,
    "upstream_status": "200",
    "client": "198.51.100.7",
}


@pytest.fixture
def log(release: Any) -> Any:
    return release("gateway", "1.22.1-6")("access_log")


def syslog(**change: Any) -> str:
    return "<190>Nov 30 20:34:40 gateway: " + json.dumps({**LINE, **change})


def counted(route: str, status: str) -> float:
    found: float = metrics.requests.labels("gateway", route, "GET", status)._value.get()
    return found


def test_a_line_is_a_request(log: Any) -> None:
    before = counted("/home", "200")
    log.take(syslog())
    assert counted("/home", "200") == before + 1


@pytest.mark.parametrize(
    ("status", "upstream", "failed"),
    [(502, "-", 1), (504, "504", 1), (502, "502", 1), (503, "503", 0), (200, "200", 0)],
)
def test_a_service_that_did_not_answer_is_counted_apart(log: Any, status: int, upstream: str, failed: int) -> None:
    log.take(syslog(status=status, upstream_status=upstream))
    found = sum(sample.value for sample in log.upstream_failures.collect()[0].samples if sample.name.endswith("_total"))
    assert found == failed


@pytest.mark.parametrize("line", ["", "no json", "{", '{"route": "/home"}', syslog(seconds="soon")])
def test_a_line_that_is_none_is_counted_and_harms_nothing(log: Any, line: str) -> None:
    log.take(line)
    assert log.unread._value.get() == 1


def test_a_traced_request_has_the_span_that_services_name_as_their_parent(
    log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[tracing.Span] = []
    monkeypatch.setattr(tracing.exporter, "add", spans.append)
    log.take(syslog())
    assert not spans
    log.take(syslog(sampled="01", status=503))
    assert (spans[0].trace_id, spans[0].span_id) == (LINE["trace_id"], "0123456789abcdef")
    assert spans[0].end - spans[0].begin == 12_000_000
    assert spans[0].error == "HTTP 503"


async def test_lines_come_through_the_socket(log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCESS_SOCKET", str(tmp_path / "access.sock"))
    before = counted("/cart", "200")
    async with log.lifespan(None):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(syslog(route="/cart").encode(), str(tmp_path / "access.sock"))
        async with asyncio.timeout(5):
            while counted("/cart", "200") == before:
                await asyncio.sleep(0)
    assert not (tmp_path / "access.sock").exists()


def test_the_status_page(log: Any) -> None:
    text = "Active connections: 3 \nserver accepts handled requests\n 7 7 9 \nReading: 0 Writing: 1 Waiting: 2 \n"
    assert log.states(text) == {"active": 3, "reading": 0, "writing": 1, "waiting": 2}


@pytest.mark.parametrize(
    ("asked", "route"),
    [
        ("market.example/api/home", "/home"),
        ("market.example/api/home?x=1", "/home"),
        ("market.example/api/product/7", "/product/{id}"),
        ("market.example/api/products?page=2", "/products"),
        ("market.example/api/products/7", "/products/{id}"),
        ("market.example/api/orders", "/orders"),
        ("market.example/api/orders?limit=5", "/orders"),
        ("market.example/api/orders/5a6f/return", "/orders/{id}/return"),
        ("market.example/api/orders/5a6f", "/orders/{id}"),
        ("market.example/api/cart", "/cart"),
        ("market.example/api/cart/9", "/cart/{id}"),
        ("admin.market.example/orders", "admin"),
        ("market.example/robots.txt", "other"),
    ],
)
def test_names_of_routes(asked: str, route: str) -> None:
    assert name_of(asked) == route


def config() -> str:
    documents = yaml.safe_load_all((FOLDER / "manifest.yaml").read_text())
    return str(next(one for one in documents if one["kind"] == "ConfigMap")["data"]["nginx.conf"])


def name_of(asked: str) -> str:
    """As nginx reads the map: the first pattern that fits."""
    block = re.search(r"map \$host\$request_uri \$route \{(.*?)\n\s*\}\n", config(), re.S)
    assert block
    for pattern, name in re.findall(r'"~(.*?)"\s+"(.*?)";', block[1]):
        if re.search(pattern, asked):
            return str(name)
    return "other"


def test_every_location_has_a_name_of_its_own() -> None:
    paths = re.findall(r"location (?:= |\^~ )(/api/\S+) \{", config())
    assert len(paths) == 17
    names = {path: name_of(f"market.example{path}{'7' if path.endswith('/') else ''}") for path in paths}
    others = [path for path, name in names.items() if name == "other" and path != "/api/seller/"]
    assert others == []
    assert len(set(names.values())) == len(paths)
