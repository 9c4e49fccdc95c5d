"""payments: takes money through the payment provider and keeps the books.

POST /charges               {order, customer, amount}: 201 captured, 402 declined, 202 unknown; one for an order
GET  /charges/{order}       the charge
POST /charges/{order}/void  gives a charge up that was not made; answers its final status
POST /refunds               {order, amount, key}: 201 done, 202 under way; one for an order and key

503 means that this request has charged nothing. 202 means that the provider may have: the reconciling
loop asks it until it is known.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import books
from charging import Charging
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, json_body, once
from marketlib.client import Client
from marketlib.db import Database
from marketlib.settings import Settings
from marketlib.worker import every, run
from refunding import Refunding
from release import CHECK_EVERY, VERSION

settings = Settings.load("payments")
database = Database(
    settings.str("DATABASE_URL", "postgresql://payments@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 8),
    wait=settings.seconds("POOL_WAIT", 1.5),
    application_name="payments",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
)
provider = Client(
    settings.str("PROVIDER_URL", "http://payment-provider.shop:80"),
    "payment-provider",
    timeout=settings.seconds("PROVIDER_TIMEOUT", 3.0),
    retries=settings.int("PROVIDER_RETRIES", 1),  # only what was certainly not sent is sent again
)
charging = Charging(database, provider)
refunding = Refunding(database, provider)
CODES = {"captured": 201, "declined": 402, "failed": 402}


def order_id(value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        raise HttpError(422, "order must be a UUID") from None


def number(value: Any, name: str) -> int:
    if type(value) is not int or not 0 < value < 2**31:
        raise HttpError(422, f"{name} must be a positive whole number")
    return value


def shown(charge: books.Charge) -> dict[str, Any]:
    status = "unknown" if charge.status == "new" else charge.status
    return {"order": str(charge.order), "charge": str(charge.id), "amount": charge.amount, "status": status}


async def create(request: Request) -> Response:
    body = await json_body(request)
    order = order_id(body.get("order"))
    customer, amount = number(body.get("customer"), "customer"), number(body.get("amount"), "amount")
    charge = await charging.charge(order, customer, amount)
    answer = shown(charge)
    if charge.status in ("declined", "failed"):
        answer["error"] = "payment declined" if charge.status == "declined" else "payment was given up"
    return JSONResponse(answer, CODES.get(charge.status, 202))


async def show(request: Request) -> Response:
    order = order_id(request.path_params["order"])
    async with database.transaction(readonly=True) as connection:
        charge = await books.find(connection, order)
    if charge is None:
        raise HttpError(404, "no charge for this order")
    return JSONResponse(shown(charge))


async def void(request: Request) -> Response:
    order = order_id(request.path_params["order"])
    async with database.transaction() as connection:
        charge = await books.void(connection, order)
    return JSONResponse(shown(charge))


async def refund(request: Request) -> Response:
    body = await json_body(request)
    key = body.get("key", "return")
    if not isinstance(key, str) or not 0 < len(key) <= 64:
        raise HttpError(422, "key must be a text of up to 64 characters")
    done = await refunding.refund(order_id(body.get("order")), number(body.get("amount"), "amount"), key)
    answer = {"order": str(done.order), "refund": str(done.id), "amount": done.amount, "status": done.status}
    if done.status == "refused":
        return JSONResponse({**answer, "error": "the provider refused the refund"}, 409)
    return JSONResponse(answer, 201 if done.status == "done" else 202)


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0004')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database, provider:
        yield
        await asyncio.gather(charging.finish(), refunding.finish())


ROUTES = [
    Route("/charges", create, methods=["POST"]),
    Route("/charges/{order}", show, methods=["GET"]),
    Route("/charges/{order}/void", void, methods=["POST"]),
    Route("/refunds", refund, methods=["POST"]),
]

if __name__ == "__main__":
    seconds = settings.seconds("RECONCILE_EVERY", CHECK_EVERY)
    run(
        {"reconcile": every(seconds, charging.reconcile), "refunds": every(seconds, refunding.reconcile)},
        service="payments",
        version=VERSION,
        routes=ROUTES,
        lifespan=lifespan,
        ready=once(ready),
        settings=settings,
    )
