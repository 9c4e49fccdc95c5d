"""The pages: what they are made of, and what they look like when a service is away."""

import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib.app import Service
from marketlib.client import Answer
from marketlib.errors import Unavailable

FOLDER = Path(__file__).parents[1]
VERSIONS = ("3.4.1", "3.5.0", "3.6.0")
LAMP = {"id": 7, "name": "Plain oak lamp", "price": 1200, "category": "lamps", "seller": 3, "description": "d"}


class Other:
    """A service that answers by path (the longest beginning that fits); None is away."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {key.replace("_", "/"): value for key, value in answers.items()}
        self.asked: list[str] = []

    async def get(self, path: str, **_: Any) -> Answer:
        self.asked.append(path)
        for begin in sorted(self.answers, key=len, reverse=True):
            if path.startswith(begin):
                if self.answers[begin] is None:
                    break
                status, data = self.answers[begin]
                return Answer(status, data, {})
        raise Unavailable("other", "gone")

    async def close(self) -> None: ...


def app_of(release: Any, version: str, **others: Other) -> Any:
    main = release("storefront", version)("main")
    for name, other in others.items():
        setattr(main.neighbours, name, other)
    return Service(main.ROUTES, service="storefront", version=version)


def catalog() -> Other:
    listed = {key: LAMP[key] for key in ("id", "name", "price", "category", "seller")}
    return Other(
        _products_=(200, LAMP),
        _products=(200, {"items": [listed]}),
        _categories=(200, {"categories": [{"slug": "lamps"}]}),
    )


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_releases_say_which_they_are(release: Any, version: str) -> None:
    assert version == release("storefront", version)("release").VERSION
    assert f"## {version}\n" in (FOLDER / "RELEASES.md").read_text()


async def test_home(release: Any, version: str, ask: Any) -> None:
    others = {"catalog": catalog(), "inventory": Other(), "search": Other()}
    got = await ask(app_of(release, version, **others), "GET", "/home")
    assert got.status == 200
    assert got.data["featured"][0]["name"] == "Plain oak lamp"
    assert "description" not in got.data["featured"][0]
    assert got.data["categories"] == [{"slug": "lamps"}]
    assert got.data["banner"] == ""
    assert len(others["catalog"].asked) == (7 if version == "3.4.1" else 2)


async def test_a_product_page(release: Any, version: str, ask: Any) -> None:
    others = {
        "catalog": catalog(),
        "inventory": Other(_stock=(200, {"product": 7, "available": 12})),
        "search": Other(_search=(200, {"items": [{"id": 7}, {"id": 8}], "total": 2})),
    }
    got = await ask(app_of(release, version, **others), "GET", "/product/7")
    assert got.data == {"product": LAMP, "stock": 12, "related": [{"id": 8}]}
    assert others["search"].asked == ["/search?q=lamp&limit=5"]


async def test_a_product_page_without_inventory_and_search(release: Any, version: str, ask: Any) -> None:
    got = await ask(app_of(release, version, catalog=catalog(), inventory=Other(), search=Other()), "GET", "/product/7")
    assert (got.status, got.data) == (200, {"product": LAMP, "stock": None, "related": []})


async def test_no_product_page_without_its_product(release: Any, version: str, ask: Any) -> None:
    away = app_of(release, version, catalog=Other(), inventory=Other(), search=Other())
    assert (await ask(away, "GET", "/product/7")).status == 503
    absent = app_of(release, version, catalog=Other(_products=(404, {})), inventory=Other(), search=Other())
    assert (await ask(absent, "GET", "/product/7")).status == 404
    assert (await ask(absent, "GET", "/product/x")).status == 404


async def test_the_newest_shows_the_last_home_page_while_the_catalogue_is_away(
    release: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"catalog": catalog(), "inventory": Other(), "search": Other()}
    monkeypatch.setenv("HOME_TTL", "0")
    app = app_of(release, "3.6.0", **others)
    first = (await ask(app, "GET", "/home")).data
    others["catalog"].answers = {}
    assert (await ask(app, "GET", "/home")).data == first
    monkeypatch.setenv("HOME_KEEP", "0")
    assert (await ask(app, "GET", "/home")).status == 503


def test_featured_products_change_each_day_and_exist(release: Any) -> None:
    ids = release("storefront", "3.6.0")("pages").featured_ids
    day = datetime.date(2026, 11, 30)
    today, tomorrow = ids(day, 8), ids(day + datetime.timedelta(days=1), 8)
    assert len(set(today)) == 8
    assert not set(today) & set(tomorrow)
    assert all(1 <= number <= 2000 for number in today + tomorrow)
