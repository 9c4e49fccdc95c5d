"""What users do: a journey picks the next request and judges its answer.

A journey knows what was promised to its users so far, and reads some of it back: an answer that
differs from what was acknowledged is a wrong answer, however fast it came. Journeys live with their
stack, in its `journeys.py`, which names them in `JOURNEYS`; that module is found by its path.

Journeys of several steps are told as generators (`Sessions`): each `yield` makes one request and gets
its answer. The steps of all users share one open-loop stream: a slow answer holds up its own user,
who is then late for the next step, and somebody else's step takes the slot.
"""

import heapq
import importlib.util
import random
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol

from aftershock.base.errors import ProblemError, UsageError

__all__ = ["Answer", "Ask", "Journey", "Sessions", "Steps", "journey", "module_of"]


@dataclass(frozen=True)
class Ask:
    """One request that a user is about to make.

    Args:
        expect: fields that its answer must hold.
        headers: besides those that every request has.
        user: whoever asks; each user has one source address. None: nobody in particular.
        retries: how often a program behind it asks again when it fails, with growing pauses.
        attempt: written down before it is sent, for what may come about without an answer.
    """

    kind: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    user: int | None = None
    retries: int = 0
    attempt: Mapping[str, Any] | None = None
    good: Callable[[int, Any], str] | None = field(default=None, compare=False)
    promised: Callable[[Any], dict[str, Any] | None] | None = field(default=None, compare=False)
    session: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Answer:
    """What came of a request; `error` is empty when it was as promised."""

    status: int
    data: Any
    error: str


class Journey(Protocol):
    """What the users' program asks of a journey."""

    spread: ClassVar[bool] = False
    """Whether requests come at seeded moments within their slots, not at the beginning of each."""

    def next(self, rng: random.Random) -> Ask:
        """What the next user asks for."""
        ...

    def judge(self, ask: Ask, status: int, answer: Any) -> str:
        """Why this answer is no good; empty when it is as promised."""
        ...

    def promise(self, ask: Ask, answer: Any) -> dict[str, Any] | None:
        """The ledger entry (with an `id`) of a good answer that promises something."""
        ...

    def remember(self, entry: Mapping[str, Any]) -> None:
        """An entry that is in the ledger now, and may be read back from now on."""
        ...

    def done(self, ask: Ask, answer: Answer) -> None:
        """A request has come to its end, well or not."""


Steps = Generator[Ask, Answer, None]


class Sessions(Journey):
    """Users with several steps. A subclass says who comes (`begin`) and gives each a generator of steps.

    Pauses between a user's steps are counted in requests of the whole stream (`PAUSE`, least and most), so
    that they mean the same at any rate, and a seed makes the same users again.
    """

    spread: ClassVar[bool] = True
    PAUSE: ClassVar[tuple[int, int]] = (5, 40)

    def __init__(self, components: frozenset[str] = frozenset()) -> None:
        self.components = components
        self._slot = 0
        self._sessions: dict[int, Steps] = {}
        self._due: list[tuple[int, int, Ask]] = []
        self._count = 0
        self._rng = random.Random(0)

    def begin(self, rng: random.Random) -> Steps:
        """A new user's steps, one at least."""
        raise NotImplementedError

    def next(self, rng: random.Random) -> Ask:
        self._slot += 1
        self._rng = rng
        if self._due and self._due[0][0] <= self._slot:
            return heapq.heappop(self._due)[2]
        self._count += 1
        steps = self.begin(rng)
        ask = _of(next(steps), self._count)
        self._sessions[self._count] = steps
        return ask

    def done(self, ask: Ask, answer: Answer) -> None:
        steps = self._sessions.get(ask.session)
        if steps is None:
            return
        try:
            following = _of(steps.send(answer), ask.session)
        except StopIteration:
            del self._sessions[ask.session]
            return
        heapq.heappush(self._due, (self._slot + self._rng.randint(*self.PAUSE), ask.session, following))

    def judge(self, ask: Ask, status: int, answer: Any) -> str:
        return ask.good(status, answer) if ask.good else "" if status == 200 else f"HTTP {status}"

    def promise(self, ask: Ask, answer: Any) -> dict[str, Any] | None:
        return ask.promised(answer) if ask.promised else None

    def remember(self, entry: Mapping[str, Any]) -> None:
        pass


def _of(ask: Ask, session: int) -> Ask:
    return Ask(**{**vars(ask), "session": session})


def module_of(path: Path) -> ModuleType:
    """A stack's own module, by its path.

    Raises:
        UsageError: there is none.
        ProblemError: it cannot be imported.
    """
    if not path.is_file():
        raise UsageError(
            "the stack has no such module", where=str(path), todo="write it, see stacks/orders/journeys.py"
        )
    name = f"stack_{path.parent.name.replace('-', '_')}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ProblemError(f"cannot be imported: {type(error).__name__}: {error}", where=str(path)) from error
    return module


def journey(name: str, path: Path, components: Iterable[str] = ()) -> Journey:
    """A journey by its name, from a stack's module, for a stack of these components.

    Raises:
        UsageError: the module names no such journey.
    """
    known: Mapping[str, Callable[[frozenset[str]], Journey]] = getattr(module_of(path), "JOURNEYS", {})
    if name not in known:
        raise UsageError(f"there is no journey `{name}`", where=str(path), todo=f"known: {', '.join(sorted(known))}")
    return known[name](frozenset(components))
