"""A probe is still in place, no laxer than it was, and able to fail."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from aftershock.base.errors import AftershockError, DeadlinePassed, ProblemError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.api import pod_ready
from aftershock.fault.base import NotLanded, Primitive, Ref, perform
from aftershock.fault.fields import MISSING, field_of
from aftershock.fault.scene import split_ref
from aftershock.oracle.base import Bench, Check, Finding, Mode, check
from aftershock.oracle.checks.challenge import take_back
from aftershock.oracle.checks.timed import ask_until
from aftershock.oracle.move import compile_moves
from aftershock.problem.model import CheckSpec
from aftershock.problem.schema import read_steps

HANDLERS = ("httpGet", "tcpSocket", "exec", "grpc")
DEFAULTS = {"periodSeconds": 10, "failureThreshold": 3, "timeoutSeconds": 1, "initialDelaySeconds": 0}


def patience_of(probe: Mapping[str, Any]) -> float:
    """Seconds of failure until a probe acts.

    >>> patience_of({"periodSeconds": 5}), patience_of({})
    (15.0, 30.0)
    """
    period = float(probe.get("periodSeconds") or DEFAULTS["periodSeconds"])
    return period * float(probe.get("failureThreshold") or DEFAULTS["failureThreshold"])


def laxer(now: Mapping[str, Any] | None, before: Mapping[str, Any], factor: float, same: bool) -> str:
    """Why a probe tells less than it did; empty when it tells as much.

    >>> old = {"httpGet": {"path": "/ready", "port": 80}, "periodSeconds": 5}
    >>> laxer(None, old, 2, True), laxer({"tcpSocket": {"port": 80}, "periodSeconds": 5}, old, 2, True)
    ('it is gone', 'it asks tcpSocket, it asked httpGet')
    >>> laxer({"httpGet": {"path": "/", "port": 80}}, old, 2, True)
    "it asks httpGet {'path': '/', 'port': 80}, it asked {'path': '/ready', 'port': 80}"
    >>> laxer({"httpGet": {"path": "/up", "port": 80}, "periodSeconds": 60}, old, 2, False)
    'it waits 180 s before it acts, at most 30 s are allowed'
    >>> laxer({**old, "periodSeconds": 10}, old, 2, True)
    ''
    """
    if not now or not any(now.get(handler) for handler in HANDLERS):
        return "it is gone"
    had = next(handler for handler in HANDLERS if before.get(handler))
    have = next(handler for handler in HANDLERS if now.get(handler))
    if same and have != had:
        return f"it asks {have}, it asked {had}"
    if same and now[have] != before[had]:
        return f"it asks {have} {now[have]}, it asked {before[had]}"
    if patience_of(now) > patience_of(before) * factor:
        return f"it waits {patience_of(now):g} s before it acts, at most {patience_of(before) * factor:g} s are allowed"
    return ""


@check("probe")
class Probe(Check):
    """The probe of a container is as it was (`same: false` allows another question), and not much more patient.

    With `cut` it is shown that it can fail: these steps take away what the workload depends on, one of its pods must
    become unready (or be restarted, by a liveness probe) within `fails_within` seconds, then `back` gives it
    back (without it the steps are undone), whatever came of it, and all must be ready again. That damages the
    system: it is a challenge.
    """

    object: Ref
    container: str
    which: Literal["readiness", "liveness", "startup"] = "readiness"
    same: bool = True
    factor: float = Field(default=2.0, ge=1)
    cut: list[Any] = Field(default_factory=list)
    back: list[Any] = Field(default_factory=list)
    fails_within: float = Field(default=30.0, gt=0, le=300)
    namespace: str | None = None
    within: float = Field(default=30.0, gt=0)
    _cut: tuple[Primitive, ...] = PrivateAttr(())
    _back: tuple[Primitive, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _both(self) -> "Probe":
        if self.back and not self.cut:
            raise ValueError("`back` gives back what `cut` takes away")
        return self

    def prepare(self, spec: CheckSpec) -> "Probe":
        if self.cut:
            self._cut = compile_moves(read_steps(spec.source, self.cut, (*spec.at, "cut")))
            self._back = compile_moves(read_steps(spec.source, self.back, (*spec.at, "back")))
            lasting = [step.kind for step in self._cut if type(step).undo is Primitive.undo]
            if lasting and not self.back:
                what = f"`{lasting[0]}` cannot be undone by itself"
                raise spec.source.error(what, (*spec.at, "cut"), "write the steps that give it back: `back`")
        return self

    def time_mode(self) -> Mode:
        return "continuous" if self.cut else "after"

    def disturbs(self) -> bool:
        return bool(self.cut)

    def steps(self) -> tuple[Primitive, ...]:
        return (*self._cut, *self._back)

    def _path(self) -> str:
        return f"spec.template.spec.containers[name={self.container}].{self.which}Probe"

    async def baseline(self, bench: Bench) -> Any:
        value = field_of(await bench.scene.get(self.object, self.namespace), self._path())
        if value is MISSING or not any(value.get(handler) for handler in HANDLERS):
            todo = "correct the object, container or kind of probe: a check over nothing must not pass"
            raise ProblemError(f"{self.object} has no {self.which} probe in {self.container}", todo=todo)
        for step in (*self._cut, *self._back):
            for ref in step.keeps():
                await bench.scene.keep(ref)
        return value

    async def judge(self, bench: Bench, before: Any) -> Finding:
        found = await ask_until(lambda: self._in_place(bench, before), bench, 1.0)
        if found.result != "pass" or not self._cut:
            return found
        undoing = bench.scene.undoing
        mark = len(undoing)
        try:
            failed = await self._cut_off(bench)
        finally:
            try:
                if self._back:
                    await perform(self._back, bench.scene, bench.tell)
                else:
                    while len(undoing) > mark:
                        await undoing.pop().call()
            finally:
                await take_back((*self._cut, *self._back), bench)
        if failed.result == "pass":
            try:
                await until(lambda: self._ready(bench, True), what="it is ready again", seconds=self.within, every=0.5)
            except DeadlinePassed as late:
                return Finding("fail", f"{failed.said}; then {late.what}", failed.measured)
        return failed

    async def _in_place(self, bench: Bench, before: Any) -> Finding:
        obj = await bench.scene.get(self.object, self.namespace)
        if obj is None:
            return Finding("fail", f"{self.object} is gone", {"baseline": before, "absent": True})
        value = field_of(obj, self._path())
        shown = {"value": None if value is MISSING else value, "baseline": before}
        if why := laxer(None if value is MISSING else value, before, self.factor, self.same):
            return Finding("fail", f"{self.which} probe of {self.object}: {why}", shown)
        return Finding("pass", f"the {self.which} probe of {self.object} is in place", shown)

    async def _cut_off(self, bench: Bench) -> Finding:
        restarts = await self._restarts(bench)
        shown: dict[str, Any] = {"restarts": restarts}

        async def notices() -> None:
            if self.which == "readiness":
                await self._ready(bench, False)
            elif await self._restarts(bench) <= restarts:
                raise NotYet("no container was restarted")

        try:
            await perform(self._cut, bench.scene, bench.tell)
            await until(notices, what="the probe notices", seconds=min(self.fails_within, bench.remaining()), every=0.5)
        except DeadlinePassed as late:
            return Finding(
                "fail", f"what {self.object} needs was cut off and its probe saw nothing: {late.what}", shown
            )
        except NotLanded as late:
            return Finding("unknown", f"what it needs could not be cut off: {late.what}", shown)
        except ProblemError:
            raise
        except AftershockError as error:
            return Finding("unknown", error.what, shown)
        return Finding("pass", f"the {self.which} probe of {self.object} is in place, and failed when it had to", shown)

    async def _pods(self, bench: Bench) -> list[dict[str, Any]]:
        obj = await bench.scene.get(self.object, self.namespace)
        if obj is None:
            raise NotYet(f"{self.object} is gone")
        labels = ",".join(f"{key}={value}" for key, value in obj["spec"]["selector"]["matchLabels"].items())
        return await bench.scene.api.list("Pod", self.namespace or bench.scene.namespace, labels=labels)

    async def _ready(self, bench: Bench, wanted: bool) -> None:
        pods = await self._pods(bench)
        ready = sum(pod_ready(pod) for pod in pods)
        if not pods or (ready < len(pods) if wanted else ready == len(pods)):
            raise NotYet(f"{ready} of {len(pods)} pods of {split_ref(self.object)[1]} are ready")

    async def _restarts(self, bench: Bench) -> int:
        return sum(
            status.get("restartCount", 0)
            for pod in await self._pods(bench)
            for status in pod.get("status", {}).get("containerStatuses") or []
        )
