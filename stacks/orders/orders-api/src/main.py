"""orders-api: the shop's orders over HTTP.

GET  /products            the catalogue
GET  /orders/{id}         one order
GET  /orders?customer=N   a customer's newest orders
POST /orders              {id, customer, product, quantity}; id is made by the client
GET  /healthz             the process runs
GET  /readyz              a connection of the pool answers
"""

import contextlib
import os
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import orders
from database import Database, Unavailable
from logs import RequestLog, log, set_up

database = Database(
    os.environ.get("DATABASE_URL", "postgresql://app@localhost:6432/shop"),
    size=int(os.environ.get("POOL_SIZE", "20")),
    wait=float(os.environ.get("POOL_WAIT_SECONDS", "3")),
)


async def products(request: Request) -> Response:
    async with database.transaction() as connection:
        return JSONResponse(await orders.products(connection))


async def one(request: Request) -> Response:
    async with database.transaction() as connection:
        found = await orders.one(connection, orders.parse_id(request.path_params["id"]))
    return JSONResponse(found) if found else JSONResponse({"error": "no such order"}, 404)


async def history(request: Request) -> Response:
    try:
        customer = int(request.query_params["customer"])
    except (KeyError, ValueError):
        return JSONResponse({"error": "customer must be a number"}, 422)
    async with database.transaction() as connection:
        return JSONResponse(await orders.history(connection, customer))


async def create(request: Request) -> Response:
    try:
        wanted = orders.parse(await request.json())
    except ValueError as error:
        return JSONResponse({"error": str(error)}, 422)
    async with database.transaction() as connection:
        status, body = await orders.create(connection, wanted)
    return JSONResponse(body, status)


async def healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    try:
        await database.check(within=1.5, probe=orders.READY)
    except Unavailable as error:
        log.warning("not ready", extra={"reason": str(error)})
        return PlainTextResponse(f"{error}\n", 503)
    return PlainTextResponse("ok\n")


async def refused(request: Request, error: Exception) -> Response:
    log.error("request failed", extra={"reason": str(error)})
    return JSONResponse({"error": "the database is unavailable"}, 503, headers={"Retry-After": "5"})


async def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with database:
        log.info("started", extra={"version": orders.VERSION})
        yield
    log.info("stopped")


app = RequestLog(
    Starlette(
        routes=[
            Route("/products", products),
            Route("/orders", history, methods=["GET"]),
            Route("/orders", create, methods=["POST"]),
            Route("/orders/{id}", one),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ],
        exception_handlers={Unavailable: refused, HTTPException: http_error},
        lifespan=lifespan,
    )
)

if __name__ == "__main__":
    set_up()
    uvicorn.run(
        app,
        host="0.0.0.0",
        port=int(os.environ.get("PORT", "8000")),
        access_log=False,
        log_config=None,
        server_header=False,
        loop="asyncio",
        http="h11",
        ws="none",
        timeout_graceful_shutdown=8,
    )
