"""Accounts: signing in, guessing, new customers."""

import hashlib
from pathlib import Path
from typing import Any

import asyncpg
import pytest

pytest.importorskip("prometheus_client")

from marketlib import tokens
from marketlib.app import Service

FOLDER = Path(__file__).parents[1]
VERSIONS = ("2.0.3", "2.1.0", "2.2.0")
SALT = "00112233445566ff"
KEPT = f"pbkdf2_sha256$1000${SALT}$" + hashlib.pbkdf2_hmac("sha256", b"pass-7", bytes.fromhex(SALT), 1000).hex()
ROW = {"id": 7, "password": KEPT}


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tokens.Keys:
    (tmp_path / "k1").write_text("key")
    keys = tokens.Keys(tmp_path)
    monkeypatch.setattr(tokens, "keys", keys)
    return keys


def app_of(release: Any, version: str, database: Any, keys: Any) -> Any:
    main = release("accounts", version)("main")
    main.database, main.keys = database, keys
    return Service(main.ROUTES, service="accounts", version=version)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_signing_in_gives_a_token_that_others_take(
    release: Any, version: str, ask: Any, answers: Any, keys: Any
) -> None:
    database = answers(ROW, {"email": "user7@mail.example", "name": "Ada Falk"})
    app = app_of(release, version, database, keys)
    got = await ask(app, "POST", "/sessions", {"email": "User7@mail.example", "password": "pass-7"})
    assert (got.status, got.data["customer"]) == (201, 7)
    assert database.asked[0][1] == "user7@mail.example"
    assert keys.verify(got.data["token"])["customer"] == 7
    me = await ask(app, "GET", "/me", None, {"authorization": f"Bearer {got.data['token']}"})
    assert me.data == {"customer": 7, "email": "user7@mail.example", "name": "Ada Falk"}


@pytest.mark.parametrize("row", [ROW, None])
async def test_a_wrong_password_and_an_unknown_address_look_alike(
    release: Any, version: str, ask: Any, answers: Any, keys: Any, row: Any
) -> None:
    got = await ask(
        app_of(release, version, answers(row), keys), "POST", "/sessions", {"email": "a@b.c", "password": "pass-8"}
    )
    assert (got.status, got.data) == (401, {"error": "email or password is wrong"})


async def test_guessing_is_stopped_and_only_for_that_address(
    release: Any, ask: Any, answers: Any, keys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCK_AFTER", "3")
    app = app_of(release, "2.2.0", answers(*[ROW] * 5), keys)
    wrong, right = {"email": "a@b.c", "password": "no"}, {"email": "a@b.c", "password": "pass-7"}
    assert [(await ask(app, "POST", "/sessions", wrong)).status for _ in range(4)] == [401, 401, 401, 429]
    got = await ask(app, "POST", "/sessions", right)
    assert got.status == 429
    assert 1 <= int(got.headers["retry-after"]) <= 61
    assert (await ask(app, "POST", "/sessions", {**right, "email": "d@e.f"})).status == 201
    monkeypatch.setenv("LOCK_FOR", "0")
    assert (await ask(app, "POST", "/sessions", right)).status == 201


async def test_a_new_customer(release: Any, version: str, ask: Any, answers: Any, keys: Any) -> None:
    database = answers(5001, asyncpg.UniqueViolationError("taken"))
    app = app_of(release, version, database, keys)
    wanted = {"email": "New@mail.example", "password": "longer", "name": " Ada "}
    got = await ask(app, "POST", "/accounts", wanted)
    assert (got.status, got.data) == (201, {"customer": 5001, "email": "New@mail.example", "name": "Ada"})
    assert database.asked[0][3].startswith("pbkdf2_sha256$1000$")
    assert (await ask(app, "POST", "/accounts", wanted)).status == 409


@pytest.mark.parametrize(
    ("version", "change", "status"),
    [
        ("2.0.3", {"email": "nobody"}, 422),
        ("2.0.3", {"email": "a@b"}, 201),
        ("2.2.0", {"email": "a@b"}, 422),
        ("2.0.3", {"password": "short"}, 201),
        ("2.1.0", {"password": "short"}, 422),
        ("2.2.0", {"name": " "}, 422),
        ("2.2.0", {"name": 7}, 422),
    ],
)
async def test_what_new_customers_must_give(
    release: Any, ask: Any, answers: Any, keys: Any, version: str, change: Any, status: int
) -> None:
    wanted = {"email": "a@b.c", "password": "longer", "name": "Ada", **change}
    assert (await ask(app_of(release, version, answers(1), keys), "POST", "/accounts", wanted)).status == status


def test_passwords(release: Any) -> None:
    passwords = release("accounts", "2.2.0")("passwords")
    kept = passwords.hashed("söcret")
    assert passwords.matches("söcret", kept)
    assert not passwords.matches("secret", kept)
    assert not passwords.matches("nobody", None)


def test_releases_say_which_they_are(release: Any, version: str) -> None:
    assert version == release("accounts", version)("release").VERSION
    assert f"## {version}\n" in (FOLDER / "RELEASES.md").read_text()
