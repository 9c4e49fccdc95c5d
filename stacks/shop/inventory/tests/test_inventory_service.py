"""What inventory takes for a wish, and how its releases differ. The shelves themselves are tested with PostgreSQL."""

import uuid
from typing import Any

import pytest

for needed in ("asyncpg", "starlette", "prometheus_client"):
    pytest.importorskip(needed)

VERSIONS = ["2.1.0", "2.2.0", "2.2.1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_product_named_twice_counts_twice(release: Any, version: str) -> None:
    main = release("inventory", version)("main")
    assert version == main.VERSION
    lines = [{"product": 3, "quantity": 1}, {"product": 4, "quantity": 2}, {"product": 3, "quantity": 5}]
    assert main.wanted(lines) == {3: 6, 4: 2}


@pytest.mark.parametrize("lines", [[], None, [7], [{"product": 1}], [{"product": 1, "quantity": 0}],
                                   [{"product": True, "quantity": 1}], [{"product": 1, "quantity": 101}]])  # fmt: skip
def test_bad_wishes_are_refused(release: Any, lines: Any) -> None:
    main = release("inventory", "2.2.1")("main")
    with pytest.raises(main.HttpError) as refused:
        main.wanted(lines)
    assert refused.value.status == 422


@pytest.mark.parametrize("version", VERSIONS)
async def test_more_than_is_there_is_refused(release: Any, answers: Any, version: str) -> None:
    load = release("inventory", version)
    order = uuid.uuid4()
    shelf = [{"product": 5, "available": 2}]
    asked = answers(True, None, 2) if version == "2.1.0" else answers(True, shelf)
    with pytest.raises(load("marketlib.errors").HttpError) as refused:
        await load("release").reserve(asked, order, {5: 3})
    assert (refused.value.status, refused.value.message, refused.value.extra) == (409, "out of stock", {"product": 5})


async def test_an_order_is_held_once(release: Any, answers: Any) -> None:
    load = release("inventory", "2.2.1")
    again = answers(None, "held", [{"product": 5, "quantity": 3}])
    assert await load("release").reserve(again, uuid.uuid4(), {5: 3}) == ("held", False)
    other = answers(None, "held", [{"product": 6, "quantity": 3}])
    with pytest.raises(load("marketlib.errors").HttpError, match="other goods"):
        await load("release").reserve(other, uuid.uuid4(), {5: 3})
    late = answers(None, "released")
    with pytest.raises(load("marketlib.errors").HttpError, match="released"):
        await load("release").reserve(late, uuid.uuid4(), {5: 3})


async def test_only_the_newest_knows_several_at_once(release: Any, ask: Any, answers: Any) -> None:
    load = release("inventory", "2.2.1")
    main = load("main")
    assert next(route.path for route in main.ROUTES) == "/stock"
    assert load("release").EXTRA_ROUTES
    answer = load("release").several(answers([{"product": 2, "available": 9}]))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await (await answer(main.Request(scope, receive)))(scope, receive, send)

    assert (await ask(app, "GET", "/stock?products=2,77")).data == {"stock": {"2": 9}}
