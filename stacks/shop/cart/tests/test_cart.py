"""The cart: its lines, its lifetime, who may see it."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib import tokens
from marketlib.app import Service

FOLDER = Path(__file__).parents[1]
VERSIONS = ("1.3.0", "1.4.0", "1.4.1")
WEEK = 7 * 24 * 3600


class Hashes:
    """Hashes of Redis, with what was said about their lifetime."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}
        self.ttl: dict[str, int] = {}
        self.calls: list[str] = []

    async def call(self, command: str, key: str = "", *rest: Any) -> Any:
        self.calls.append(command)
        lines = self.kept.setdefault(key, {})
        match command:
            case "HSET":
                lines[str(rest[0])] = str(rest[1])
            case "HDEL":
                lines.pop(str(rest[0]), None)
            case "HGETALL":
                return dict(lines)
            case "HLEN":
                return len(lines)
            case "HEXISTS":
                return str(rest[0]) in lines
            case "EXPIRE":
                self.ttl[key] = rest[0]
            case "DEL":
                self.kept.pop(key)
        return 1

    async def pipeline(self, *calls: tuple[Any, ...]) -> list[Any]:
        return [await self.call(*call) for call in calls]


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "k1").write_text("key")
    keys = tokens.Keys(tmp_path)
    monkeypatch.setattr(tokens, "keys", keys)
    return lambda customer: {"authorization": f"Bearer {keys.sign({'customer': customer}, 60)}"}


def app_of(release: Any, version: str) -> tuple[Any, Hashes]:
    main = release("cart", version)("main")
    main.store = Hashes()
    return Service(main.ROUTES, service="cart", version=version), main.store


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_cart_of_ones_own(release: Any, version: str, ask: Any, signed: Any) -> None:
    app, store = app_of(release, version)
    await ask(app, "PUT", "/cart/9", {"quantity": 2}, signed(7))
    got = await ask(app, "PUT", "/cart/3", {"quantity": 1}, signed(7))
    assert got.data == {"lines": [{"product": 3, "quantity": 1}, {"product": 9, "quantity": 2}]}
    assert store.ttl["cart:7"] == WEEK
    await ask(app, "PUT", "/cart/3", {"quantity": 0}, signed(7))
    assert (await ask(app, "GET", "/cart", None, signed(7))).data == {"lines": [{"product": 9, "quantity": 2}]}
    assert (await ask(app, "GET", "/cart", None, signed(8))).data == {"lines": []}
    assert (await ask(app, "DELETE", "/cart", None, signed(7))).data == {"lines": []}
    assert (await ask(app, "GET", "/cart", None, signed(7))).data == {"lines": []}


async def test_nobody_without_a_token(release: Any, version: str, ask: Any, signed: Any) -> None:
    app, store = app_of(release, version)
    for headers in ({}, {"authorization": "Bearer x.y.z"}, {"authorization": "Basic abc"}):
        assert (await ask(app, "PUT", "/cart/9", {"quantity": 2}, headers)).status == 401
    assert store.calls == []


@pytest.mark.parametrize("quantity", [-1, 100, True, "2", None, 1.5])
async def test_bad_quantities(release: Any, ask: Any, signed: Any, quantity: Any) -> None:
    app, _ = app_of(release, "1.4.1")
    assert (await ask(app, "PUT", "/cart/9", {"quantity": quantity}, signed(7))).status == 422


async def test_only_the_newest_bounds_a_cart(release: Any, version: str, ask: Any, signed: Any) -> None:
    app, store = app_of(release, version)
    store.kept["cart:7"] = {str(i): "1" for i in range(1, 51)}
    got = await ask(app, "PUT", "/cart/51", {"quantity": 1}, signed(7))
    assert got.status == (422 if version == "1.4.1" else 200)
    assert (await ask(app, "PUT", "/cart/50", {"quantity": 3}, signed(7))).status == 200


def test_releases_say_which_they_are(release: Any, version: str) -> None:
    assert version == release("cart", version)("release").VERSION
    assert f"## {version}\n" in (FOLDER / "RELEASES.md").read_text()
