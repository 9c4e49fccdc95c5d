"""Users are served: a window of so many seconds, within a limit, in which they fare well."""

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from aftershock.base.errors import DeadlinePassed
from aftershock.base.wait import NotYet, until
from aftershock.oracle.base import Abnormal, Bench, Check, Finding, check
from aftershock.oracle.windows import Criteria, Scan, Window, held_up, scan

# What outside pressure can do to a healthy system: slow it, or the users' own program. When it is heavy,
# probes and proxies run out of patience too, and some requests are refused; most are not.
BLAMELESS = {"count", "fast", "median", "lag"}
# How often a limit that was reached under outside pressure is put off, by another `hold` each time.
EXTENSIONS = 2
SURE = 0.5  # with less than this share served it is no healthy system, whatever the machine does


class Fast(BaseModel):
    """At least `share` of the requests are answered well `under` so many seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    share: float = Field(default=0.95, gt=0, le=1)
    under: float = Field(default=0.25, gt=0)


@check("served")
class Served(Check):
    """The users' view, under the unmodified load; ends as soon as no good window can come any more."""

    mode = "held"

    hold: float = Field(default=30.0, gt=0)
    within: float = Field(default=60.0, gt=0)
    success: float = Field(default=0.99, gt=0, le=1)
    fast: Fast = Fast()
    median_under: float | None = Field(default=0.1, gt=0)
    patience: float = Field(default=5.0, gt=0)
    expected: float = Field(default=0.97, gt=0, le=1)
    baseline_hold: float = Field(default=8.0, gt=0)
    baseline_within: float = Field(default=45.0, gt=0)

    def criteria(self, hold: float) -> Criteria:
        return Criteria(
            hold=hold,
            success=self.success,
            fast_share=self.fast.share,
            fast_under=self.fast.under,
            median_under=self.median_under,
            patience=self.patience,
            expected=self.expected,
        )

    async def baseline(self, bench: Bench) -> dict[str, Any]:
        """Users must be served as well as is asked for later, or later is no fair question."""
        found, why = await self._watch(bench, self.baseline_hold, self.baseline_within, bench.scene.users.now())
        if found.state != "passed":
            raise Abnormal(
                f"users are not served before anything is broken: {self._words(found, bench.scene.users.rate)}",
                where=why or "the machine itself was quiet",
                todo="run it again on a quieter machine; if it stays so, look at the stack",
            )
        return asdict(found.window)

    async def judge(self, bench: Bench, before: Any) -> Finding:
        since = bench.began
        found, why = await self._watch(bench, self.hold, self.within, since)
        measured = {**asdict(found.window), "rate": bench.scene.users.rate, "faults": list(found.faults)}
        if before:
            measured["baseline_p50"], measured["baseline_p95"] = before["p50"], before["p95"]
        said = self._words(found, bench.scene.users.rate)
        if found.state == "passed":
            return Finding("pass", said, measured)
        if why and blameless(found):
            return Finding("unknown", f"{said}; the machine was under pressure: {why}", measured, unfair=why)
        if found.state == "open":
            return Finding("unknown", f"the time for judging was over first; {said}", measured, unfair=why)
        return Finding("fail", said, measured)

    async def _watch(self, bench: Bench, hold: float, within: float, since: float) -> tuple[Scan, str]:
        """Look until it is decided; a limit reached under outside pressure is put off (`EXTENSIONS`)."""
        users, criteria = bench.scene.users, self.criteria(hold)
        last: tuple[Scan, str] | None = None

        limit = since + within

        async def look() -> tuple[Scan, str]:
            nonlocal last
            users.check()
            now = users.now()
            found = scan(users.requests(since, now), criteria, rate=users.rate, since=since, limit=limit, now=now)
            why = ""
            if found.state != "passed":
                why = bench.unfair(found.window.since, min(now, found.window.until)) or held_up(found.window)
            if "count" in found.faults:
                why = why or "the users' own program did not send what was due"
            last = found, why
            if found.state == "open":
                raise NotYet(self._words(found, users.rate))
            return last

        for put_off in (0.0, *[hold] * EXTENSIONS):
            limit += put_off
            seconds = min(bench.remaining(), limit - users.now() + criteria.patience + 5.0)
            try:
                found, why = await until(look, what="users are served", seconds=seconds, every=0.5)
            except DeadlinePassed:
                if last is None:
                    raise
                return last
            if found.state == "passed" or not why or not blameless(found):
                break
        return found, why

    def _words(self, found: Scan, rate: float) -> str:
        return describe(found.window, found.faults, self.criteria(found.window.until - found.window.since), rate)


def blameless(found: Scan) -> bool:
    """Whether a machine under pressure can have made a healthy system look like this."""
    faults = set(found.faults)
    if found.window.served_share >= SURE:
        faults.discard("success")
    return bool(found.faults) and faults <= BLAMELESS


def describe(window: Window, faults: tuple[str, ...], criteria: Criteria, rate: float) -> str:
    """A window in words."""
    seconds = window.until - window.since
    share = f"{window.served_share:.1%} of {window.due} requests served"
    fast = f"{window.fast_share:.1%} within {criteria.fast_under * 1000:.0f} ms"
    middle = "no latency" if window.p50 is None else f"median {window.p50 * 1000:.0f} ms"
    words = [f"{share} in {seconds:.0f} s, {fast}, {middle}"]
    if "count" in faults:
        words.append(f"only {window.due} of {rate * seconds:.0f} requests were due")
    if "lag" in faults:
        words.append(f"the users' own program was on time in {window.quiet:.0%} of the seconds only")
    if "success" in faults:
        words.append(f"at least {criteria.success:.0%} must be served")
    if "fast" in faults and "success" not in faults:
        words.append(f"at least {criteria.fast_share:.0%} must be that fast")
    if "median" in faults and criteria.median_under is not None:
        words.append(f"the median must not exceed {criteria.median_under * 1000:.0f} ms")
    return "; ".join(words)
