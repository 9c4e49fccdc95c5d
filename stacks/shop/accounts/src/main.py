"""accounts: who the customers are.

POST /sessions   {email, password} -> 201 {token, customer, expires}
POST /accounts   {email, password, name} -> 201 {customer, email, name}
GET  /me         {customer, email, name}; bearer token
"""

import contextlib
import datetime
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

import release
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, json_body, once, serve
from marketlib.db import Database
from marketlib.metrics import Counter
from marketlib.settings import Settings
from marketlib.tokens import customer_of, keys
from passwords import hashed, matches

settings = Settings.load("accounts")
database = Database(
    settings.str("DATABASE_URL", "postgresql://accounts@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 5),
    wait=settings.seconds("POOL_WAIT", 1.5),
    application_name="accounts",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
)
sessions = Counter("accounts_sessions", "Attempts to sign in.", ["result"])
guard = release.Guard(settings)


def text(body: dict[str, Any], name: str, most: int = 200) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise HttpError(422, f"{name} must be a text of up to {most} characters")
    return value.strip()


async def sign_in(request: Request) -> Response:
    body = await json_body(request)
    email, password = text(body, "email").lower(), text(body, "password")
    guard.check(email)
    async with database.transaction(readonly=True) as connection:
        row = await connection.fetchrow("select id, password from accounts.customers where lower(email) = $1", email)
    if not matches(password, row["password"] if row else None):
        guard.failed(email)
        sessions.labels("refused").inc()
        raise HttpError(401, "email or password is wrong")
    guard.passed(email)
    sessions.labels("opened").inc()
    seconds = settings.seconds("SESSION_TTL", 12 * 3600.0)
    expires = datetime.datetime.fromtimestamp(int(time.time() + seconds), datetime.UTC).isoformat()
    token = keys.sign({"customer": row["id"]}, seconds)
    return JSONResponse({"token": token, "customer": row["id"], "expires": expires}, 201)


async def create(request: Request) -> Response:
    body = await json_body(request)
    email, password, name = text(body, "email"), text(body, "password"), text(body, "name")
    release.check_new(email, password)
    try:
        async with database.transaction() as connection:
            customer = await connection.fetchval(
                "insert into accounts.customers (email, name, password) values ($1, $2, $3) returning id",
                email,
                name,
                hashed(password),
            )
    except asyncpg.UniqueViolationError:
        raise HttpError(409, "there is an account with this email") from None
    return JSONResponse({"customer": customer, "email": email, "name": name}, 201)


async def me(request: Request) -> Response:
    customer = customer_of(request)
    async with database.transaction(readonly=True) as connection:
        row = await connection.fetchrow("select email, name from accounts.customers where id = $1", customer)
    if not row:
        raise HttpError(404, "no such account")
    return JSONResponse({"customer": customer, "email": row["email"], "name": row["name"]})


async def ready() -> None:
    keys.check()
    await database.check(probe="select exists (select from public.schema_migrations where version = '0002')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database:
        yield


ROUTES = [
    Route("/sessions", sign_in, methods=["POST"]),
    Route("/accounts", create, methods=["POST"]),
    Route("/me", me, methods=["GET"]),
]

if __name__ == "__main__":
    serve(ROUTES, service="accounts", version=release.VERSION, lifespan=lifespan, ready=once(ready), settings=settings)
