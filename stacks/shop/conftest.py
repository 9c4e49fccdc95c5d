"""What the services' own tests share: a service as one of its releases has it, and a way to ask it."""

import contextlib
import importlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHOP = Path(__file__).parent
LIB = SHOP / "lib"
if str(LIB) not in sys.path:
    sys.path.insert(0, str(LIB))


@contextlib.contextmanager
def release_of(service: str, version: str) -> Iterator[Callable[[str], ModuleType]]:
    """Import modules as they lie in /app of the image; forgets them, and their metrics, at the end."""
    from prometheus_client import REGISTRY

    import marketlib.metrics  # noqa: F401 (its metrics stay)

    folders = [SHOP / service / "releases" / version, SHOP / service / "src"]
    sys.path[:0] = [str(folder) for folder in folders]
    before = set(REGISTRY._collector_to_names)
    loaded = set(sys.modules)
    try:
        yield importlib.import_module
    finally:
        for folder in folders:
            sys.path.remove(str(folder))
        for name in set(sys.modules) - loaded:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if any(Path(file).is_relative_to(folder) for folder in folders):
                del sys.modules[name]
        for collector in set(REGISTRY._collector_to_names) - before:
            module = _maker(collector)
            if not module.startswith("marketlib"):
                REGISTRY.unregister(collector)


def _maker(collector: Any) -> str:
    """The marketlib module that keeps a collector, or nothing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("marketlib.") and any(value is collector for value in vars(module).values()):
            return name
    return ""


@pytest.fixture
def release() -> Iterator[Callable[..., Callable[[str], ModuleType]]]:
    """`release("cart", "1.4.1")("main")` is the module of that release."""
    with contextlib.ExitStack() as stack:
        yield lambda service, version: stack.enter_context(release_of(service, version))


class Answered:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def data(self) -> Any:
        return json.loads(self.body)


async def ask_app(
    app: Any, method: str, path: str, data: Any = None, headers: dict[str, str] | None = None
) -> Answered:
    """One request to an ASGI application, without a network."""
    path, _, query = path.partition("?")
    body = data if isinstance(data, bytes) else b"" if data is None else json.dumps(data).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(key.lower().encode(), value.encode()) for key, value in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {key.decode().lower(): value.decode() for key, value in sent[0]["headers"]}
    return Answered(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]))


@pytest.fixture
def ask() -> Callable[..., Awaitable[Answered]]:
    return ask_app


class Answers:
    """A database that answers with what the test wrote down, in turn; an exception is raised.

    `asked` keeps the queries with their arguments.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []

    @contextlib.asynccontextmanager
    async def transaction(self, **_: Any) -> AsyncIterator[Any]:
        yield self

    async def _next(self, *asked: Any) -> Any:
        self.asked.append(asked)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    fetch = fetchrow = fetchval = execute = _next


@pytest.fixture
def answers() -> type[Answers]:
    return Answers
