"""Brings the queue's streams to what /etc/market/streams.yaml says: made if they are missing, changed if they differ.

Running it again is harmless; what it does not name it leaves alone. Consumers make themselves.
"""

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import nats
import nats.errors
import nats.js.errors
import yaml
from nats.js import JetStreamManager
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

from marketlib.logs import log, set_up
from marketlib.settings import Settings


def wanted(stream: dict[str, Any]) -> StreamConfig:
    """A stream's declared configuration. `max_age` and `duplicate_window` are in seconds."""
    return StreamConfig(
        name=stream["name"],
        subjects=stream["subjects"],
        storage=StorageType.FILE,
        retention=RetentionPolicy(stream.get("retention", "limits")),
        discard=DiscardPolicy(stream.get("discard", "old")),
        max_age=stream.get("max_age", 0),
        max_bytes=stream.get("max_bytes", -1),
        max_msgs=stream.get("max_msgs", -1),
        duplicate_window=stream.get("duplicate_window", 120),
        num_replicas=1,
    )


async def bring(manager: JetStreamManager, config: StreamConfig) -> str:
    """Make or change one stream; what was done."""
    assert config.name
    try:
        has = asdict((await manager.stream_info(config.name)).config)
    except nats.js.errors.NotFoundError:
        await manager.add_stream(config)
        return "made"
    differs = {key for key, value in asdict(config).items() if value is not None and has.get(key) != value}
    if not differs:
        return "as declared"
    await manager.update_stream(config)
    return f"changed: {', '.join(sorted(differs))}"


async def waiting(error: Exception) -> None:
    log.warning("waiting for the queue", extra={"reason": f"{type(error).__name__}: {error}"})


async def main() -> int:
    set_up("queue-setup")
    settings = Settings.load("queue-setup")
    declared = yaml.safe_load(Path(settings.str("STREAMS", "/etc/market/streams.yaml")).read_text())["streams"]
    connection = await nats.connect(
        settings.str("QUEUE_URL", "nats://nats.data:4222"),
        name="queue-setup",
        connect_timeout=2,
        reconnect_time_wait=0.5,
        max_reconnect_attempts=120,
        allow_reconnect=True,
        error_cb=waiting,
    )
    try:
        for stream in declared:
            done = await bring(connection.jsm(timeout=10), wanted(stream))
            log.info("stream", extra={"stream": stream["name"], "result": done})
    finally:
        await connection.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (nats.errors.Error, OSError) as error:
        log.error("streams are not set up", extra={"reason": f"{type(error).__name__}: {error}"})
        sys.exit(1)
