"""What keeps a service from making another one's trouble worse: a circuit breaker and a retry budget."""

import random
import time
from collections.abc import Callable

__all__ = ["Breaker", "Budget"]

CLOSED, HALF_OPEN, OPEN = 0, 1, 2


class Budget:
    """Retries may be a share of the calls, so that they cannot multiply the load on one that is down.

    Each call puts `ratio` of a token into a bucket that holds `size`; each retry takes one out.
    """

    def __init__(self, ratio: float = 0.1, size: float = 10.0) -> None:
        self.ratio = ratio
        self.size = size
        self.tokens = size

    def called(self) -> None:
        self.tokens = min(self.size, self.tokens + self.ratio)

    def take(self) -> bool:
        """Whether a retry may be made; it is then paid for."""
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Breaker:
    """Stops calls to one that fails, and lets a single one through now and then to see.

    Args:
        ratio: opens when this share of the calls in the window failed,
        minimum: and there were as many as this.
        window: seconds; failures are counted in this window and the one before.
        pause: seconds that it stays open, give or take a fifth, so that callers do not come back as one.
    """

    def __init__(
        self,
        *,
        ratio: float = 0.5,
        minimum: int = 20,
        window: float = 10.0,
        pause: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ratio = ratio
        self.minimum = minimum
        self.window = window
        self.pause = pause
        self.state = CLOSED
        self._clock = clock
        self._until = 0.0
        self._trying = False
        self._begin = clock()
        self._counts = [[0, 0], [0, 0]]  # [calls, failures] of this window and the one before

    def allows(self) -> bool:
        """Whether a call may be made now. Each that may be made must be reported with `note`."""
        if self.state == CLOSED:
            return True
        if self.state == OPEN and self._clock() >= self._until:
            self.state = HALF_OPEN
            self._trying = False
        if self.state == HALF_OPEN and not self._trying:
            self._trying = True
            return True
        return False

    def note(self, good: bool) -> None:
        """Report how a call went."""
        if self.state == HALF_OPEN:
            self._trying = False
            if good:
                self._close()
            else:
                self._open()
            return
        if self.state == OPEN:
            return  # an answer to a call from before it opened
        self._turn()
        self._counts[0][0] += 1
        self._counts[0][1] += not good
        calls = self._counts[0][0] + self._counts[1][0]
        failures = self._counts[0][1] + self._counts[1][1]
        if not good and calls >= self.minimum and failures >= self.ratio * calls:
            self._open()

    def forget(self) -> None:
        """Report that a call was given up by its caller, which tells nothing."""
        self._trying = False

    def _turn(self) -> None:
        passed = self._clock() - self._begin
        if passed >= self.window:
            self._counts = [[0, 0], self._counts[0] if passed < 2 * self.window else [0, 0]]
            self._begin = self._clock()

    def _open(self) -> None:
        self.state = OPEN
        self._until = self._clock() + self.pause * random.uniform(0.8, 1.2)

    def _close(self) -> None:
        self.state = CLOSED
        self._counts = [[0, 0], [0, 0]]
        self._begin = self._clock()
