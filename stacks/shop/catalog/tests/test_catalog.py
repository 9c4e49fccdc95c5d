"""The catalogue: what its releases answer, and what it shows while the database is away."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib.cache import Cache
from marketlib.errors import Unavailable
from marketlib.settings import Settings

FOLDER = Path(__file__).parents[1]
VERSIONS = ("1.8.2", "1.9.0", "1.10.0")
ITEM = {"id": 7, "name": "Plain oak lamp", "price": 1200, "category": "lamps", "seller": 3}


class Kept:
    """memcached, as far as the cache uses it; `lifetimes` are the seconds that were asked for."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.lifetimes: dict[str, float] = {}

    async def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    async def set(self, key: str, data: bytes, seconds: float) -> None:
        self.values[key] = data
        self.lifetimes[key] = seconds


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def products(release: Any, version: str, database: Any, kept: Kept, **settings: str) -> Any:
    module = release("catalog", version)("release")
    return module.Products(database, Cache(kept, "catalog"), Settings.load(env=settings))  # type: ignore[arg-type]


def test_releases_say_which_they_are(release: Any, version: str) -> None:
    assert version == release("catalog", version)("release").VERSION
    assert f"## {version}\n" in (FOLDER / "RELEASES.md").read_text()


async def test_a_product_is_read_once_and_then_from_the_cache(release: Any, version: str, answers: Any) -> None:
    database, kept = answers({**ITEM, "description": "d"}), Kept()
    shop = products(release, version, database, kept)
    assert await shop.one(7) == {**ITEM, "description": "d"}
    assert await shop.one(7) == {**ITEM, "description": "d"}
    assert len(database.asked) == 1


@pytest.mark.parametrize(("version", "size"), [("1.8.2", 20), ("1.9.0", 24), ("1.10.0", 24)])
async def test_pages(release: Any, version: str, size: int, answers: Any) -> None:
    database = answers([ITEM], 50)
    page = await products(release, version, database, Kept()).page("lamps", 2)
    assert page == {"items": [ITEM], "page": 2, "pages": 3}
    assert database.asked[0][1:] == ("lamps", size, size)


@pytest.mark.parametrize(("version", "queries"), [("1.8.2", 2), ("1.9.0", 2), ("1.10.0", 1)])
async def test_only_the_newest_remembers_what_does_not_exist(
    release: Any, version: str, queries: int, answers: Any
) -> None:
    database = answers(None, None)
    shop = products(release, version, database, Kept())
    assert [await shop.one(9999), await shop.one(9999)] == [None, None]
    assert len(database.asked) == queries


async def test_an_old_copy_is_shown_while_the_database_is_away(release: Any, answers: Any) -> None:
    away = Unavailable("database", "gone")
    database, kept = answers({**ITEM, "description": "d"}, away, away), Kept()
    shop = products(release, "1.10.0", database, kept, CACHE_TTL="30s", CACHE_KEEP="1h")
    await shop.one(7)
    assert 3200 < kept.lifetimes["product:7"] < 4000
    entry = json.loads(kept.values["product:7"])
    kept.values["product:7"] = json.dumps({**entry, "until": 0}).encode()
    assert (await shop.one(7))["name"] == "Plain oak lamp"
    with pytest.raises(Unavailable):
        await shop.one(8)


async def test_several_keep_the_order_they_were_asked_in(release: Any, ask: Any, answers: Any) -> None:
    main = release("catalog", "1.10.0")("main")
    rows = [{**ITEM, "id": 2}, {**ITEM, "id": 9}]
    main.products._database = answers(rows)
    main.products._cache._memcached = Kept()
    app = main_app(main)
    got = await ask(app, "GET", "/products?ids=9,5,2")
    assert [item["id"] for item in got.data["items"]] == [9, 2]


def main_app(main: Any) -> Any:
    from marketlib.app import Service

    return Service(main.ROUTES, service="catalog", version=main.VERSION)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/products/abc", 404),
        ("/products/99999999999", 404),
        ("/products?page=x", 422),
        ("/products?category=Lamps%20", 422),
        ("/products?ids=1,x", 422),
        ("/products?ids=" + ",".join(["1"] * 51), 422),
        ("/export?limit=5000", 422),
    ],
)
async def test_bad_requests_are_told_so(release: Any, ask: Any, path: str, status: int) -> None:
    got = await ask(main_app(release("catalog", "1.10.0")("main")), "GET", path)
    assert got.status == status
    assert got.data["error"]


async def test_the_export_goes_on_until_a_page_is_not_full(release: Any, ask: Any, answers: Any) -> None:
    main = release("catalog", "1.10.0")("main")
    main.database = answers([{"id": 1}, {"id": 2}], [{"id": 3}])
    app = main_app(main)
    assert (await ask(app, "GET", "/export?limit=2")).data["next"] == 2
    assert (await ask(app, "GET", "/export?after=2&limit=2")).data["next"] is None
