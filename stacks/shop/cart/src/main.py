"""cart: what customers have put aside. All calls carry a bearer token.

GET    /cart             {lines: [{product, quantity}]}
PUT    /cart/{product}   {quantity}; 0 takes it out
DELETE /cart
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import release
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, json_body, once, serve
from marketlib.cache import Redis
from marketlib.metrics import Counter
from marketlib.settings import Settings
from marketlib.tokens import customer_of, keys

settings = Settings.load("cart")
store = Redis(
    settings.str("REDIS_URL", "redis://localhost:6379/0"),
    timeout=settings.seconds("REDIS_TIMEOUT", 0.5),
    size=settings.int("REDIS_CONNECTIONS", 20),
)
changes = Counter("cart_changes", "Changes made to carts.", ["kind"])
MOST_QUANTITY = 99


def shown(kept: dict[str, str]) -> dict[str, Any]:
    lines = [{"product": int(product), "quantity": int(quantity)} for product, quantity in kept.items()]
    return {"lines": sorted(lines, key=lambda line: line["product"])}


async def show(request: Request) -> Response:
    return JSONResponse(shown(await store.call("HGETALL", f"cart:{customer_of(request)}")))


async def put(request: Request) -> Response:
    customer, text = customer_of(request), request.path_params["product"]
    quantity = (await json_body(request)).get("quantity")
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise HttpError(404, "no such product")
    if type(quantity) is not int or not 0 <= quantity <= MOST_QUANTITY:
        raise HttpError(422, f"quantity must be a whole number from 0 to {MOST_QUANTITY}")
    kept = await release.change(store, settings, f"cart:{customer}", int(text), quantity)
    changes.labels("put" if quantity else "remove").inc()
    return JSONResponse(shown(kept))


async def empty(request: Request) -> Response:
    await store.call("DEL", f"cart:{customer_of(request)}")
    changes.labels("empty").inc()
    return JSONResponse({"lines": []})


async def ready() -> None:
    keys.check()
    await store.check()


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    async with store:
        yield


ROUTES = [
    Route("/cart", show, methods=["GET"]),
    Route("/cart", empty, methods=["DELETE"]),
    Route("/cart/{product}", put, methods=["PUT"]),
]

if __name__ == "__main__":
    serve(ROUTES, service="cart", version=release.VERSION, lifespan=lifespan, ready=once(ready), settings=settings)
