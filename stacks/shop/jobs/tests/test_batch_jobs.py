"""The jobs' rules; they run against PostgreSQL in orders/tests."""

from typing import Any

import pytest

for needed in ("asyncpg", "starlette", "prometheus_client", "httpcore"):
    pytest.importorskip(needed)


@pytest.mark.parametrize("version", ["1.5.0", "1.6.0"])
def test_each_rule_and_check_exists(release: Any, version: str) -> None:
    load = release("jobs", version)
    assert set(load("release").KEEP) <= set(load("cleanup").RULES)
    assert set(load("release").CHECKS) <= set(load("settlement").QUERIES)
    assert ("goods held for nothing" in load("release").CHECKS) == (version == "1.6.0")


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["settlement", "cleanup"]])
def test_an_unknown_job(release: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert release("jobs", "1.6.0")("main").main(arguments) == 2
    assert "settlement | cleanup | sales-report" in capsys.readouterr().err


async def test_cleanup_goes_piece_by_piece(release: Any, answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import contextlib

    load = release("jobs", "1.6.0")
    database = answers("DELETE 1000", "DELETE 3", *["DELETE 0"] * 5)

    @contextlib.asynccontextmanager
    async def connected(*_: Any) -> Any:
        yield database

    monkeypatch.setattr(load("reach"), "database", connected)
    removed = (await load("cleanup").run(None))["removed"]
    assert removed["orders.idempotency"] == 1003
    assert sum(removed.values()) == 1003
