"""An alert is still in place, and able to fire."""

from typing import Any

from pydantic import Field

from aftershock.base.errors import ClusterError, ProblemError
from aftershock.oracle.alerts import alert_rules, evaluated_at, loosened, silenced_by
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.promql import SERVICE, Unserved, ask_service, series_of
from aftershock.oracle.checks.timed import Timed


@check("alert_able")
class AlertAble(Timed):
    """The rule is there as it was, is evaluated, is fed, and nobody has silenced it.

    A silent alert proves nothing by itself: the outage's own alert is silent too when somebody turned it off,
    or when the source of its metrics is gone. So four things are asked: the rule with its expression (`may_change`
    to allow another one), not waiting longer than before; its last evaluation, healthy and recent; its expression
    with all bounds moved so far that any sample fulfils it (or `synthetic`, an expression of one's own), which must
    give a series; and with `alertmanager`, that no silence hides it.
    """

    rules: str = Field(pattern=SERVICE)
    metrics: str = Field(pattern=SERVICE)
    alertmanager: str = Field(default="", pattern=f"^$|{SERVICE}")
    name: str = Field(min_length=1)
    synthetic: str = ""
    may_change: bool = False
    within: float = Field(default=40.0, gt=0)

    async def _rules(self, bench: Bench) -> list[dict[str, Any]]:
        return alert_rules(await ask_service(bench, self.rules, "/api/v1/rules"), self.name)

    async def first(self, bench: Bench) -> list[dict[str, Any]]:
        """The rules of that name, which must be able to fire while all is well."""
        try:
            rules = await self._rules(bench)
        except ClusterError as error:
            raise Abnormal(f"the alerts cannot be asked for before anything is broken: {error.what}") from error
        if not rules:
            raise ProblemError(f"no alert is called {self.name}", todo=f"see /api/v1/rules of {self.rules}")
        if why := await self._unfed(bench, rules[0]):
            raise ProblemError(why, todo="give an expression of your own: `synthetic`")
        keys = ("query", "duration", "labels", "group")
        return [{key: rule.get(key) for key in keys} for rule in rules]

    async def _unfed(self, bench: Bench, rule: dict[str, Any]) -> str:
        expression = self.synthetic or loosened(str(rule.get("query", "")))
        if series_of(await ask_service(bench, self.metrics, "/api/v1/query", query=expression)):
            return ""
        return f"{self.name} could not fire: nothing feeds it (`{expression}` gives no series)"

    async def look(self, bench: Bench, before: Any) -> Finding:
        try:
            return await self._look(bench, before)
        except Unserved as error:
            return Finding(
                "fail", f"{self.name} would reach nobody: {error.what}", {"baseline": before, "absent": True}
            )

    async def _look(self, bench: Bench, before: Any) -> Finding:
        rules = await self._rules(bench)
        shown: dict[str, Any] = {"rules": len(rules), "baseline": before}
        if len(rules) < len(before or [1]):
            return Finding("fail", f"of {len(before or [1])} rules called {self.name} {len(rules)} are left", shown)
        if why := self._weaker(rules, before or []):
            return Finding("fail", why, shown)
        for rule in rules:
            health = rule.get("health") or "unknown"
            if health not in ("ok", "unknown"):
                return Finding("fail", f"{self.name} is not healthy: {rule.get('lastError') or health}", shown)
            age = bench.scene.users.now() - evaluated_at(rule)
            shown["evaluated_ago"] = round(age, 1)
            if age > 3 * rule["interval"] + 15:
                return Finding("fail", f"{self.name} has not been evaluated for {age:.0f} s", shown)
        if why := await self._unfed(bench, rules[0]):
            return Finding("fail", why, shown)
        if self.alertmanager:
            silences = await ask_service(bench, self.alertmanager, "/api/v2/silences")
            labels = {"alertname": self.name, **(rules[0].get("labels") or {})}
            if by := silenced_by(silences, labels):
                return Finding("fail", f"{self.name} is silenced by {', '.join(by)}", shown)
        return Finding("pass", f"{self.name} is in place, evaluated, fed and not silenced", shown)

    def _weaker(self, rules: list[dict[str, Any]], before: list[dict[str, Any]]) -> str:
        now = {str(rule.get("query")): rule for rule in rules}
        for was in before:
            rule = now.get(str(was["query"]))
            if rule is None and not self.may_change:
                return f"the expression of {self.name} is another: it was `{was['query']}`"
            rule = rule or rules[0]
            if float(rule.get("duration") or 0) > float(was.get("duration") or 0):
                return f"{self.name} waits {rule['duration']} s before it fires, it was {was.get('duration') or 0} s"
            if (was.get("labels") or {}) != (rule.get("labels") or {}):
                return f"the labels of {self.name} are {rule.get('labels')}, they were {was.get('labels')}"
        return ""
