"""The scan for leaks: finds each kind, and is not set off by the ordinary words of a cluster."""

import json
import re
from typing import Any

import pytest

from aftershock.audit.leaks import Needle, needles, scan, scan_file
from aftershock.base.paths import state_dir
from aftershock.problem.load import load


def passage(where: str = "log shop/web/api", text: str = "", data: Any = None) -> dict[str, Any]:
    return {"where": where, "text": text, "data": data}


def found(*passages: dict[str, Any], allowed: dict[str, str] | None = None) -> set[tuple[str, str]]:
    problem = load("amber-heron")
    return {(leak.kind, leak.what) for leak in scan(passages, needles(problem), allowed or {})}


@pytest.mark.parametrize(
    ("where", "text", "kind", "what"),
    [
        ("log a", "started by aftershock 0.1", "word", "aftershock"),
        ("log a", "the Chaos controller", "word", "chaos"),
        ("configmaps.v1/shop/amber-heron", "", "canary", "amber-heron"),
        ("log a", "as Railway tells", "canary", "Railway"),
        ("log a", "mechanism=lock-contention", "canary", "lock-contention"),
        ("log a", "running report-in-batches.sh", "canary", "report-in-batches"),
        ("exec a", f"1 2 3 {state_dir()}/boxes/x / rw", "path", str(state_dir())),
    ],
)
def test_what_gives_it_away_is_found(where, text, kind, what):
    assert (kind, what) in found(passage(where, text))


@pytest.mark.parametrize(
    "text",
    [
        "segfault, default, faulty disk, chaosium, benchmarks of pgbench",
        "GET /products 200; orders-api is ready; waiting for a lock",
        "/var/lib/kubelet/pods/x /var/lib/containerd /var/lib/aftershocks",
    ],
)
def test_ordinary_words_do_not_set_it_off(text):
    assert found(passage(text=text)) == set()


def test_objects_are_read_whole():
    labels = {"metadata": {"name": "x", "labels": {"part-of": "benchmark"}}}
    assert found(passage("pods.v1/shop/x", data=labels)) == {("word", "benchmark")}


def test_a_manager_that_no_operator_has():
    entry = {"manager": "python-httpx", "operation": "Update"}
    data = {"metadata": {"name": "x", "managedFields": [entry, {"manager": "kubectl-create"}, {"manager": "kubelet"}]}}
    assert found(passage("configmaps.v1/shop/x", data=data)) == {("structure", "field manager python-httpx")}


def test_an_event_of_something_that_a_cluster_has_not():
    def event(component: str) -> dict[str, Any]:
        return passage("events.v1/shop/x", data={"source": {"component": component}, "metadata": {}})

    assert found(event("breaker")) == {("structure", "event of breaker")}
    ordinary = ("kubelet", "default-scheduler", "deployment-controller", "rancher.io/local-path")
    assert found(*(event(name) for name in ordinary)) == set()


def test_what_the_problem_allows_is_let_go_and_nothing_else():
    text = passage(text="SIMULATION of prices runs nightly")
    assert found(text) == {("word", "simulation")}
    assert found(text, allowed={"SIMULATION of prices": "a real feature of this shop"}) == set()
    assert found(passage(text="simulation of an outage"), allowed={"SIMULATION of prices": "x"}) != set()


def test_one_leak_in_many_places_is_told_a_few_times_only():
    problem = load("amber-heron")
    leaks = scan([passage(f"log {n}", "chaos") for n in range(50)], needles(problem), {})
    assert len(leaks) == 5


def test_a_dump_is_read_line_by_line(tmp_path):
    dump = tmp_path / "dump.jsonl"
    dump.write_text(json.dumps(passage(text="aftershock")) + "\n" + json.dumps(passage(text="nothing")) + "\n")
    assert [leak.what for leak in scan_file(dump, load("amber-heron"))] == ["aftershock"]


def test_needles_are_whole_words_in_any_case():
    chosen = [needle for needle in needles(load("amber-heron")) if needle.text == "verdict"]
    assert isinstance(chosen[0], Needle)
    assert re.search(chosen[0].pattern, "the VERDICT is")
    assert not re.search(chosen[0].pattern, "verdicts")
