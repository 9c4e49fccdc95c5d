"""Hooks apart from the judge, one journey among all, recorded pressure, capacity and alerts as data."""

import asyncio
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aftershock.base.run import run
from aftershock.oracle.base import Bench
from aftershock.oracle.capacity import bounds_of, capacity_of, less, raised
from aftershock.oracle.checks.guards import connection_argvs, connection_said
from aftershock.oracle.checks.hook import finding_of, keep
from aftershock.oracle.checks.probe import laxer
from aftershock.oracle.journeys import Rule, look_for
from aftershock.oracle.pressure import Pressure, Recorded, Sample, unfair
from aftershock.oracle.windows import Criteria
from aftershock.workload.served import Request

HOOKS = """
import os, subprocess, sys, time

def good(context):
    print("a word on standard output is no answer")
    return {"result": "pass", "said": f"{len(context.rows['n'])} rows, {context.args['x']}", "before": 3}

def raises(context):
    return 1 / 0

def leaves(context):
    sys.exit(0)

def hangs(context):
    subprocess.Popen(["sleep", "300"])
    time.sleep(300)

def leaks(context):
    # away from its group, its session and its parent
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", context.args["x"]])
        os._exit(0)
    os.wait()
    return {"result": "pass", "said": "nobody will notice"}

def true(context):
    return True

def mute(context):
    return {"result": "pass"}

def killed(context):
    os.kill(os.getpid(), 9)

def stubborn(context):
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)

def odd(context):
    return {"result": "pass", "said": "fine", "thing": object()}
"""


async def hooked(folder: Path, function: str, *, seconds: float = 10, x: str = "here") -> Any:
    (folder / "hooks.py").write_text(HOOKS)
    context = {
        "kubeconfig": "/none", "kubectl": "kubectl", "namespace": "shop", "args": {"x": x}, "before": None,
        "rows": {"n": [["1"], ["2"]]}, "promises": {}, "baseline": False,
    }  # fmt: skip
    job = {"path": str(folder / "hooks.py"), "function": function, "seconds": seconds, "context": context}
    return finding_of(await keep(job), function)


def processes(words: str) -> list[int]:
    """Ids of running processes with this command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text().rsplit(") ", 1)[1][0]
        except OSError:
            continue
        if words in line and state != "Z" and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


async def test_a_hook_answers(tmp_path):
    found = await hooked(tmp_path, "good")
    assert (found.result, found.said, found.measured) == ("pass", "2 rows, here", {"before": 3})


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("raises", "broke: ZeroDivisionError: division by zero"),
        ("leaves", "broke: SystemExit: 0"),
        ("true", "answered True"),
        ("mute", "`said` is missing"),
        ("killed", "ended with -9 and gave no answer"),
        ("odd", "broke: TypeError"),
        ("nowhere", "broke: AttributeError"),
    ],
)
async def test_a_broken_hook_never_passes(tmp_path, function, said):
    found = await hooked(tmp_path, function)
    assert found.result == "unknown"
    assert said in found.said


async def test_a_hook_that_hangs_is_ended_with_what_it_started(tmp_path):
    begin = time.monotonic()
    found = await hooked(tmp_path, "hangs", seconds=1)
    assert (found.result, found.said) == ("unknown", "the hook hangs did not end within 1 s")
    assert time.monotonic() - begin < 5
    assert processes("sleep 300") == []
    assert (await hooked(tmp_path, "stubborn", seconds=0.5)).result == "unknown"
    assert processes("aftershock.oracle.hookrun") == []


async def test_a_process_that_a_hook_leaves_behind_is_found_and_ended(tmp_path):
    found = await hooked(tmp_path, "leaks", x="4711")
    assert found.result == "unknown"
    assert "left processes behind: sleep 4711" in found.said
    assert processes("sleep 4711") == []


async def test_a_judge_that_is_stopped_leaves_nothing_of_a_hook(tmp_path):
    task = asyncio.create_task(hooked(tmp_path, "hangs", seconds=60))
    for _ in range(200):
        if processes("sleep 300"):
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the hook never began")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes("sleep 300") == []
    assert processes("aftershock.oracle.hookrun") == []


async def test_a_judge_that_is_killed_leaves_nothing_of_a_hook(tmp_path):
    (tmp_path / "hooks.py").write_text(HOOKS)
    context = {
        "kubeconfig": "", "kubectl": "", "namespace": "", "args": {}, "before": None, "rows": {}, "promises": {},
        "baseline": False,
    }  # fmt: skip
    job = {"path": str(tmp_path / "hooks.py"), "function": "hangs", "seconds": 60, "context": context}
    script = f"import asyncio, json\nfrom aftershock.oracle.checks.hook import keep\nasyncio.run(keep({job!r}))"
    judge = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    for _ in range(400):
        if processes("sleep 300"):
            break
        await asyncio.sleep(0.05)
    judge.kill()
    await judge.wait()
    for _ in range(100):
        if not processes("sleep 300") and not processes("aftershock.oracle.hookrun"):
            return
        await asyncio.sleep(0.05)
    pytest.fail("something of the hook is left")


RATE = 20.0
RULE = Rule(Criteria(hold=10, success=0.99, fast_share=0.95, fast_under=0.25), frozenset({"pay"}), least=10)


def stream(seconds: float, pay: Any, every: int = 5, now: float = 1e9) -> list[Request]:
    """Twenty requests a second; each fifth pays and fares as `pay(seconds)` says: (latency or None, ok, error)."""
    found = []
    for n in range(int(seconds * RATE)):
        due = n / RATE
        latency, ok, error = pay(due) if n % every == 0 else (0.01, True, "")
        over = latency is None or due + latency > now
        end = None if over else due + latency
        kind = "" if over else ("pay" if n % every == 0 else "browse")
        found.append(Request(n, due, due, end, kind, ok and not over, 200, error))
    return found


def searched(requests: list[Request], rule: Rule = RULE, *, limit: float = 30, now: float = 40):
    return look_for(requests, rule, since=0, limit=limit, now=now)


def test_a_journey_is_judged_by_its_own_requests():
    assert searched(stream(40, lambda s: (0.01, True, ""))).state == "passed"
    bad = searched(stream(40, lambda s: (0.01, False, "HTTP 500")))
    assert (bad.state, bad.faults) == ("failed", ("success", "fast"))
    # one request in five is 20 % of all: one in a hundred would be within the bounds that `served` has
    rare = searched(stream(40, lambda s: (0.01, False, "HTTP 500"), every=100), replace(RULE, least=1))
    assert rare.state == "failed"


def test_a_journey_recovers_in_the_middle():
    found = searched(stream(40, lambda s: (0.01, s > 7, "" if s > 7 else "HTTP 500")))
    assert found.state == "passed"
    assert 7 <= found.fare.window.since <= 8


def test_a_journey_fails_as_soon_as_no_window_can_be_good_any_more():
    """At 23 s of 30 every window of ten seconds has too many failures."""
    requests = stream(23, lambda s: (0.01, False, "HTTP 500"), now=23)
    assert searched(requests, now=23).state == "failed"
    assert searched(stream(5, lambda s: (0.01, True, ""), now=5), now=5).state == "open"


def test_what_hangs_may_be_of_any_journey_until_it_has_ended():
    hanging = lambda s: (None, True, "")  # noqa: E731
    assert searched(stream(12, hanging, now=14), now=14).state == "open"
    assert searched(stream(40, hanging, now=60), now=60).state == "failed"


def test_wrong_answers_and_percentiles_are_asked_apart():
    one_wrong = lambda s: (0.01, s != 5, "" if s != 5 else "wrong: amount is 3")  # noqa: E731
    lenient = replace(RULE, criteria=replace(RULE.criteria, success=0.9, hold=30), correct=1.0)
    found = searched(stream(40, one_wrong), lenient)
    assert (found.state, found.faults, found.fare.wrong) == ("failed", ("correct",), 1)
    assert searched(stream(40, one_wrong), replace(lenient, correct=0.95)).state == "passed"
    slow = lambda s: (0.2 if int(s) % 5 else 2.0, True, "")  # noqa: E731 - a fifth of the seconds
    lenient = replace(RULE, criteria=replace(RULE.criteria, fast_share=0.5), percentiles=((0.75, 1.0),))
    assert searched(stream(40, slow), lenient).state == "passed"
    found = searched(stream(40, slow), replace(lenient, percentiles=((0.9, 1.0),)))
    assert (found.state, found.faults) == ("failed", ("percentile",))
    assert found.fare.latencies == ((0.9, 2.0),)


def test_too_few_requests_of_a_journey_tell_nothing():
    assert searched(stream(40, lambda s: (0.01, True, "")), replace(RULE, least=100)).faults == ("few",)


HEALTHY = json.loads((Path(__file__).parent / "data" / "healthy-under-pressure.json").read_text())


def recorded(entry: dict[str, Any], others: float | None) -> Recorded:
    names = ("cpu_some", "memory_full", "io_full", "steal")
    series = zip(*(entry[name] for name in names), strict=True)
    return Recorded(tuple(Sample(float(t), *values, others=others) for t, values in enumerate(series)))


def test_recorded_trials_that_were_slow_by_their_neighbours_are_called_unfair():
    """The healthy shop before its fault, in real trials beside others: who was slower than asked for was held up."""
    slow = [entry for entry in HEALTHY if entry["fast"] < 0.95]
    quiet = [entry for entry in HEALTHY if max(entry["cpu_some"]) < 0.5]
    assert len(slow) >= 5
    assert len(quiet) >= 8
    for entry in slow:
        assert recorded(entry, others=0.5).unfair(0, 1e9)
    for entry in quiet:
        assert recorded(entry, others=0.5).unfair(0, 1e9) == ""


def test_the_clusters_own_pressure_excuses_nobody():
    """The same seconds, but it was the cluster itself that had the CPU: an agent that burns it gets its verdict."""
    for entry in HEALTHY:
        assert recorded(entry, others=0.05).unfair(0, 1e9) == ""
    assert "waited for CPU" in recorded(HEALTHY[0], others=None).unfair(0, 1e9)  # not known: only the extreme counts


def test_a_recorded_series_is_read_back(tmp_path):
    path = tmp_path / "pressure.jsonl"
    line = {"t": 1.0, "cpu_some": 0.99, "memory_full": 0.0, "io_full": 0.0, "steal": 0.0}
    path.write_text("".join(json.dumps({**line, "t": float(t)}) + "\n" for t in range(10)) + '{"t": 3, "cp')
    assert len(Recorded.read(path).samples) == 10
    bench = Bench(scene=None, pressure=Recorded.read(path))  # type: ignore[arg-type]
    assert bench.unfair(0, 9) == "tasks waited for CPU in 10 of 10 seconds"
    assert bench.unfair(20, 30) == ""


async def test_what_the_cluster_used_itself_is_sampled(tmp_path):
    (tmp_path / "stat").write_text("cpu  100 0 100 800 0 0 0 0 0 0\n")
    group = tmp_path / "group"
    group.mkdir()
    (group / "cpuacct.usage").write_text("1000000000\n")
    async with Pressure(tmp_path / "pressure.jsonl", root=tmp_path, own=(tmp_path / "none", group)) as pressure:
        await asyncio.sleep(0.1)
        (tmp_path / "stat").write_text("cpu  200 0 100 900 0 0 0 0 0 0\n")  # 200 ticks on, 100 of them busy
        (group / "cpuacct.usage").write_text("1600000000\n")  # 0.6 s: 60 of those 100 ticks of 10 ms
        await asyncio.sleep(1.3)
    (one,) = pressure.between(0, 1e12)
    assert one.others == pytest.approx(0.2, abs=0.001)
    assert unfair([replace(one, cpu_some=0.9)] * 3) != ""
    assert unfair([replace(one, cpu_some=0.9, others=0.1)] * 3) == ""


def workload(replicas: int, available: int, cpu: str = "100m", limit: str = "256Mi") -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"memory": limit}}
    containers = [{"name": "api", "resources": resources}]
    return {
        "kind": "Deployment",
        "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
        "status": {"availableReplicas": available},
    }


def test_capacity_is_wanted_available_and_requested():
    before = capacity_of(workload(3, 3))
    assert less(capacity_of(workload(4, 4)), before) == []
    assert less(capacity_of(workload(3, 2)), before) == ["2 replicas are available, it were 3"]
    assert len(less(capacity_of(workload(0, 0)), before)) == 3
    assert less(capacity_of(workload(3, 3, cpu="50m")), before) == ["requests 0.15 cpu, it were 0.3"]
    assert less(capacity_of(workload(2, 2, cpu="150m")), before, share=0.6) == []


def test_limits_are_neither_raised_nor_taken_away():
    before = {name: value for name, value in bounds_of(workload(1, 1)).items() if value != float("inf")}
    assert raised(bounds_of(workload(1, 1)), before, 1) == []
    assert raised(bounds_of(workload(1, 1, limit="512Mi")), before, 1) != []
    assert raised(bounds_of(workload(1, 1, limit="512Mi")), before, 2) == []
    bare = workload(1, 1)
    del bare["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert raised(bounds_of(bare), before, 8) == ["api/memory is without bound, at most 2048Mi is allowed"]


def test_a_probe_that_always_passes_is_laxer():
    before = {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 2, "failureThreshold": 3}
    assert laxer({**before, "failureThreshold": 1000}, before, 2, True) != ""
    assert (
        laxer({"exec": {"command": ["true"]}, "periodSeconds": 2}, before, 2, True) == "it asks exec, it asked httpGet"
    )
    assert laxer({}, before, 2, False) == "it is gone"


async def test_ways_to_try_a_connection_tell_open_from_shut_here(unused_tcp_port: int):
    """Those that this machine has, against a port of its own."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", unused_tcp_port)
    said = {"open": set(), "shut": set()}
    async with server:
        for index, argv in enumerate(connection_argvs("127.0.0.1", unused_tcp_port, 2)[:2]):
            said["open"].add((index, connection_said(await run(argv, check=False, timeout=10))))
    for index, argv in enumerate(connection_argvs("127.0.0.1", unused_tcp_port, 2)[:2]):
        said["shut"].add((index, connection_said(await run(argv, check=False, timeout=10))))
    assert said == {"open": {(0, "open"), (1, "open")}, "shut": {(0, "shut"), (1, "shut")}}
    # a name that does not resolve is no denial
    assert connection_said(await run(connection_argvs("none.invalid", 80, 2)[0], check=False, timeout=10)) == ""
