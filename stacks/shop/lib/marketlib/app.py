"""Serving HTTP.

    serve([Route("/products/{id}", product)], service="catalog", version="1.9.0", lifespan=lifespan, ready=ready)

Handlers are Starlette's: they take a Request and return a Response. They may raise HttpError and
Unavailable, which become JSON answers. /healthz, /readyz and /metrics are answered here. On SIGTERM
the process is not ready from that moment, takes no new connections, finishes what it has, and ends.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Message, Receive, Scope, Send

from marketlib import context, metrics, tracing
from marketlib.errors import HttpError, Unavailable
from marketlib.logs import log, set_up
from marketlib.settings import Settings

__all__ = [
    "HttpError", "JSONResponse", "Request", "Response", "Route", "Service", "Unavailable", "json_body", "once", "serve",
]  # fmt: skip

Ready = Callable[[], Awaitable[None]]
Lifespan = Callable[[Any], contextlib.AbstractAsyncContextManager[None]]

GRACE_SECONDS = 8
READY_SECONDS = 1.5
OWN = ("/healthz", "/readyz", "/metrics")


async def json_body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; HttpError 400 if it is none."""
    try:
        body = json.loads(await request.body())
    except (ValueError, UnicodeDecodeError):
        raise HttpError(400, "the body must be JSON") from None
    if not isinstance(body, dict):
        raise HttpError(400, "the body must be a JSON object")
    return body


def once(check: Ready) -> Ready:
    """Ready for good after the check held the first time: for what can serve while its store is away."""
    held = False

    async def checked() -> None:
        nonlocal held
        if not held:
            await check()
            held = True

    return checked


def failure(error: Exception) -> Response:
    """The answer to a request that raised."""
    if isinstance(error, HttpError):
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return JSONResponse({"error": error.message, **error.extra}, error.status, headers)
    if isinstance(error, Unavailable):
        log.warning("unavailable", extra={"target": error.target, "reason": error.why})
        return JSONResponse({"error": f"{error.target} is unavailable"}, 503, {"Retry-After": "2"})
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail.lower()}, error.status_code, error.headers)
    log.error("request failed", exc_info=error)
    return JSONResponse({"error": "internal error"}, 500)


class Service:
    """The ASGI application: ids, deadline, metrics, log and error answers around the routes.

    Args:
        limit: requests at once; more are turned away with 503 rather than queued.
        log_requests: a line for each request; False logs only those that failed (5xx).
    """

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        *,
        service: str,
        version: str,
        lifespan: Lifespan | None = None,
        ready: Ready | None = None,
        limit: int = 200,
        log_requests: bool = True,
    ) -> None:
        self.service = service
        self.version = version
        self.draining = False
        self.limit = limit
        self.log_requests = log_requests
        self._ready = ready
        self._routes = Router(routes, redirect_slashes=False, lifespan=lifespan)
        self._in_flight = metrics.in_flight.labels(service)
        self._count = 0
        metrics.build.labels(service, version).set(1)
        tracing.exporter.describe(service, version)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
        elif scope["path"] in OWN:
            await (await self._own(scope["path"]))(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _own(self, path: str) -> Response:
        if path == "/healthz":
            return PlainTextResponse("ok\n")
        if path == "/metrics":
            return Response(metrics.render(), media_type="text/plain; version=0.0.4")
        if self.draining:
            return PlainTextResponse("shutting down\n", 503)
        try:
            if self._ready:
                async with asyncio.timeout(READY_SECONDS):
                    await self._ready()
        except Unavailable as error:
            log.warning("not ready", extra={"reason": str(error)})
            return PlainTextResponse(f"{error}\n", 503)
        except TimeoutError:
            log.warning("not ready", extra={"reason": f"no answer within {READY_SECONDS:g} s"})
            return PlainTextResponse(f"not ready within {READY_SECONDS:g} s\n", 503)
        return PlainTextResponse("ok\n")

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # lets the router raise instead of answering in plain text
        given = {key: value.decode("latin-1") for key, value in scope["headers"]}
        came = context.received(
            given.get(b"x-request-id", ""),
            given.get(b"traceparent", ""),
            given.get(b"x-deadline-ms", ""),
            tracing.sample(),
        )
        token = context.enter(came)
        begin = time.perf_counter()
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", []).append((b"x-request-id", came.request_id.encode("latin-1")))
            await send(message)

        self._count += 1
        self._in_flight.set(self._count)
        try:
            with tracing.span(scope["method"], "server") as span:
                try:
                    await self._answered(scope, receive, noted)
                except Exception as error:
                    if status:
                        raise  # half an answer is out already
                    await failure(error)(scope, receive, noted)
                if span:
                    span.name = f"{scope['method']} {route_of(scope)}"
                    span.attributes.update({"http.request.method": scope["method"], "url.path": scope["path"],
                                            "http.response.status_code": status})  # fmt: skip
                    span.error = f"HTTP {status}" if status >= 500 else ""
        finally:
            self._count -= 1
            self._in_flight.set(self._count)
            self._note(scope, status, time.perf_counter() - begin)
            context.leave(token)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._count > self.limit:
            raise HttpError(503, "too many requests at once", retry_after=1)
        left = context.remaining()
        if left is None:
            return await self._routes(scope, receive, send)
        try:
            async with asyncio.timeout(left):
                return await self._routes(scope, receive, send)
        except TimeoutError:
            raise HttpError(504, "the deadline of the request has passed") from None

    def _note(self, scope: Scope, status: int, took: float) -> None:
        route, method = route_of(scope), scope["method"]
        metrics.requests.labels(self.service, route, method, str(status or 499)).inc()
        metrics.durations.labels(self.service, route, method).observe(took)
        if self.log_requests or status >= 500 or not status:
            extra = {"method": method, "path": scope["path"], "status": status or 499, "ms": round(took * 1000, 1)}
            log.info("request", extra=extra)


def route_of(scope: Scope) -> str:
    """The template of the route: paths with ids would make a time series each."""
    return getattr(scope.get("route"), "path", "unmatched")


class Server(uvicorn.Server):
    """Says that it is not ready as soon as it is told to end."""

    def __init__(self, config: uvicorn.Config, application: Service) -> None:
        super().__init__(config)
        self.application = application

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.application.draining = True
        super().handle_exit(sig, frame)


@contextlib.asynccontextmanager
async def background(*tasks: Awaitable[None]) -> AsyncIterator[None]:
    """Run beside the block what it needs, and end it with the block."""
    running = [asyncio.ensure_future(task) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def serve(
    routes: Sequence[BaseRoute],
    *,
    service: str,
    version: str,
    lifespan: Lifespan | None = None,
    ready: Ready | None = None,
    settings: Settings | None = None,
    flags: bool = False,
) -> None:
    """Serve until SIGTERM.

    Args:
        routes: Starlette routes.
        lifespan: as in Starlette; what the service needs while it runs (pools, loops).
        ready: raises Unavailable while the service should get no traffic.
        settings: kept up to date with its file while the service runs; PORT, LOG_LEVEL, LOG_REQUESTS,
            LIMIT_IN_FLIGHT and GRACE_SECONDS are taken from it.
        flags: whether the feature flags are kept up to date.
    """
    settings = settings or Settings.load(service)
    set_up(service, settings.str("LOG_LEVEL", "info"))

    @contextlib.asynccontextmanager
    async def whole(app: Any) -> AsyncIterator[None]:
        jobs = [settings.watch(), metrics.watch_loop(), tracing.exporter.run()]
        if flags:
            from marketlib.flags import flags as feature_flags

            jobs.append(feature_flags.poll())
        async with background(*jobs):
            if lifespan:
                async with lifespan(app):
                    log.info("started", extra={"version": version})
                    yield
            else:
                log.info("started", extra={"version": version})
                yield
        log.info("stopped")

    application = Service(
        routes,
        service=service,
        version=version,
        lifespan=whole,
        ready=ready,
        limit=settings.int("LIMIT_IN_FLIGHT", 200),
        log_requests=settings.bool("LOG_REQUESTS", True),
    )

    def reread() -> None:
        application.limit = settings.int("LIMIT_IN_FLIGHT", 200)
        application.log_requests = settings.bool("LOG_REQUESTS", True)

    settings.on_change(reread)
    config = uvicorn.Config(
        application,
        host="0.0.0.0",
        port=settings.int("PORT", 8000),
        access_log=False,
        log_config=None,
        server_header=False,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        timeout_keep_alive=75,  # longer than any caller keeps an idle connection
        timeout_graceful_shutdown=settings.int("GRACE_SECONDS", GRACE_SECONDS),
    )
    Server(config, application).run()
