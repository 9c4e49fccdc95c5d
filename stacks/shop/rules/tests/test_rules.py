"""What every alert must have, and that what the rules ask for is what somebody shows."""

import re
from pathlib import Path
from typing import Any

import yaml

SHOP = Path(__file__).parents[2]


def objects(folder: str) -> list[dict[str, Any]]:
    return [o for o in yaml.safe_load_all((SHOP / folder / "manifest.yaml").read_text()) if o]


def groups() -> list[dict[str, Any]]:
    config = next(o for o in objects("rules") if o["kind"] == "ConfigMap")
    return [group for text in config["data"].values() for group in yaml.safe_load(text)["groups"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for group in groups() for rule in group["rules"] if "alert" in rule]


def test_every_alert_has_a_severity_a_summary_and_a_page_of_its_own() -> None:
    names = [alert["alert"] for alert in alerts()]
    assert len(names) > 50
    assert len(names) == len(set(names))
    for alert in alerts():
        assert alert["labels"]["severity"] in ("page", "ticket", "info"), alert["alert"]
        assert alert["annotations"]["summary"]
        page = SHOP / "docs" / alert["annotations"]["runbook"]
        assert page.is_file(), f"{alert['alert']}: {page}"
        assert "Last read through" in page.read_text()


def test_what_wakes_somebody_is_what_customers_feel_or_what_cannot_wait() -> None:
    pages = {alert["alert"] for alert in alerts() if alert["labels"]["severity"] == "page"}
    assert {"ErrorBudgetBurnFast", "ErrorBudgetBurnSlow", "LatencyBudgetBurnFast", "TrafficGone"} <= pages
    assert len(pages) <= 12


def test_a_budget_alert_needs_a_long_and_a_short_window() -> None:
    burns = [alert for alert in alerts() if "BudgetBurn" in alert["alert"]]
    assert len(burns) == 6
    for alert in burns:
        windows = re.findall(r":ratio_rate(\d+[mh]) > ([\d.]+) \* ([\d.]+)", alert["expr"])
        assert len(windows) == 2, alert["alert"]
        assert windows[0][0] == alert["labels"]["window"]
        assert windows[0][1:] == windows[1][1:]


def test_metrics_of_our_own_programs_that_the_rules_ask_for_exist() -> None:
    """Names in the rules, against the names in the sources; kube_, container_ and the like are not ours."""
    sources = "\n".join(path.read_text() for path in SHOP.rglob("*.py") if "tests" not in path.parts)
    recorded = {rule["record"] for group in groups() for rule in group["rules"] if "record" in rule}
    asked: set[str] = set()
    for group in groups():
        for rule in group["rules"]:
            text = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]', " ", rule["expr"])
            text = re.sub(r"\b(?:by|on|without) \([^)]*\)", " ", text)
            asked |= set(re.findall(r"\b[a-z]+(?:[_:][a-z0-9_:]+)+\b", text))
    functions = {"histogram_quantile", "avg_over_time", "sum_over_time", "count_over_time"}
    missing = set()
    for name in asked - recorded - functions:
        if name.startswith(("container_", "kubelet_")):
            continue
        base = re.sub(r"_(?:total|bucket|count|sum)$", "", name)
        kube = name.replace("kube_horizontalpodautoscaler", "{prefix}")
        kube = re.sub(r"resource_(?:limits|requests)$", "resource_{which}", kube)
        if not any(f'"{form}"' in sources for form in (name, base, kube)):
            missing.add(name)
    assert not missing


def test_the_pager_is_outside_and_only_pages_go_there() -> None:
    found = objects("alertmanager")
    config = yaml.safe_load(next(o for o in found if o["kind"] == "ConfigMap")["data"]["alertmanager.yaml"])
    with_hooks = {r["name"] for r in config["receivers"] if r.get("webhook_configs")}
    routes = [r for r in config["route"]["routes"] if r["receiver"] in with_hooks]
    assert [r["matchers"] for r in routes] == [["severity = page"]]
    assert config["route"]["receiver"] not in with_hooks
    service = next(o for o in found if o["kind"] == "Service" and o["metadata"]["name"] == "pager")
    assert "selector" not in service["spec"]
    ends = next(o for o in found if o["kind"] == "EndpointSlice")
    assert ends["endpoints"][0]["addresses"] == ["203.0.113.13"]
