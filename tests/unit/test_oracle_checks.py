"""Checks against users that fare as a test says, in real time at a hundred requests a second."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.fault.base import Primitive, primitive
from aftershock.oracle.base import Abnormal, Bench, Finding
from aftershock.oracle.tree import Leaf, compile_nodes
from aftershock.problem.schema import read_node
from aftershock.problem.source import Source
from aftershock.workload.served import Request

RATE = 100.0
Fate = Callable[[float], tuple[float | None, bool]]  # seconds since the start -> latency, and whether it is served


class Users:
    """`fate` says what becomes of a request that is due so many seconds after the start."""

    rate = RATE

    def __init__(self, fate: Fate) -> None:
        self._fate = fate
        self.begin = time.time()

    def now(self) -> float:
        return time.time()

    def check(self) -> None:
        pass

    def promises(self) -> dict[str, Any]:
        return {}

    def requests(self, since: float, until: float) -> list[Request]:
        now, found = time.time(), []
        first = max(0, int((since - self.begin) * RATE))
        for n in range(first, int((until - self.begin) * RATE) + 1):
            due = self.begin + n / RATE
            if since <= due < until:
                latency, ok = self._fate(n / RATE)
                end = None if latency is None or due + latency > now else due + latency
                found.append(Request(n, due, due, end, "r", ok and end is not None, 200, ""))
        return found


class Machine:
    def __init__(self, why: str) -> None:
        self._why = why

    def unfair(self, since: float, until: float) -> str:
        return self._why


class Scene:
    def __init__(self, users: Users) -> None:
        self.users = users


def bench_of(fate: Fate, unfair: str = "") -> Bench:
    users = Users(fate)
    return Bench(Scene(users), Machine(unfair), began=users.begin)  # type: ignore[arg-type]


def check_of(text: str, family: str) -> Leaf:
    source = Source(Path("problem.yaml"), f"id: it\nfamily: {family}\nwhy: because it matters\n{text}\n")
    made = compile_nodes(read_node(source, source.data, ()))
    assert isinstance(made, Leaf)
    return made


SERVED = (
    "served: {hold: 0.8, within: 2, patience: 0.5, fast: {share: 0.95, under: 0.1}, "
    "baseline_hold: 0.5, baseline_within: 1}"
)


async def judged(text: str, family: str, fate: Fate, unfair: str = "") -> tuple[Finding, float]:
    begin = time.monotonic()
    found = await check_of(text, family).check.judge(bench_of(fate, unfair), None)
    return found, time.monotonic() - begin


async def test_served_passes_by_a_whole_window():
    found, seconds = await judged(SERVED, "outcome", lambda s: (0.01, True))
    assert found.result == "pass"
    assert found.measured["due"] == 80
    assert 0.8 <= seconds < 2


async def test_served_waits_for_a_late_recovery():
    found, _ = await judged(SERVED, "outcome", lambda s: (0.01, s > 0.6))
    assert found.result == "pass"
    assert found.measured["served_share"] >= 0.99


async def test_served_fails_early_by_stuck_requests():
    found, seconds = await judged(SERVED, "outcome", lambda s: (None, True))
    assert found.result == "fail"
    assert found.measured["faults"][0] == "success"
    assert seconds < 2.3  # the limit of 2 s and the patience of 0.5 s were not waited out


async def test_slowness_under_pressure_is_nobodys_fault():
    found, _ = await judged(SERVED, "outcome", lambda s: (0.3, True), unfair="the hypervisor kept the CPU")
    assert found.result == "unknown"
    assert found.unfair == "the hypervisor kept the CPU"
    found, _ = await judged(SERVED, "outcome", lambda s: (0.3, True))
    assert found.result == "fail"
    assert set(found.measured["faults"]) == {"fast", "median"}


async def test_many_refusals_are_failures_also_under_pressure_and_a_few_cannot_be_told():
    found, _ = await judged(SERVED, "outcome", lambda s: (0.01, False), unfair="the hypervisor kept the CPU")
    assert found.result == "fail"
    few: Fate = lambda s: (0.01, int(s * 10) % 4 > 0)  # noqa: E731 - a quarter of the time
    found, _ = await judged(SERVED, "outcome", few, unfair="the hypervisor kept the CPU")
    assert (found.result, found.unfair) == ("unknown", "the hypervisor kept the CPU")
    assert (await judged(SERVED, "outcome", few))[0].result == "fail"


async def test_a_window_under_pressure_is_put_off_once():
    # Slow until 1.6 s: no window of 0.8 s can end by 2 s, one more does by 2.8 s.
    fate: Fate = lambda s: (0.3 if s < 1.6 else 0.01, True)  # noqa: E731
    assert (await judged(SERVED, "outcome", fate))[0].result == "fail"
    assert (await judged(SERVED, "outcome", fate, unfair="no CPU"))[0].result == "pass"


async def test_an_abnormal_baseline():
    check = check_of(SERVED, "outcome").check
    assert (await check.baseline(bench_of(lambda s: (0.01, True))))["due"] == 50
    with pytest.raises(Abnormal, match="before anything is broken"):
        await check.baseline(bench_of(lambda s: (0.3, True)))


@primitive("toy_step")
class ToyStep(Primitive):
    """Lands, never lands, or breaks."""

    how: str = "lands"

    async def run(self, scene):
        if self.how == "breaks":
            raise ClusterError("the API server does not answer")
        return {}

    async def landed(self, scene, done):
        if self.how == "never":
            raise NotYet("it does not show")


def challenge(how: str = "lands", then: str = "[]") -> str:
    users = "{watch: 1, stall: 0.4, bad_seconds: 1, patience: 0.3}"
    return f"challenge: {{steps: [{{toy_step: {{how: {how}, within: 0.5}}}}], users: {users}, then: {then}}}"


async def test_a_challenge_that_users_do_not_feel():
    found, seconds = await judged(challenge(), "challenge", lambda s: (0.01, s < 0.3 or s > 0.5))
    assert found.result == "pass"
    assert found.measured["gap"] == pytest.approx(0.22, abs=0.02)
    assert 1 <= seconds < 3


async def test_a_challenge_ends_when_users_were_stalled_too_long():
    found, seconds = await judged(challenge(), "challenge", lambda s: (None, True))
    assert found.result == "fail"
    assert "no more than 0.4 s" in found.said
    assert seconds < 1.8


async def test_a_challenge_under_pressure_fails_by_what_leaves_no_doubt():
    busy = "the hypervisor kept the CPU"
    found, _ = await judged(challenge(), "challenge", lambda s: (0.01, s < 0.3), unfair=busy)
    assert found.result == "fail"
    few: Fate = lambda s: (0.01, int(s * 10) % 4 > 0)  # noqa: E731 - bad in both seconds, where one is allowed
    found, _ = await judged(challenge(), "challenge", few, unfair=busy)
    assert (found.result, found.unfair) == ("unknown", busy)
    found, _ = await judged(challenge(), "challenge", few)
    assert found.result == "fail"


async def test_a_challenge_that_cannot_come_about_fails_and_one_that_breaks_cannot_tell():
    found, _ = await judged(challenge("never"), "challenge", lambda s: (0.01, True))
    assert (found.result, found.unfair) == ("fail", "")
    assert "it does not show" in found.said
    found, _ = await judged(challenge("never"), "challenge", lambda s: (0.01, True), unfair="no CPU")
    assert (found.result, found.unfair) == ("unknown", "no CPU")
    found, _ = await judged(challenge("breaks"), "challenge", lambda s: (0.01, True))
    assert found.result == "unknown"
    assert "does not answer" in found.said


async def test_what_follows_a_challenge_decides_too():
    item = (
        "{id: after, family: challenge, why: because it matters, served: {hold: 0.3, within: 0.5, median_under: LIMIT}}"
    )
    for limit, result in (("0.1", "pass"), ("0.001", "fail")):
        text = challenge(then=f"[{item.replace('LIMIT', limit)}]")
        found, _ = await judged(text, "challenge", lambda s: (0.01, True))
        assert found.result == result
        assert found.measured["then"][0]["id"] == "it/after"
