"""Search: what each release finds, and how the index is made."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib.app import Service
from marketlib.client import Answer
from marketlib.errors import Unavailable

FOLDER = Path(__file__).parents[1]
PRODUCTS = [
    {"id": number, "name": name, "price": 100, "description": "bowl"}
    for number, name in enumerate(
        ["Copper bowl", "Round clay bowl", "Copper lamp", "Lampshade", "Bowls & more"], start=1
    )
]


@pytest.mark.parametrize(
    ("version", "query", "found"),
    [
        ("0.9.2", "copper bowl", [1, 2, 3]),
        ("1.0.0", "copper bowl", [1]),
        ("1.1.0", "copper bowl", [1]),
        ("1.0.0", "BOWL", [1, 2]),
        ("1.1.0", "bowl", [1, 2, 5]),
        ("1.0.0", "lam", []),
        ("1.1.0", "lam", [3, 4]),
        ("1.1.0", "lamp", [3, 4]),
        ("1.1.0", "copper b", [1]),
        ("0.9.2", "", []),
        ("1.0.0", "  ", []),
        ("1.1.0", "&", []),
        ("1.1.0", "zebra", []),
    ],
)
def test_what_is_found(release: Any, version: str, query: str, found: list[int]) -> None:
    load = release("search", version)
    module = load("release")
    assert module.find(load("words").Index(PRODUCTS), query) == found
    assert version == module.VERSION
    assert f"## {version}\n" in (FOLDER / "RELEASES.md").read_text()


class Catalog:
    def __init__(self) -> None:
        self.away = False

    async def get(self, path: str) -> Answer:
        if self.away:
            raise Unavailable("catalog", "gone")
        after = int(path.split("after=")[1].split("&")[0])
        items = [item for item in PRODUCTS if item["id"] > after][:2]
        return Answer(200, {"items": items, "next": items[-1]["id"] if len(items) == 2 else None}, {})


async def test_the_index_is_made_of_all_pages_and_stays_when_it_cannot_be_made(release: Any, ask: Any) -> None:
    main = release("search", "1.1.0")("main")
    main.catalog = Catalog()
    app = Service(main.ROUTES, service="search", version=main.VERSION, ready=main.ready)
    assert (await ask(app, "GET", "/readyz")).status == 503
    await main.reload()
    assert (await ask(app, "GET", "/readyz")).status == 200
    main.catalog.away = True
    with pytest.raises(Unavailable):
        await main.reload()
    got = await ask(app, "GET", "/search?q=bowl&limit=1")
    assert got.data == {"items": [{"id": 1, "name": "Copper bowl", "price": 100}], "total": 3}


@pytest.mark.parametrize("query", ["q=a&limit=0", "q=a&limit=51", "q=a&limit=x", "q=" + "a" * 201])
async def test_bad_requests(release: Any, ask: Any, query: str) -> None:
    main = release("search", "1.1.0")("main")
    app = Service(main.ROUTES, service="search", version=main.VERSION)
    assert (await ask(app, "GET", f"/search?{query}")).status == 422
