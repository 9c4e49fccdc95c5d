"""Flags: reading them cheaply, setting them safely."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from marketlib.app import Service
from marketlib.errors import Unavailable

FOLDER = Path(__file__).parents[1]
VERSIONS = ("1.1.0", "1.2.0", "1.2.1")
ROWS = [{"name": "checkout_enabled", "value": "true"}, {"name": "home_banner", "value": '"Hello"'}]
VALUES = {"checkout_enabled": True, "home_banner": "Hello"}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    (tmp_path / "token").write_text("adm-1\n")
    monkeypatch.setenv("ADMIN_TOKEN_FILE", str(tmp_path / "token"))
    return {"x-admin-token": "adm-1"}


def app_of(release: Any, version: str, database: Any) -> Any:
    main = release("flags", version)("main")
    main.values._database = database
    return Service(main.ROUTES, service="flags", version=version)


async def test_who_has_them_already_is_told_so(release: Any, version: str, ask: Any, answers: Any) -> None:
    app = app_of(release, version, answers(ROWS, ROWS))
    first = await ask(app, "GET", "/flags")
    assert first.data == {"flags": VALUES}
    again = await ask(app, "GET", "/flags", None, {"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


async def test_the_last_flags_stay_while_the_database_is_away(
    release: Any, ask: Any, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEEP", "0")
    app = app_of(release, "1.2.1", answers(ROWS, Unavailable("database", "gone")))
    assert [(await ask(app, "GET", "/flags")).data["flags"] for _ in range(2)] == [VALUES, VALUES]


@pytest.mark.parametrize("version", VERSIONS)
async def test_before_the_first_reading_there_are_none(release: Any, version: str, ask: Any, answers: Any) -> None:
    app = app_of(release, version, answers(Unavailable("database", "gone")))
    assert (await ask(app, "GET", "/flags")).status == 503


async def test_setting_needs_the_token(release: Any, version: str, ask: Any, answers: Any, admin: Any) -> None:
    database = answers("true", "INSERT 0 1")
    app = app_of(release, version, database)
    for headers in ({}, {"x-admin-token": "adm-2"}):
        assert (await ask(app, "PUT", "/flags/checkout_enabled", {"value": False}, headers)).status == 403
    assert not database.asked
    got = await ask(app, "PUT", "/flags/checkout_enabled", {"value": False}, admin)
    assert (got.status, got.data) == (200, {"name": "checkout_enabled", "value": False})
    assert database.asked[1][1:] == ("checkout_enabled", "false", "admin")


@pytest.mark.parametrize(("version", "status"), [("1.1.0", 200), ("1.2.0", 200), ("1.2.1", 422)])
async def test_only_the_newest_keeps_the_kind(
    release: Any, version: str, status: int, ask: Any, answers: Any, admin: Any
) -> None:
    app = app_of(release, version, answers("true", "INSERT 0 1"))
    assert (await ask(app, "PUT", "/flags/checkout_enabled", {"value": "false"}, admin)).status == status


async def test_a_number_may_become_a_broken_one(release: Any, ask: Any, answers: Any, admin: Any) -> None:
    app = app_of(release, "1.2.1", answers("10", "INSERT 0 1"))
    assert (await ask(app, "PUT", "/flags/limit", {"value": 10.5}, admin)).status == 200


@pytest.mark.parametrize(
    ("name", "body"), [("Bad", {"value": 1}), ("a", {}), ("a", {"value": None}), ("a", {"value": [1]})]
)
async def test_bad_flags(release: Any, ask: Any, answers: Any, admin: Any, name: str, body: Any) -> None:
    app = app_of(release, "1.2.1", answers())
    assert (await ask(app, "PUT", f"/flags/{name}", body, admin)).status == 422


def test_releases_say_which_they_are(release: Any, version: str) -> None:
    assert version == release("flags", version)("release").VERSION
    assert f"## {version}\n" in (FOLDER / "RELEASES.md").read_text()
