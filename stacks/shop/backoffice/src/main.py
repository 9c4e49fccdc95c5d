"""backoffice: what the staff sees and does. Every call carries X-Admin-Token.

GET  /orders?status=&limit=   newest orders
POST /orders/{id}/refund      starts the order's return: money back, goods back
PUT  /products/{id}           {price}
PUT  /flags/{name}            {value}
GET  /stats                   today, and what is open
"""

import contextlib
import hmac
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import queries
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, json_body, once, serve
from marketlib.client import Answer, Client
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.settings import Settings
from release import MOST_ORDERS, VERSION, stats_of

settings = Settings.load("backoffice")
database = Database(
    settings.str("DATABASE_URL", "postgresql://backoffice@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 4),
    wait=settings.seconds("POOL_WAIT", 2.0),
    application_name="backoffice",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
)
orders = Client(settings.str("ORDERS_URL", "http://orders.shop:8000"), "orders", timeout=5.0)
flags = Client(settings.str("FLAGS_URL", "http://flags.shop:8000"), "flags", timeout=2.0)
STATUSES = ("new", "pending", "paid", "declined", "cancelled", "returning", "returned")


def token() -> str:
    try:
        return Path(settings.str("ADMIN_TOKEN_FILE", "/etc/market/admin/token")).read_text().strip()
    except OSError as error:
        raise Unavailable("admin token", str(error), sent=False) from error


def admin(request: Request) -> dict[str, str]:
    """HttpError 401 for who is not staff; otherwise the header with which other services are called."""
    expected = token()
    if not expected or not hmac.compare_digest(request.headers.get("x-admin-token", "").encode(), expected.encode()):
        raise HttpError(401, "the admin token is not valid")
    return {"X-Admin-Token": expected}


def passed_on(answer: Answer) -> Response:
    return JSONResponse(answer.data, answer.status)


async def several(request: Request) -> Response:
    admin(request)
    status, text = request.query_params.get("status", ""), request.query_params.get("limit", "50")
    if status and status not in STATUSES:
        raise HttpError(422, f"status must be one of {', '.join(STATUSES)}")
    if not text.isdecimal() or not 0 < int(text) <= MOST_ORDERS:
        raise HttpError(422, f"limit must be a number from 1 to {MOST_ORDERS}")
    async with database.transaction(readonly=True) as connection:
        return JSONResponse({"orders": await queries.newest(connection, status, int(text))})


async def refund(request: Request) -> Response:
    headers = admin(request)
    try:
        order = uuid.UUID(request.path_params["id"])
    except ValueError:
        raise HttpError(404, "no such order") from None
    log.info("refund by the back office", extra={"order": str(order)})
    return passed_on(await orders.post(f"/admin/orders/{order}/return", {}, idempotent=True, headers=headers))


async def price(request: Request) -> Response:
    admin(request)
    text, new = request.path_params["id"], (await json_body(request)).get("price")
    if type(new) is not int or not 0 < new < 10_000_000:
        raise HttpError(422, "price must be a whole number of cents")
    product = int(text) if text.isdecimal() and len(text) < 10 else 0
    async with database.transaction() as connection:
        changed = await queries.set_price(connection, product, new)
    if changed is None:
        raise HttpError(404, "no such product")
    log.info("price changed", extra={"product": product, "price": new, "before": changed})
    return JSONResponse({"id": product, "price": new, "before": changed})


async def flag(request: Request) -> Response:
    headers = admin(request)
    body = await json_body(request)
    log.info("flag set", extra={"flag": request.path_params["name"], "value": body.get("value")})
    return passed_on(await flags.put(f"/flags/{request.path_params['name']}", body, headers=headers))


async def stats(request: Request) -> Response:
    admin(request)
    async with database.transaction(readonly=True) as connection:
        return JSONResponse(await stats_of(connection))


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0010')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database, orders, flags:
        yield


ROUTES = [
    Route("/orders", several, methods=["GET"]),
    Route("/orders/{id}/refund", refund, methods=["POST"]),
    Route("/products/{id}", price, methods=["PUT"]),
    Route("/flags/{name}", flag, methods=["PUT"]),
    Route("/stats", stats, methods=["GET"]),
]

if __name__ == "__main__":
    serve(ROUTES, service="backoffice", version=VERSION, lifespan=lifespan, ready=once(ready), settings=settings)
