"""Settings: the environment over the file of the service's ConfigMap, read again when it changes.

    settings = Settings.load("catalog")
    settings.int("POOL_SIZE", 10)

In the file, /etc/market/<service>.yaml, names may be in small letters. Who wants new values without a
restart asks each time; who keeps something built from them registers with `on_change`.
"""

from __future__ import annotations  # the getters are named like types

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from marketlib.logs import log
from marketlib.metrics import Counter

__all__ = ["SettingError", "Settings"]

FOLDER = "/etc/market"
POLL_SECONDS = 5.0
TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

reloads = Counter("settings_reloads", "Times that the settings file was read again.", ["result"])


class SettingError(Exception):
    """A setting that cannot be used; the text says which and where it came from."""


class Settings:
    """Typed access to settings. All getters raise SettingError for a value of the wrong kind."""

    def __init__(self, path: Path | None, env: Mapping[str, str]) -> None:
        self.path = path
        self._env = env
        self._file: dict[str, Any] = {}
        self._stamp = 0
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def load(cls, service: str = "", *, path: Path | None = None, env: Mapping[str, str] | None = None) -> Self:
        """Read the settings of a service; a service without a file lives on its environment alone.

        Args:
            service: its name; $SERVICE where it is not given.
            path: another file than /etc/market/<service>.yaml (or $SETTINGS_FILE).
        """
        env = os.environ if env is None else env
        name = service or env.get("SERVICE", "")
        if path is None and (given := env.get("SETTINGS_FILE", "")):
            path = Path(given)
        elif path is None and name:
            path = Path(FOLDER) / f"{name}.yaml"
        settings = cls(path, env)
        settings._read()
        return settings

    def _read(self) -> bool:
        """Read the file if it is another than last time; says whether it was."""
        if self.path is None:
            return False
        try:
            about = self.path.stat()
        except FileNotFoundError:
            return False
        stamp = hash((about.st_mtime_ns, about.st_ino, about.st_size))
        if stamp == self._stamp:
            return False
        import yaml  # only services with a file pay for it

        try:
            data = yaml.safe_load(self.path.read_text()) or {}
        except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
            raise SettingError(f"{self.path} cannot be read: {error}") from error
        if not isinstance(data, dict):
            raise SettingError(f"{self.path} must hold names and values")
        self._file = {str(key).upper(): value for key, value in data.items()}
        self._stamp = stamp
        return True

    def reload(self) -> bool:
        """Read the file again. A broken one is logged and the old values stay."""
        try:
            changed = self._read()
        except SettingError as error:
            reloads.labels("refused").inc()
            log.error("settings not reloaded, the old ones stay", extra={"reason": str(error)})
            return False
        if changed:
            reloads.labels("done").inc()
            log.info("settings reloaded", extra={"path": str(self.path)})
            for listener in self._listeners:
                listener()
        return changed

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def watch(self) -> None:
        """Reload when the file changes, or at once on SIGHUP."""
        nudge = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, nudge.set)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(nudge.wait(), POLL_SECONDS)
                nudge.clear()
                self.reload()
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    def _get(self, name: str) -> tuple[Any, str]:
        if name in self._env:
            return self._env[name], f"${name}"
        if name in self._file:
            return self._file[name], f"{name.lower()} in {self.path}"
        return None, ""

    def str(self, name: str, default: str = "") -> str:
        value, _ = self._get(name)
        return default if value is None else str(value)

    def int(self, name: str, default: int) -> int:
        value, where = self._get(name)
        try:
            return default if value is None else int(value)
        except (ValueError, TypeError):
            raise SettingError(f"{where} must be a whole number, it is {value!r}") from None

    def float(self, name: str, default: float) -> float:
        value, where = self._get(name)
        try:
            return default if value is None else float(value)
        except (ValueError, TypeError):
            raise SettingError(f"{where} must be a number, it is {value!r}") from None

    def bool(self, name: str, default: bool) -> bool:
        value, where = self._get(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        if str(value).lower() in TRUE + FALSE:
            return str(value).lower() in TRUE
        raise SettingError(f"{where} must be true or false, it is {value!r}")

    def seconds(self, name: str, default: float) -> float:
        """A duration: a number of seconds, or one with a unit (250ms, 2s, 5m, 1h)."""
        value, where = self._get(name)
        if value is None:
            return default
        text = str(value).strip()
        for unit in sorted(UNITS, key=len, reverse=True):
            if text.endswith(unit) and text[: -len(unit)].replace(".", "", 1).isdigit():
                return float(text[: -len(unit)]) * UNITS[unit]
        try:
            return float(text)
        except ValueError:
            raise SettingError(f"{where} must be a duration such as 250ms or 2s, it is {value!r}") from None
