"""Mistakes known from the field: what a check refuses by itself, and what is told of an oracle before it runs."""

from pathlib import Path
from typing import Any

import pytest

from aftershock.base.errors import ProblemError
from aftershock.oracle.base import Bench, Check, Finding, check
from aftershock.oracle.tree import Node, compile_nodes
from aftershock.oracle.weak import weaknesses
from aftershock.problem.load import load
from aftershock.problem.model import GroupSpec
from aftershock.problem.schema import read_nodes
from aftershock.problem.source import Source


@check("answering")
class Answering(Check):
    """One that a moment decides."""

    async def judge(self, bench: Bench, before: Any) -> Finding:
        return Finding("pass", "it is so")


def told(name: str, family: str) -> str:
    return f"{{id: {name}, family: {family}, why: because it matters, answering: {{}}}}"


def compiled(*items: str, path: Path = Path("problem.yaml")) -> Node:
    source = Source(path, "oracle:\n" + "".join(f"- {item}\n" for item in items))
    return compile_nodes(GroupSpec("all", read_nodes(source, source.data["oracle"], ("oracle",))))


def refused(*items: str) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        compiled(*items)
    assert caught.value.where.startswith("problem.yaml:"), caught.value.where
    assert caught.value.todo
    return caught.value


POD_CHECK = "{{id: a, family: {family}, why: because it matters, {check}}}"


@pytest.mark.parametrize(
    ("check_", "what"),
    [
        ("objects: {kind: Pod, selector: app=web}", "`count` is missing"),
        ("objects: {kind: Pod, selector: app=web, count: {}}", "say how many must match"),
        ("objects: {kind: Pod, field: status.phase, count: {all: true}}", "what the field must be"),
        ("objects: {kind: Pod, equals: Running, count: {all: true}}", "of which `field`"),
        ("promql: {service: 'm:80', query: up, equals: 1, count: {at_most: 3}}", "no series at all"),
        ("promql: {service: 'm:80', query: 'ALERTS{alertname=\"Down\"}', equals: 0}", "silent proves nothing"),
        ("promql: {service: 'm:80', query: up}", "say what is expected"),
        ("log_lines: {selector: app=web, pattern: error, at_most: 0}", "that of a dead program"),
        ("command: {selector: app=web, run: [a], equals: 1, count: {at_most: 1}}", "no pod at all"),
        ("capacity: {objects: [Service/web]}", "or HorizontalPodAutoscaler belongs here"),
        ("limits: {objects: [Deployment/web], factor: 0.5}", "greater than or equal to 1"),
        ("connection_denied: {from: a=b, allowed_from: a=b, to: 'db:5432'}", "are the same pods"),
        ("connection_denied: {from: a=b, to: 'db:5432'}", "`allowed_from` is missing"),
        ("admission_refused: {object: {kind: Pod}}", "`says` is missing"),
        ("probe: {object: Deployment/a, container: b, cut: [{wait: {users: served}}]}", "cannot be undone"),
        ("fingerprint: {table: 'orders; drop table orders'}", "should match pattern"),
        ("hook: {function: f}", "no hooks.py"),
    ],
)
def test_checks_that_could_pass_by_mistake_are_refused(check_, what):
    assert what in refused(POD_CHECK.format(family="cause", check=check_)).what


def test_what_damages_the_system_is_a_challenge():
    cut = "probe: {object: Deployment/a, container: b, cut: [{wait: {users: served}}], back: [{wait: {users: served}}]}"
    assert "judged last" in refused(POD_CHECK.format(family="preservation", check=cut)).todo
    compiled(POD_CHECK.format(family="challenge", check=cut))
    assert "goes with what fires" in refused(told("a", "challenge")).todo


SERVED = "{id: users, family: outcome, why: because it matters, served: {}}"
CAPACITY = "{id: room, family: preservation, why: because it matters, capacity: {objects: [Deployment/web]}}"
AGAIN = (
    "{id: again, family: challenge, why: because it matters, "
    "challenge: {steps: [{roll_out_again: {object: Deployment/web}}]}}"
)


IDLE = AGAIN.replace("roll_out_again: {object: Deployment/web}", "wait: {users: served}").replace(
    "id: again", "id: idle"
)


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (told("a", "outcome"), "momentary"),
        (
            POD_CHECK.format(
                family="cause",
                check="objects: {object: Deployment/web, field: spec.replicas, equals: 3, count: {equals: 1}}",
            ),
            "reference-value",
        ),
        (
            POD_CHECK.format(family="cause", check="objects: {kind: Pod, selector: app=web, count: {at_least: 1}}"),
            "one-replica",
        ),
        (IDLE, "idle-challenge"),
    ],
)
def test_weak_oracles_are_told_before_they_run(item, name):
    assert weaknesses(compiled(SERVED, CAPACITY, AGAIN)) == []
    (found,) = weaknesses(compiled(SERVED, CAPACITY, AGAIN, item))
    assert found.name == name
    assert found.where.startswith("problem.yaml:5")


def test_what_an_oracle_lacks_is_told():
    ready = "objects: {kind: Pod, selector: a=b, field: 'status.conditions[type=Ready].status', equals: 'True', "
    ready = POD_CHECK.format(family="outcome", check=ready + "count: {all: true}, hold: 5}")
    names = {weakness.name for weakness in weaknesses(compiled(ready))}
    assert names == {"users-unasked", "readiness-only", "capacity-unasked", "trigger-unfired"}
    problem = load("amber-heron")
    assert weaknesses(compile_nodes(problem.oracle)) == []
