"""storefront: the pages of the shop, made from what the other services know.

GET /home           {featured, categories, banner}
GET /product/{id}   {product, stock, related}; stock null and related empty where their service is away
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import release
from marketlib.app import HttpError, JSONResponse, Request, Response, Route, serve
from marketlib.settings import Settings
from pages import Neighbours

settings = Settings.load("storefront")
neighbours = Neighbours(settings)
pages = release.Pages(neighbours, settings)


async def home(request: Request) -> Response:
    return JSONResponse(await pages.home())


async def product(request: Request) -> Response:
    text = request.path_params["id"]
    if not text.isdecimal() or len(text) > 9:
        raise HttpError(404, "no such product")
    return JSONResponse(await pages.product(int(text)))


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    yield
    await neighbours.close()


ROUTES = [Route("/home", home, methods=["GET"]), Route("/product/{id}", product, methods=["GET"])]

if __name__ == "__main__":
    # Always ready: a page without its parts tells a customer more than no answer at all.
    serve(ROUTES, service="storefront", version=release.VERSION, lifespan=lifespan, settings=settings, flags=True)
