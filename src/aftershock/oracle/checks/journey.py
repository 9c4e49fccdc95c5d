"""One journey's objective: success, latency and correctness of these requests, held under the unmodified load."""

from dataclasses import asdict
from typing import Any

from pydantic import Field, field_validator

from aftershock.base.errors import DeadlinePassed, ProblemError
from aftershock.base.wait import NotYet, until
from aftershock.oracle.base import Abnormal, Bench, Check, Finding, check
from aftershock.oracle.checks.served import BLAMELESS, EXTENSIONS, SURE, Fast
from aftershock.oracle.journeys import Fare, Rule, Search, look_for
from aftershock.oracle.windows import Criteria, held_up


@check("journey")
class Journey(Check):
    """These `kinds` of requests are served: so many, so fast, and with what was promised.

    `served` judges all users as one, and a journey of one request in fifty may fail wholly within its bounds. A
    percentile is a share under an absolute bound (`{0.95: 0.5}`: of a hundred ninety-five within half a second),
    never a multiple of the baseline's, which measures the machine. `correct` counts answers that were given and wrong.
    """

    mode = "held"

    kinds: list[str] = Field(min_length=1)
    hold: float = Field(default=30.0, gt=0)
    within: float = Field(default=90.0, gt=0)
    success: float = Field(default=0.99, gt=0, le=1)
    fast: Fast = Fast()
    median_under: float | None = Field(default=None, gt=0)
    percentiles: dict[float, float] = Field(default_factory=dict)
    correct: float = Field(default=1.0, gt=0, le=1)
    least: int = Field(default=20, ge=1)
    patience: float = Field(default=5.0, gt=0, le=10)
    baseline_hold: float = Field(default=8.0, gt=0)
    baseline_within: float = Field(default=60.0, gt=0)

    @field_validator("percentiles")
    @classmethod
    def _shares(cls, percentiles: dict[float, float]) -> dict[float, float]:
        if any(not 0 < share <= 1 or limit <= 0 for share, limit in percentiles.items()):
            raise ValueError("share (0 to 1): seconds, for example {0.95: 0.5}")
        return percentiles

    def rule(self, hold: float, least: int) -> Rule:
        criteria = Criteria(
            hold=hold,
            success=self.success,
            fast_share=self.fast.share,
            fast_under=self.fast.under,
            median_under=self.median_under,
            patience=self.patience,
        )
        percentiles = tuple(sorted(self.percentiles.items()))
        return Rule(criteria, frozenset(self.kinds), self.correct, percentiles, least)

    async def baseline(self, bench: Bench) -> dict[str, Any]:
        """The journey must do as well as is asked for later. Kinds that no user has are a fault of the problem."""
        least = max(1, int(self.least * self.baseline_hold / self.hold))
        rule = self.rule(self.baseline_hold, least)
        found, why = await self._watch(bench, rule, self.baseline_within, bench.scene.users.now())
        if found.state == "passed":
            return {"due": found.fare.window.due, "p50": found.fare.window.p50, "p95": found.fare.window.p95}
        if found.faults == ("few",) and not found.fare.window.due:
            users = bench.scene.users
            seen = {r.kind for r in users.requests(users.now() - 30, users.now()) if r.kind}
            raise ProblemError(f"no request is one of {', '.join(self.kinds)}", todo=f"there are: {', '.join(seen)}")
        raise Abnormal(
            f"the journey is not served before anything is broken: {self._words(found)}",
            where=why or "the machine itself was quiet",
        )

    async def judge(self, bench: Bench, before: Any) -> Finding:
        found, why = await self._watch(bench, self.rule(self.hold, self.least), self.within, bench.began)
        measured = {**asdict(found.fare.window), "wrong": found.fare.wrong, "faults": list(found.faults)}
        measured |= {f"p{share * 100:g}": value for share, value in found.fare.latencies} | {"baseline": before}
        said = self._words(found)
        if found.state == "passed":
            return Finding("pass", said, measured)
        blameless = set(found.faults) - ({"success"} if found.fare.window.served_share >= SURE else set())
        if why and blameless <= BLAMELESS | {"percentile", "few"}:
            return Finding("unknown", f"{said}; the machine was under pressure: {why}", measured, unfair=why)
        if found.state == "open":
            return Finding("unknown", f"the time for judging was over first; {said}", measured, unfair=why)
        return Finding("fail", said, measured)

    async def _watch(self, bench: Bench, rule: Rule, within: float, since: float) -> tuple[Search, str]:
        """Look until it is decided; as long as the machine is to blame the limit is put off, `EXTENSIONS` times."""
        users, limit = bench.scene.users, since + within
        last: tuple[Search, str] | None = None

        async def look() -> tuple[Search, str]:
            nonlocal last
            users.check()
            now = users.now()
            found = look_for(users.requests(since, now), rule, since=since, limit=limit, now=now)
            window = found.fare.window
            why = ""
            if found.state != "passed":
                why = bench.unfair(window.since, min(now, window.until)) or held_up(window)
            last = found, why
            if found.state == "open":
                raise NotYet(self._words(found))
            return last

        for put_off in (0.0, *[rule.criteria.hold] * EXTENSIONS):
            limit += put_off
            seconds = min(bench.remaining(), limit - users.now() + rule.ends + 5.0)
            try:
                found, why = await until(look, what="the journey is served", seconds=max(seconds, 0.1), every=0.5)
            except DeadlinePassed:
                if last is None:
                    raise
                return last
            if found.state == "passed" or not why:
                break
        return found, why

    def _words(self, found: Search) -> str:
        return describe(found.fare, found.faults, "/".join(self.kinds))


def describe(seen: Fare, faults: tuple[str, ...], name: str) -> str:
    """A journey's window in words."""
    window = seen.window
    words = [
        f"{name}: {window.served_share:.1%} of {window.due} requests served in {window.until - window.since:.0f} s"
    ]
    words += [
        f"{window.fast_share:.1%} fast, median " + ("none" if window.p50 is None else f"{window.p50 * 1e3:.0f} ms")
    ]
    for share, value in seen.latencies:
        words.append(f"{share:.0%} within " + ("no time at all" if value is None else f"{value * 1e3:.0f} ms"))
    if seen.wrong:
        words.append(f"{seen.wrong} answers wrong")
    if faults:
        words.append(f"not as asked for: {', '.join(faults)}")
    return "; ".join(words)
