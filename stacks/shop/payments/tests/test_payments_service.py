"""What payments makes of the provider's answers. The books are tested with PostgreSQL in orders/tests."""

import uuid
from typing import Any

import pytest

for needed in ("asyncpg", "starlette", "prometheus_client", "httpcore"):
    pytest.importorskip(needed)

VERSIONS = ["4.0.2", "4.1.0", "4.1.1"]


class Provider:
    """Answers as it was told to."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def post(self, path: str, data: Any, **options: Any) -> Any:
        self.asked.append(("POST", options["headers"]["Idempotency-Key"]))
        return self._next()

    async def get(self, path: str, **options: Any) -> Any:
        self.asked.append(("GET", path))
        return self._next()

    def _next(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def charge_of(load: Any, **more: Any) -> Any:
    fields = {"order": uuid.uuid4(), "id": uuid.uuid4(), "customer": 3, "amount": 500, "status": "new", "attempts": 0}
    return load("books").Charge(**{**fields, "provider_id": None, **more})


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_outcomes(release: Any, version: str) -> None:
    load = release("payments", version)
    answer, unavailable = load("marketlib.client").Answer, load("marketlib.errors").Unavailable
    assert version == load("release").VERSION

    async def outcome(*answers: Any) -> Any:
        return await load("charging").Charging(None, Provider(*answers))._outcome(charge_of(load))

    assert await outcome(answer(201, {"id": "ch_1", "status": "captured"}, {})) == ("captured", "ch_1")
    assert await outcome(answer(402, {}, {})) == ("declined", None)
    for status, sent in ((429, False), (409, True), (400, True)):
        with pytest.raises(unavailable) as error:
            await outcome(answer(status, {}, {}))
        assert error.value.sent is sent


async def test_what_the_provider_knows(release: Any) -> None:
    load = release("payments", "4.1.1")
    answer = load("marketlib.client").Answer

    async def found(status: int, data: Any) -> Any:
        return await load("charging").Charging(None, Provider(answer(status, data, {})))._find(charge_of(load))

    assert await found(404, {}) is None
    assert await found(200, {"charges": []}) is None
    assert await found(200, []) is None
    both = [{"id": "a", "status": "declined"}, {"id": "b", "status": "captured"}]
    assert await found(200, {"charges": both}) == ("captured", "b")
    assert await found(200, both[:1]) == ("declined", None)


async def test_an_unknown_outcome_is_asked_for_before_it_is_tried_again(release: Any, answers: Any) -> None:
    load = release("payments", "4.1.1")
    answer = load("marketlib.client").Answer
    provider = Provider(answer(200, {"charges": []}, {}))
    database = answers(None)
    await load("charging").Charging(database, provider)._resolve(charge_of(load, age=3.0, status="unknown", attempts=1))
    assert [method for method, _ in provider.asked] == ["GET"]
    assert "status = 'unknown'" in database.asked[0][0]

    provider = Provider(answer(200, {"charges": []}, {}), answer(201, {"id": "ch_2", "status": "captured"}, {}))
    charge = charge_of(load, age=30.0, status="unknown", attempts=1)
    await load("charging").Charging(answers(None, None), provider)._resolve(charge)
    assert provider.asked == [("GET", f"/v1/charges?reference={charge.order}"), ("POST", str(charge.order))]


async def test_bad_charges_are_refused(release: Any, ask: Any) -> None:
    main = release("payments", "4.1.1")("main")
    service = release("payments", "4.1.1")("marketlib.app").Service(main.ROUTES, service="payments", version="t")
    good = {"order": str(uuid.uuid4()), "customer": 1, "amount": 100}
    for change in ({"order": "x"}, {"customer": 0}, {"amount": -1}, {"amount": 1.5}, {"amount": True}):
        assert (await ask(service, "POST", "/charges", {**good, **change})).status == 422
