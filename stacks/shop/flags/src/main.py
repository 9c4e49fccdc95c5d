"""flags: switches and small values that change without a release.

GET /flags          {flags: {name: value}}, with an ETag; 304 where the caller has them already
PUT /flags/{name}   {value}; admin token
"""

import contextlib
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import release
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, json_body, once, serve
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import Counter
from marketlib.settings import Settings

settings = Settings.load("flags")
database = Database(
    settings.str("DATABASE_URL", "postgresql://flags@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 3),
    wait=settings.seconds("POOL_WAIT", 1.0),
    application_name="flags",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
    command_timeout=2.0,
)
values = release.Values(database, settings)
changes = Counter("flag_changes", "Flags that were set.", ["flag"])
NAME = re.compile(r"^[a-z][a-z0-9_]{0,60}$")


def allow(request: Request) -> None:
    """HttpError 403 without the admin token. It is read each time: it is changed without a restart."""
    path = Path(settings.str("ADMIN_TOKEN_FILE", "/etc/market/admin/token"))
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise Unavailable("admin token", f"{path}: {error.strerror}", sent=False) from error
    given = request.headers.get("x-admin-token", "")
    if not token or not hmac.compare_digest(given.encode(), token.encode()):
        raise HttpError(403, "an admin token is required")


async def show(request: Request) -> Response:
    found = await values.all()
    body = json.dumps({"flags": found}, sort_keys=True, separators=(",", ":")).encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


async def put(request: Request) -> Response:
    allow(request)
    name, body = request.path_params["name"], await json_body(request)
    if not NAME.match(name):
        raise HttpError(422, "a flag's name has small letters, digits and underscores")
    if "value" not in body or isinstance(body["value"], dict | list) or body["value"] is None:
        raise HttpError(422, "value must be true, false, a number or a text")
    old = await values.set(name, body["value"], request.headers.get("x-admin-user", "admin")[:60])
    changes.labels(name).inc()
    log.info("flag set", extra={"flag": name, "old": old, "new": body["value"]})
    return JSONResponse({"name": name, "value": body["value"]})


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0008')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database:
        yield


ROUTES = [Route("/flags", show, methods=["GET"]), Route("/flags/{name}", put, methods=["PUT"])]

if __name__ == "__main__":
    serve(ROUTES, service="flags", version=release.VERSION, lifespan=lifespan, ready=once(ready), settings=settings)
