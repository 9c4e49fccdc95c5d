"""Who may do what in the back office."""

from pathlib import Path
from typing import Any

import pytest

for needed in ("asyncpg", "starlette", "prometheus_client", "httpcore"):
    pytest.importorskip(needed)


@pytest.fixture
def load(release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "token").write_text("open sesame\n")
    monkeypatch.setenv("ADMIN_TOKEN_FILE", str(tmp_path / "token"))
    return release("backoffice", "1.12.0")


def app_of(load: Any) -> Any:
    return load("marketlib.app").Service(load("main").ROUTES, service="backoffice", version="t")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/orders"), ("GET", "/stats"), ("PUT", "/products/7"), ("PUT", "/flags/x"), ("POST", "/orders/7/refund")],
)
async def test_nothing_without_the_token(load: Any, ask: Any, method: str, path: str) -> None:
    for headers in ({}, {"X-Admin-Token": "wrong"}, {"X-Admin-Token": ""}):
        assert (await ask(app_of(load), method, path, {"price": 1}, headers)).status == 401


async def test_a_price(load: Any, ask: Any, answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"X-Admin-Token": "open sesame"}
    for price in (0, -5, 1.5, "7", None):
        assert (await ask(app_of(load), "PUT", "/products/7", {"price": price}, good)).status == 422
    database = answers(990, None)
    monkeypatch.setattr(load("main"), "database", database)
    answer = await ask(app_of(load), "PUT", "/products/7", {"price": 1290}, good)
    assert (answer.status, answer.data) == (200, {"id": 7, "price": 1290, "before": 990})
    monkeypatch.setattr(load("main"), "database", answers(None))
    assert (await ask(app_of(load), "PUT", "/products/7000", {"price": 1290}, good)).status == 404


@pytest.mark.parametrize(("version", "most"), [("1.11.0", 500), ("1.12.0", 200)])
def test_how_many_orders_a_list_has(release: Any, version: str, most: int) -> None:
    assert most == release("backoffice", version)("release").MOST_ORDERS
