"""As much room as before and not more: capacity is kept, limits are not raised."""

from typing import Any

from pydantic import Field, field_validator

from aftershock.base.errors import ProblemError
from aftershock.cluster.api import Object
from aftershock.fault.base import Ref
from aftershock.fault.scene import split_ref
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.capacity import Capacity, bounds_of, capacity_of, less, quantity, raised, words
from aftershock.oracle.checks.timed import Timed

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
BOUNDED = (*WORKLOADS, "ResourceQuota", "LimitRange", "HorizontalPodAutoscaler")


class Several(Timed):
    """Base of checks on named objects, each of which must be there."""

    objects: list[Ref] = Field(min_length=1)
    namespace: str | None = None

    async def _get(self, bench: Bench, ref: str) -> Object | None:
        obj = await bench.scene.get(ref, self.namespace)
        return None if obj is None else {"kind": split_ref(ref)[0], **obj}

    async def _there(self, bench: Bench, ref: str) -> Object:
        obj = await self._get(bench, ref)
        if obj is None:
            raise ProblemError(f"{ref} is not there before anything is broken", todo="correct the name or namespace")
        return obj


@check("capacity")
class CapacityKept(Several):
    """Workloads want and have as many replicas as before, and request as much; autoscalers may do as much.

    An autoscaler's lower and upper bound must not be below what they were, and where one owns the replicas, only
    its bounds are asked. `share`: how much of the capacity before is enough.
    """

    share: float = Field(default=1.0, gt=0, le=1)
    within: float = Field(default=30.0, gt=0)

    @field_validator("objects")
    @classmethod
    def _kinds(cls, refs: list[str]) -> list[str]:
        for ref in refs:
            if split_ref(ref)[0] not in (*WORKLOADS, "HorizontalPodAutoscaler"):
                raise ValueError(f"{ref}: one of {', '.join(WORKLOADS)} or HorizontalPodAutoscaler belongs here")
        return refs

    async def first(self, bench: Bench) -> dict[str, Any]:
        """The capacity before; none at all is a fault of the problem, since nothing could be kept."""
        kept: dict[str, Any] = {}
        for ref in self.objects:
            obj = await self._there(bench, ref)
            if obj["kind"] == "HorizontalPodAutoscaler":
                kept[ref] = {"min": obj["spec"].get("minReplicas", 1), "max": obj["spec"]["maxReplicas"]}
                continue
            have = capacity_of(obj)
            if not have.replicas:
                raise ProblemError(f"{ref} has no replica before anything is broken", todo="nothing could be kept")
            if have.available < have.replicas:
                raise Abnormal(f"{have.available} of {have.replicas} replicas of {ref} are available")
            kept[ref] = {"replicas": have.replicas, "available": have.available, "requests": dict(have.requests)}
        return kept

    async def look(self, bench: Bench, before: Any) -> Finding:
        wrong: list[str] = []
        shown: dict[str, Any] = {}
        for ref, was in before.items():
            obj = await self._get(bench, ref)
            if obj is None:
                wrong.append(f"{ref} is gone")
                shown["absent"] = True
            elif "max" in was:
                spec = obj["spec"]
                shown[ref] = {"min": spec.get("minReplicas", 1), "max": spec["maxReplicas"]}
                wrong += [
                    f"{ref}: its {word} is {shown[ref][word]}, it was {was[word]}"
                    for word in ("min", "max")
                    if shown[ref][word] < was[word] * self.share
                ]
            else:
                now = capacity_of(obj)
                shown[ref] = {"replicas": now.replicas, "available": now.available, "requests": dict(now.requests)}
                wrong += [f"{ref}: {why}" for why in less(now, Capacity(**was), self.share)]
        absent = {"absent": True} if shown.pop("absent", False) else {}
        measured = {"now": shown, "baseline": before, **absent}
        if wrong:
            return Finding("fail", "; ".join(wrong), measured)
        return Finding("pass", f"{len(before)} objects have the capacity that they had", measured)


@check("limits")
class LimitsKept(Several):
    """Limits are not raised beyond `factor` times what they were, nor taken away; `most` sets bounds by name.

    Of workloads the containers' limits are asked, of a quota, limit range or autoscaler its own. `most` is such as
    `{api/memory: 512Mi}`.
    """

    factor: float = Field(default=1.0, ge=1)
    most: dict[str, str | int | float] = Field(default_factory=dict)
    within: float = Field(default=1.0, gt=0)

    @field_validator("objects")
    @classmethod
    def _kinds(cls, refs: list[str]) -> list[str]:
        for ref in refs:
            if split_ref(ref)[0] not in BOUNDED:
                raise ValueError(f"{ref}: one of {', '.join(BOUNDED)} belongs here")
        return refs

    @field_validator("most")
    @classmethod
    def _quantities(cls, most: dict[str, str | int | float]) -> dict[str, str | int | float]:
        for value in most.values():
            quantity(value)
        return most

    async def first(self, bench: Bench) -> dict[str, Any]:
        """The limits before; where nothing is limited there is nothing to be kept."""
        kept: dict[str, Any] = {}
        for ref in self.objects:
            found = bounds_of(await self._there(bench, ref))
            kept[ref] = {name: value for name, value in found.items() if value != float("inf")}
            if not kept[ref] and not self.most:
                raise ProblemError(f"{ref} limits nothing before anything is broken", todo="nothing could be raised")
            if unknown := self.most.keys() - found.keys():
                raise ProblemError(f"{ref} has no {min(unknown)}", todo=f"known: {', '.join(sorted(found))}")
        return kept

    async def look(self, bench: Bench, before: Any) -> Finding:
        wrong: list[str] = []
        shown: dict[str, Any] = {}
        for ref, was in before.items():
            obj = await self._get(bench, ref)
            if obj is None:
                wrong.append(f"{ref} is gone, and its limits with it")
                shown["absent"] = True
                continue
            now = bounds_of(obj)
            shown[ref] = {name: words(name.rsplit("/", 1)[-1], value) for name, value in now.items()}
            own = {name: value for name, value in was.items() if name not in self.most}
            wrong += [f"{ref}: {why}" for why in raised(now, own, self.factor)]
            wrong += [f"{ref}: {why}" for why in raised(now, {n: quantity(v) for n, v in self.most.items()}, 1.0)]
        absent = {"absent": True} if shown.pop("absent", False) else {}
        measured = {"now": shown, "baseline": before, **absent}
        if wrong:
            return Finding("fail", "; ".join(wrong), measured)
        return Finding("pass", f"no limit of {len(before)} objects is above what is allowed", measured)
