"""Alerts as data: what a rules endpoint says of them, and whether an expression could still be true. Pure.

Prometheus and vmalert answer `/api/v1/rules` alike, with small differences: vmalert calls the health of a rule
that has not run yet by an empty word, and gives durations as numbers too.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

__all__ = ["alert_rules", "evaluated_at", "loosened", "silenced_by"]

_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
_BOUND = re.compile(
    r"(?P<op>[<>]=?|[=!]=)\s*(?P<bool>bool\b\s*)?(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?![\w.])", re.I
)
FAR = "1e18"


def alert_rules(answer: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The alerting rules of a name, with their group's interval.

    >>> rules = [{"type": "alerting", "name": "Down", "query": "up == 0"}, {"type": "recording", "name": "Down"}]
    >>> alert_rules({"data": {"groups": [{"name": "g", "interval": 10, "rules": rules}]}}, "Down")
    [{'type': 'alerting', 'name': 'Down', 'query': 'up == 0', 'group': 'g', 'interval': 10.0}]
    """
    return [
        {**rule, "group": group.get("name", ""), "interval": float(group.get("interval") or 60)}
        for group in (answer.get("data") or {}).get("groups") or []
        for rule in group.get("rules") or []
        if rule.get("name") == name and rule.get("type", "alerting") == "alerting"
    ]


def evaluated_at(rule: Mapping[str, Any]) -> float:
    """When a rule was last evaluated, in seconds since the epoch; 0 when never.

    >>> evaluated_at({"lastEvaluation": "1970-01-01T00:02:00.123456789Z"})
    120.123456
    >>> evaluated_at({"lastEvaluation": "0001-01-01T00:00:00Z"}), evaluated_at({})
    (0.0, 0.0)
    """
    text = str(rule.get("lastEvaluation") or "")
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(Z|[+-]\d\d:\d\d)$", text)
    if not match or text.startswith("0001"):
        return 0.0
    zone = "+00:00" if match[3] == "Z" else match[3]
    fraction = f"{match[2]:0<7}" if match[2] else ""
    return datetime.fromisoformat(match[1] + fraction + zone).timestamp()


def loosened(expression: str) -> str:
    """The expression with every bound that is a number moved so far that any sample fulfils it.

    It tells "the alert is silent since all is well" from "it is silent since nothing feeds it". Comparisons of
    two series stay as they are.

    >>> loosened('sum(rate(errors{code=~"5..", path!="a > 3"}[5m])) / sum(rate(all[5m])) > 0.05')
    'sum(rate(errors{code=~"5..", path!="a > 3"}[5m])) / sum(rate(all[5m])) > -1e18'
    >>> loosened("a > 14.4 * 0.005 and b >= 2 and c < .5"), loosened("up == 0"), loosened("a > b")
    ('a > -1e18 * 0.005 and b >= -1e18 and c < 1e18', 'up > -1e18', 'a > b')
    """
    kept = _QUOTED.findall(expression)
    bare = _QUOTED.sub("\x00", expression)

    def far(match: re.Match[str]) -> str:
        op = match["op"] if match["op"][0] in "<>" else ">"
        return f"{op} {match['bool'] or ''}{'-' if op[0] == '>' else ''}{FAR}"

    parts = _BOUND.sub(far, bare).split("\x00")
    return "".join(text + quoted for text, quoted in zip(parts, [*kept, ""], strict=True))


def silenced_by(silences: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> list[str]:
    """The active silences (of Alertmanager's `/api/v2/silences`) that would hide an alert of these labels.

    >>> one = {"id": "7", "status": {"state": "active"}, "createdBy": "ann", "matchers": [
    ...     {"name": "alertname", "value": "Down|Slow", "isRegex": True, "isEqual": True}]}
    >>> silenced_by([one], {"alertname": "Slow"}), silenced_by([one], {"alertname": "Slower"})
    (['7 (ann)'], [])
    """
    return [
        f"{silence.get('id', '?')} ({silence.get('createdBy') or 'nobody'})"
        for silence in silences
        if (silence.get("status") or {}).get("state") == "active"
        and all(_matches(matcher, labels) for matcher in silence.get("matchers") or [])
    ]


def _matches(matcher: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    have = labels.get(matcher["name"], "")
    same: bool = (
        re.fullmatch(matcher["value"], have) is not None if matcher.get("isRegex") else have == matcher["value"]
    )
    return same == bool(matcher.get("isEqual", True))
