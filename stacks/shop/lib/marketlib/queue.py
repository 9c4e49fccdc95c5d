"""NATS JetStream: publish once, handle at least once, put aside what cannot be handled.

    queue = Queue(url, "shipping")
    async with queue: ...                                        # in the lifespan
    await queue.publish("orders.paid", {...}, message_id=order)  # taken once, however often it is published
    loop = queue.consumer("ORDERS", "orders.paid", durable="shipping", handle=handle)   # a loop for worker.run

A handler that returns has handled the message. One that raises gets it again after a growing pause; after
`max_deliver` times it goes to `dead.<durable>` with the reason, and is not given to the handler any more.
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

import nats
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from marketlib import context, tracing
from marketlib.errors import Unavailable
from marketlib.logs import log
from marketlib.metrics import BUCKETS, Counter, Gauge, Histogram

__all__ = ["Handler", "Queue", "Unavailable"]

Handler = Callable[[dict[str, Any], Msg], Awaitable[None]]
TARGET = "queue"
TROUBLE = (nats.errors.Error, OSError, TimeoutError)

messages = Counter("queue_messages", "Messages by what became of them.", ["subject", "result"])
handling = Histogram("queue_handler_seconds", "Time that a handler took.", ["subject"], buckets=BUCKETS)
pending = Gauge("queue_pending", "Messages that wait for the consumer.", ["consumer"])
unacked = Gauge("queue_unacknowledged", "Messages given out and not acknowledged yet.", ["consumer"])
connected = Gauge("queue_connected", "1 while there is a connection.")


class Queue:
    """A connection that is made, and made again, in the background."""

    def __init__(self, url: str, service: str, *, timeout: float = 2.0) -> None:
        self._url = url
        self._service = service
        self._timeout = timeout
        self._nats = nats.NATS()
        self._connecting: asyncio.Task[None] | None = None
        connected.set_function(lambda: self._nats.is_connected)

    async def __aenter__(self) -> Self:
        self._connecting = asyncio.create_task(self._connect())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connecting:
            self._connecting.cancel()
        if self._nats.is_connected:
            with contextlib.suppress(*TROUBLE):
                await self._nats.flush(1)  # the last acknowledgements
        with contextlib.suppress(*TROUBLE):
            await self._nats.close()

    async def _connect(self) -> None:
        said = ""
        while True:
            try:
                return await self._nats.connect(
                    self._url,
                    name=self._service,
                    connect_timeout=2,
                    reconnect_time_wait=0.5,
                    max_reconnect_attempts=-1,
                    ping_interval=10,
                    max_outstanding_pings=2,
                    error_cb=self._failed,
                    disconnected_cb=self._lost,
                    reconnected_cb=self._back,
                    allow_reconnect=True,
                )
            except TROUBLE as error:
                if (why := f"{type(error).__name__}: {error}") != said:
                    log.warning("waiting for the queue", extra={"reason": (said := why)})
                await asyncio.sleep(0.5)

    async def _failed(self, error: Exception) -> None:
        log.warning("queue connection", extra={"reason": f"{type(error).__name__}: {error}"})

    async def _lost(self) -> None:
        log.warning("queue connection lost")

    async def _back(self) -> None:
        log.info("queue connection is back")

    async def check(self) -> None:
        """Raise Unavailable while there is no connection."""
        if not self._nats.is_connected:
            raise Unavailable(TARGET, "not connected", sent=False)

    async def ensure_stream(self, name: str, subjects: list[str], **settings: Any) -> None:
        """Make the stream unless it is there. Settings are those of nats' StreamConfig (max_age in seconds)."""
        await self.check()
        stream = self._nats.jetstream(timeout=self._timeout)
        try:
            await stream.stream_info(name)
        except nats.js.errors.NotFoundError:
            with contextlib.suppress(nats.js.errors.BadRequestError):  # another one was faster
                await stream.add_stream(StreamConfig(name=name, subjects=subjects, **settings))
        except TROUBLE as error:
            raise Unavailable(TARGET, f"{type(error).__name__}: {error}") from error

    async def publish(self, subject: str, data: dict[str, Any], *, message_id: str = "") -> None:
        """Publish; returns when the stream has it on its disk. Raises Unavailable when that is not certain.

        Args:
            message_id: messages of one id are taken once, within the stream's window (2 minutes by default).
        """
        await self.check()
        with tracing.span(f"publish {subject}", "producer", **{"messaging.destination.name": subject}):
            headers = {key: value for key, value in context.headers().items() if key != "x-deadline-ms"}
            if message_id:
                headers["Nats-Msg-Id"] = message_id
            try:
                await self._nats.jetstream(timeout=self._timeout).publish(
                    subject, json.dumps(data, default=str).encode(), timeout=self._timeout, headers=headers or None
                )
            except TROUBLE as error:
                messages.labels(subject, "refused").inc()
                raise Unavailable(TARGET, f"{subject}: {type(error).__name__}: {error}") from error
        messages.labels(subject, "published").inc()

    def consumer(
        self,
        stream: str,
        subject: str,
        *,
        durable: str,
        handle: Handler,
        batch: int = 10,
        max_deliver: int = 5,
        ack_wait: float = 30.0,
    ) -> Callable[[asyncio.Event], Awaitable[None]]:
        """A loop that pulls messages of a subject and hands them to `handle`, one after the other.

        Args:
            durable: name of the consumer in the stream; processes of one name share the messages.
            ack_wait: seconds after which a message that nobody acknowledged is given out again.
        """

        async def loop(stop: asyncio.Event) -> None:
            await self.check()
            try:
                subscription = await self._nats.jetstream(timeout=self._timeout).pull_subscribe(
                    subject,
                    durable=durable,
                    stream=stream,
                    config=ConsumerConfig(
                        ack_policy=AckPolicy.EXPLICIT, ack_wait=ack_wait, max_deliver=-1, max_ack_pending=batch * 10
                    ),
                )
                watching = 0.0
                while not stop.is_set():
                    if time.monotonic() - watching > 10:
                        watching = time.monotonic()
                        about = await subscription.consumer_info()
                        pending.labels(durable).set(about.num_pending or 0)
                        unacked.labels(durable).set(about.num_ack_pending or 0)
                    try:
                        found = await subscription.fetch(batch, timeout=2)
                    except TimeoutError:
                        continue
                    for message in found:
                        await self._handle(message, durable, handle, max_deliver)
            except TROUBLE as error:
                raise Unavailable(TARGET, f"{durable}: {type(error).__name__}: {error}") from error

        return loop

    async def _handle(self, message: Msg, durable: str, handle: Handler, max_deliver: int) -> None:
        headers = {key.lower(): value for key, value in (message.headers or {}).items()}
        subject = message.subject
        times = message.metadata.num_delivered or 1
        came = context.received(headers.get("x-request-id", ""), headers.get("traceparent", ""), "", False)
        token = context.enter(came)
        begin = time.perf_counter()
        try:
            with tracing.span(f"handle {subject}", "consumer", **{"messaging.consumer.group.name": durable}):
                if times > max_deliver:  # nobody lived to say what was wrong with it
                    raise RuntimeError(f"not handled in {times - 1} deliveries")
                await handle(json.loads(message.data), message)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            about = {"subject": subject, "consumer": durable, "delivery": times, "reason": why}
            if times >= max_deliver or isinstance(error, json.JSONDecodeError):
                log.error("message put aside", extra=about)
                await self._bury(message, durable, why)
                messages.labels(subject, "dead").inc()
            else:
                log.warning("message not handled, comes again", extra=about)
                await message.nak(delay=random.uniform(0.5, 1.0) * min(60, 2**times))
                messages.labels(subject, "retried").inc()
        else:
            await message.ack()
            messages.labels(subject, "acked").inc()
        finally:
            handling.labels(subject).observe(time.perf_counter() - begin)
            context.leave(token)

    async def _bury(self, message: Msg, durable: str, why: str) -> None:
        """Keep the message where a person can look at it, and only then take it from the consumer."""
        headers = {**(message.headers or {}), "Dead-Subject": message.subject, "Dead-Reason": why[:400]}
        headers["Nats-Msg-Id"] = f"{durable}-{message.metadata.sequence.stream}"
        headers = {key: value.replace("\r", " ").replace("\n", " ") for key, value in headers.items()}
        jetstream = self._nats.jetstream(timeout=self._timeout)
        await jetstream.publish(f"dead.{durable}", message.data, timeout=self._timeout, headers=headers)
        await message.term()
