"""Secrets as the rotator sees them: values, when they were last changed, and whether someone asked for more."""

import base64
import datetime
from typing import Any

from kube.client import Cluster, Object

__all__ = ["MANAGER", "asked", "paused", "rotated_at", "values", "write"]

MANAGER = "rotator"
PREFIX = "rotator.market.example"


def values(secret: Object) -> dict[str, bytes]:
    """The decoded values."""
    return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}


def _note(secret: Object, name: str) -> str:
    return str((secret["metadata"].get("annotations") or {}).get(f"{PREFIX}/{name}", ""))


def rotated_at(secret: Object, key: str = "") -> datetime.datetime | None:
    """When the Secret, or one key of it, was last rotated; None where that is not known."""
    try:
        return datetime.datetime.fromisoformat(_note(secret, f"rotated-at{'.' if key else ''}{key}"))
    except ValueError:
        return None


def asked(secret: Object) -> set[str]:
    """What an operator wants rotated now: names of keys, or `all`, in the annotation `rotate`."""
    return {name.strip() for name in _note(secret, "rotate").split(",") if name.strip()}


def paused(secret: Object) -> bool:
    return _note(secret, "pause") == "true"


async def write(
    cluster: Cluster,
    secret: Object,
    new: dict[str, bytes | None],
    *,
    stamp: str = "",
    done: bool = False,
) -> None:
    """Change values of a Secret; None removes one.

    Args:
        stamp: name of the annotation that gets the time.
        done: take back an operator's request.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    notes: dict[str, Any] = {}
    if stamp:
        notes[f"{PREFIX}/{stamp}"] = now
    if done:
        notes[f"{PREFIX}/rotate"] = None
    patch = {
        "metadata": {"annotations": notes},
        "data": {key: None if value is None else base64.b64encode(value).decode() for key, value in new.items()},
    }
    meta = secret["metadata"]
    await cluster.merge("v1", "Secret", meta["name"], meta["namespace"], patch)
