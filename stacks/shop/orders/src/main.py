"""orders: from a full cart to goods on their way, and back.

POST /checkout                       Idempotency-Key: <uuid>; {lines, address, channel}
GET  /orders, /orders/{id}           the customer's own
POST /orders/{id}/return             {reason}
GET  /track/{id}                     the order's shipment
GET  /seller/orders?since=<time>     X-Api-Key; what a seller has sold
POST /admin/orders/{id}/return       X-Admin-Token; as the customer would
POST /admin/orders/{id}/settle       X-Admin-Token; finish the order now
"""

import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from checkout import Checkout
from finish import Finisher
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, json_body, once
from marketlib.client import Client
from marketlib.db import Database
from marketlib.errors import Unavailable
from marketlib.flags import flag
from marketlib.queue import Queue
from marketlib.settings import Settings
from marketlib.tokens import customer_of
from marketlib.worker import every, run
from model import Order, asked, key_of
from relay import Relay
from release import NUDGE, RELAY_EVERY, SELLER_MOST, VERSION
from store import Store

settings = Settings.load("orders")
database = Database(
    settings.str("DATABASE_URL", "postgresql://orders@localhost:6432/market"),
    size=settings.int("POOL_SIZE", 10),
    wait=settings.seconds("POOL_WAIT", 1.5),
    application_name="orders",
    password_file=settings.str("DATABASE_PASSWORD_FILE") or None,
)


def client(name: str, timeout: float, retries: int = 1) -> Client:
    upper = name.upper()
    return Client(
        settings.str(f"{upper}_URL", f"http://{name}.shop:8000"),
        name,
        timeout=settings.seconds(f"{upper}_TIMEOUT", timeout),
        retries=settings.int(f"{upper}_RETRIES", retries),
    )


catalog, inventory, shipping = client("catalog", 1.0), client("inventory", 1.5), client("shipping", 1.0, 0)
payments = client("payments", 5.0)
queue = Queue(settings.str("NATS_URL", "nats://nats.data:4222"), "orders")
store = Store(database)
flow = Checkout(store, catalog, inventory, payments)
finisher = Finisher(store, flow)
relay = Relay(database, queue, settings.seconds("RELAY_EVERY", RELAY_EVERY))


def told(order: Order, status: int = 200) -> Response:
    return JSONResponse(order.shown(), status)


async def checkout(request: Request) -> Response:
    customer = customer_of(request)
    if not flag("checkout_enabled", True):
        raise HttpError(503, "the checkout is closed for a moment", retry_after=30)
    wish = asked(key_of(request.headers.get("idempotency-key")), customer, await json_body(request))
    status, body = await flow.checkout(wish)
    if NUDGE and status == 201:
        relay.nudge()
    return JSONResponse(body, status)


async def own(request: Request) -> Order:
    """The order of the path, which must be the customer's; others' do not exist for them."""
    customer = customer_of(request)
    order = await store.find(key_of(request.path_params["id"], "order"))
    if order is None or order.customer != customer:
        raise HttpError(404, "no such order")
    return order


async def show(request: Request) -> Response:
    return told(await own(request))


async def several(request: Request) -> Response:
    customer = customer_of(request)
    text = request.query_params.get("limit", "20")
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise HttpError(422, "limit must be a number from 1 to 100")
    return JSONResponse({"orders": [order.shown() for order in await store.newest(customer, int(text))]})


async def send_back(request: Request) -> Response:
    order = await own(request)
    if not flag("returns_enabled", True):
        raise HttpError(503, "returns are closed for a moment", retry_after=60)
    return await returning(order, str((await json_body(request)).get("reason", ""))[:200])


async def returning(order: Order, reason: str) -> Response:
    if order.status == "paid" and not await store.returning(order.id, reason or "returned"):
        order = await store.find(order.id) or order
    elif order.status == "paid":
        return JSONResponse({"id": str(order.id), "status": "returning"}, 202)
    if order.status not in ("returning", "returned"):
        raise HttpError(409, f"an order that is {order.shown()['status']} cannot be returned")
    return JSONResponse({"id": str(order.id), "status": order.status}, 202)


async def track(request: Request) -> Response:
    order = await own(request)
    shipment: Any = None
    with contextlib.suppress(Unavailable):  # the order can be shown without
        answer = await shipping.get(f"/shipments/{order.id}")
        shipment = answer.data if answer.status == 200 else None
    return JSONResponse({"order": str(order.id), "status": order.shown()["status"], "shipment": shipment})


async def seller_orders(request: Request) -> Response:
    key = request.headers.get("x-api-key", "")
    if not key:
        raise HttpError(401, "X-Api-Key is required")
    seller = await store.seller_of(hashlib.sha256(key.encode()).hexdigest())
    try:
        text = request.query_params.get("since", "")
        since = datetime.fromisoformat(text) if text else datetime.now(UTC) - timedelta(days=1)
    except ValueError:
        raise HttpError(422, "since must be a time such as 2026-01-31T08:00:00+00:00") from None
    since = since if since.tzinfo else since.replace(tzinfo=UTC)
    return JSONResponse({"orders": await store.sold(seller, since, SELLER_MOST)})


def admin(request: Request) -> None:
    """HttpError 401 without the back office's token, which is read anew each time: it is rotated."""
    try:
        token = Path(settings.str("ADMIN_TOKEN_FILE", "/etc/market/admin/token")).read_text().strip()
    except OSError as error:
        raise Unavailable("admin token", str(error), sent=False) from error
    if not token or not hmac.compare_digest(request.headers.get("x-admin-token", "").encode(), token.encode()):
        raise HttpError(401, "the admin token is not valid")


async def any_order(request: Request) -> Order:
    admin(request)
    order = await store.find(key_of(request.path_params["id"], "order"))
    if order is None:
        raise HttpError(404, "no such order")
    return order


async def admin_return(request: Request) -> Response:
    return await returning(await any_order(request), "refunded by the back office")


async def admin_settle(request: Request) -> Response:
    order = await any_order(request)
    found = await finisher.finish(order)
    return JSONResponse({"id": str(order.id), "found": found})


async def ready() -> None:
    await database.check(probe="select exists (select from public.schema_migrations where version = '0003')")


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with database, queue, catalog, inventory, payments, shipping:
        yield


ROUTES = [
    Route("/checkout", checkout, methods=["POST"]),
    Route("/orders", several, methods=["GET"]),
    Route("/orders/{id}", show, methods=["GET"]),
    Route("/orders/{id}/return", send_back, methods=["POST"]),
    Route("/track/{id}", track, methods=["GET"]),
    Route("/seller/orders", seller_orders, methods=["GET"]),
    Route("/admin/orders/{id}/return", admin_return, methods=["POST"]),
    Route("/admin/orders/{id}/settle", admin_settle, methods=["POST"]),
]

if __name__ == "__main__":
    run(
        {"relay": relay.loop, "finish": every(settings.seconds("FINISH_EVERY", 2.0), finisher.look)},
        service="orders",
        version=VERSION,
        routes=ROUTES,
        lifespan=lifespan,
        ready=once(ready),
        settings=settings,
        flags=True,
    )
