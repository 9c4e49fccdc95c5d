"""Whole trials against a shop that is a small program on this machine: real users, real fixes, no cluster.

The shop breaks a moment after the users came and heals when it is told to, so that the conductor,
the windows and the record are exercised end to end; what needs Kubernetes is tested on the box.
"""

import asyncio
import base64
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aftershock.agent.base import AgentContext
from aftershock.agent.credentials import hand_over
from aftershock.agent.resolve import resolve
from aftershock.agent.scripted import FixScript
from aftershock.base.errors import ClusterError, ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.cluster.api import Api
from aftershock.problem.load import read
from aftershock.problem.model import Fix
from aftershock.stack.load import Front, Stack
from aftershock.trial.conduct import conduct
from aftershock.trial.harm import harm
from aftershock.trial.page import write_page
from aftershock.trial.plan import Plan, compile_plan
from aftershock.workload.served import Request

PROBLEM = """\
title: It breaks by itself
summary: The shop answers 503 until somebody asks it to heal.
stack: toy
postmortem: {title: None, url: "https://example.com"}
trigger:
  - wait: {users: served}
suffering: {success_below: 0.5, window: 2, patience: 2, within: WITHIN}
page: {after: 1}
limits: {baseline: 30, agent: 20, judge: 60}
oracle:
  - id: users-served
    family: outcome
    why: Users are served again.
    served: {hold: 3, within: 8, baseline_hold: 1, baseline_within: 4, median_under: 1, fast: {share: 0.9, under: 1}}
"""


class Shop:
    """A shop that is broken from a given second on, unless told to heal."""

    def __init__(self, breaks_after: float) -> None:
        self._breaks_after = breaks_after
        self._begin = 0.0
        self.healed = False
        self.url = ""
        self._orders: dict[str, Any] = {}

    async def _answer(self, request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        self._begin = self._begin or now
        if request.path == "/heal":
            self.healed = True
            return web.Response(text="ok")
        if now - self._begin > self._breaks_after and not self.healed:
            return web.json_response({}, status=503)
        if request.method == "POST":
            order = {**await request.json(), "amount": 100}
            self._orders[order["id"]] = order
            return web.json_response(order, status=201)
        if request.path in ("/products", "/orders"):
            return web.json_response([{"id": 1}])
        return web.json_response(self._orders[request.path.rsplit("/", 1)[1]])

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            await runner.cleanup()


class Nowhere:
    """A cluster that nobody asks for anything."""

    name, nodes, world, capabilities, groups = "nowhere", ("node-1",), None, frozenset(), ()

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def api(self, user: str = "admin") -> Api:
        return Api(self.kubeconfig, kubectl="/bin/true")


def make(tmp_path: Path, shop: Shop, agent: str, *, within: float = 20) -> Plan:
    folder = tmp_path / "problems" / "brown-finch"
    (folder / "fixes").mkdir(parents=True, exist_ok=True)
    (folder / "problem.yaml").write_text(PROBLEM.replace("WITHIN", str(within)))
    (folder / "page.md").write_text("P1: the shop is down\n")
    (folder / "fixes" / "heal.sh").write_text(f"# expect: right\ncurl -sf {shop.url}/heal\necho healed\n")
    (folder / "fixes" / "typo.sh").write_text("# expect: wrong\n# decides: users-served\ncurl -sf $NOWHERE\n")
    users = source_root() / "stacks" / "orders"
    stack = Stack("toy", users, 1, "shop", Front("web", 80, "shop.example", "/"), (), (), "orders", "0")
    return compile_plan(read(folder), stack, agent)


@contextlib.asynccontextmanager
async def nowhere(tmp_path: Path, log: list[str]) -> AsyncIterator[Nowhere]:
    log.append("up")
    (tmp_path / "ca.crt").write_text("a certificate")
    (tmp_path / "kubeconfig").write_text("clusters: [{name: a, cluster: {server: b, certificate-authority: ca.crt}}]\n")
    try:
        yield Nowhere(tmp_path / "kubeconfig")
    finally:
        log.append("down")


async def trial(tmp_path: Path, agent: str, *, breaks_after: float = 4.0, within: float = 20) -> dict[str, Any]:
    shop, log = Shop(breaks_after), list[str]()
    async with shop.open():
        plan = make(tmp_path, shop, agent, within=within)
        document = await conduct(plan, lambda: nowhere(tmp_path, log), tmp_path / "record", front=shop.url)
    assert log == ["up", "down"]
    assert json.loads((tmp_path / "record" / "trial.json").read_text()) == json.loads(json.dumps(document))
    return document


def events(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "record" / "events.jsonl").read_text().splitlines()]


async def test_a_right_fix_succeeds_and_the_record_tells_of_it(tmp_path):
    document = await trial(tmp_path, "fix:heal")
    assert (document["verdict"], document["state"]) == ("succeeded", "finished"), document["why"]
    (check,) = document["checks"]
    assert (check["id"], check["result"], check["mode"]) == ("users-served", "pass", "held")
    ran = document["agent_result"]["details"]
    assert ran["ran"] is True
    assert ran["commands"] == 1
    assert "healed" in Path(ran["output"]).read_text()
    marks = document["marks"]
    order = ["begin", "fault", "trigger", "suffering", "page", "agent_begin", "agent_end", "judge_begin", "judge_end"]
    assert [marks[name] for name in order] == sorted(marks[name] for name in order)
    assert marks["page"] - marks["suffering"] >= 1.0
    assert document["harm"]["failed"] > 10
    assert 0 < document["harm"]["minutes_failed"] < 0.5
    seconds = document["seconds"]
    assert {"total", "restore", "agent", "judge", "baseline", "teardown"} <= set(seconds)
    assert seconds["total"] >= seconds["judge"] + seconds["baseline"]
    stages = [e["stage"] for e in events(tmp_path) if e["event"] == "stage" and e["state"] == "begin"]
    assert stages == [
        "restore", "users", "baseline", "fault", "trigger", "suffering", "page", "agent", "judge", "teardown",
    ]  # fmt: skip
    page = write_page([tmp_path / "record"], tmp_path / "out" / "page.html").read_text()
    assert "succeeded" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


async def test_nobody_answers_and_it_fails_for_a_reason_in_words(tmp_path):
    document = await trial(tmp_path, "nop")
    assert document["verdict"] == "failed"
    assert document["why"].startswith("users-served: 0.0% of ")
    assert "at least 99% must be served" in document["why"]
    assert document["seconds"]["judge"] < 8  # it ended before its limit: no good window could come any more


async def test_a_fix_that_did_not_run_is_told_from_one_that_did(tmp_path):
    document = await trial(tmp_path, "fix:typo")
    assert document["verdict"] == "failed"
    assert document["agent_result"]["ended"] == "crashed"
    assert document["agent_result"]["details"]["ran"] is False
    assert "NOWHERE: unbound variable" in document["why"]


async def test_users_that_never_suffer_make_the_problem_invalid(tmp_path):
    document = await trial(tmp_path, "nop", breaks_after=1e9, within=2)
    assert document["verdict"] == "invalid_problem"
    assert "users never suffered" in document["why"]
    assert "agent_begin" not in document["marks"]


async def test_users_that_were_never_served_are_no_failure_of_the_agent(tmp_path):
    document = await trial(tmp_path, "nop", breaks_after=-1.0)
    assert document["verdict"] == "infra_error"
    assert "users are not served before anything is broken" in document["why"]


async def test_a_cluster_that_does_not_come_is_an_infra_error(tmp_path):
    @contextlib.asynccontextmanager
    async def broken() -> AsyncIterator[Any]:
        raise ClusterError("no space left", where="node-1", todo="free some")
        yield

    plan = make(tmp_path, Shop(1), "nop")
    document = await conduct(plan, broken, tmp_path / "record")
    assert (document["verdict"], document["todo"]) == ("infra_error", "free some")
    assert document["why"] == "during restore: no space left (node-1)"


async def test_an_interrupted_trial_says_so_and_is_taken_down(tmp_path):
    shop, log = Shop(1e9), list[str]()
    async with shop.open():
        plan = make(tmp_path, shop, "nop", within=60)
        task = asyncio.create_task(conduct(plan, lambda: nowhere(tmp_path, log), tmp_path / "record", front=shop.url))
        while not any(e.get("stage") == "suffering" for e in events(tmp_path)) if log else True:
            await asyncio.sleep(0.1)
        assert json.loads((tmp_path / "record" / "trial.json").read_text())["state"] == "running"
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(asyncio.CancelledError):
            await task
    assert log == ["up", "down"]
    document = json.loads((tmp_path / "record" / "trial.json").read_text())
    assert (document["state"], document["verdict"]) == ("interrupted", "infra_error")
    assert document["why"] == "interrupted during suffering"


def test_agents_by_name(tmp_path):
    problem = make(tmp_path, Shop(1), "nop").problem
    assert resolve("nop", problem).name == "nop"
    assert resolve("fix:heal", problem).name == "fix:heal"
    for name, near in (("fix:hael", "heal"), ("npo", "nop"), ("nop:x", "nop"), ("gpt", "fix:heal")):
        with pytest.raises(UsageError) as caught:
            resolve(name, problem)
        assert near in caught.value.todo


def test_what_a_check_refers_to_must_be_there(tmp_path):
    make(tmp_path, Shop(1), "nop")
    folder = tmp_path / "problems" / "brown-finch"
    stack = Stack("toy", folder, 1, "shop", Front("web", 80, "shop.example", "/"), (), (), "orders", "0")
    good = (folder / "problem.yaml").read_text()
    check = "  - {id: a, family: cause, why: because it matters, sql: {query: select 1, equals: 1}}\n"
    (folder / "problem.yaml").write_text(good + check)
    with pytest.raises(ProblemError, match="which database"):
        compile_plan(read(folder), stack, "nop")
    (folder / "problem.yaml").write_text(good.replace("- wait: {users: served}", "- apply: {manifest: a.yaml}"))
    with pytest.raises(ProblemError, match=r"there is no file a\.yaml") as caught:
        compile_plan(read(folder), stack, "nop")
    assert caught.value.where.endswith("problem.yaml:6")


async def run_script(tmp_path: Path, text: str, seconds: float = 10.0):
    script = tmp_path / "it.sh"
    script.write_text(text)
    (tmp_path / "home").mkdir()
    context = AgentContext("page", tmp_path / "conf", Path("/usr/bin"), tmp_path / "home", tmp_path, seconds)
    return await FixScript(Fix("it", script, "right", "", "It mends.")).act(context)


async def test_a_fix_gets_the_agents_environment_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    result = await run_script(tmp_path, "env | sort > seen\nkubectl version --client >/dev/null 2>&1 || true\n")
    assert result.ended == "done"
    seen = dict(line.split("=", 1) for line in (tmp_path / "home" / "seen").read_text().splitlines())
    assert seen["KUBECONFIG"] == str(tmp_path / "conf")
    assert seen["HOME"] == str(tmp_path / "home")
    assert seen["PATH"].startswith("/usr/bin:")
    assert "SECRET" not in seen


async def test_a_fix_that_takes_too_long_is_stopped(tmp_path):
    result = await run_script(tmp_path, "kubectl version --client >/dev/null 2>&1 || true\nsleep 30\n", seconds=1.5)
    assert result.ended == "deadline"
    assert result.seconds < 5


async def test_a_failing_command_in_a_pipe_is_a_crash(tmp_path):
    result = await run_script(tmp_path, "false | cat\ntouch reached\n")
    assert result.ended == "crashed"
    assert not (tmp_path / "home" / "reached").exists()


async def test_a_fix_that_does_nothing_did_not_run(tmp_path):
    result = await run_script(tmp_path, "true\n")
    assert (result.ended, result.details["ran"]) == ("crashed", False)


def test_harm_by_hand():
    def request(n: int, seconds: float | None, ok: bool) -> Request:
        due = 100 + n / 2  # two a second
        return Request(n, due, due, None if seconds is None else due + seconds, "r", ok, 200, "")

    # Seconds 0 to 4: all well; a failure and a stuck one in second 1; slow in 2 and 3; slow but failed in 4.
    requests = [
        request(0, 0.1, True), request(1, 0.1, True), request(2, 0.1, False), request(3, None, False),
        request(4, 1.5, True), request(5, 1.0, True), request(6, 2.0, True), request(7, 0.1, True),
        request(8, 3.0, False), request(9, 0.1, True), request(10, 0.1, False),
    ]  # fmt: skip
    done = harm(requests, 100, 105)
    assert (done.due, done.failed, done.slow) == (10, 3, 2)
    assert done.minutes_failed == round(2 / 60, 3)
    assert done.minutes_slow == round(2 / 60, 3)


def test_the_agents_kubeconfig_names_no_file(tmp_path):
    pki = tmp_path / "boxes" / "pki"
    pki.mkdir(parents=True)
    for name in ("ca.crt", "oncall.crt", "oncall.key", "token"):
        (pki / name).write_text(f"the {name}\n")
    (tmp_path / "boxes" / "oncall.kubeconfig").write_text(
        f"clusters: [{{name: default, cluster: {{server: https://a, certificate-authority: {pki}/ca.crt}}}}]\n"
        "users:\n"
        "- {name: oncall, user: {client-certificate: pki/oncall.crt, client-key: pki/oncall.key}}\n"
        "- {name: other, user: {tokenFile: pki/token}}\n"
        "current-context: default\n"
    )
    home = tmp_path / "home"
    own = hand_over(tmp_path / "boxes" / "oncall.kubeconfig", home)
    assert own == home / ".kube" / "config"
    assert own.stat().st_mode & 0o077 == 0
    assert "boxes" not in own.read_text()
    document = json.loads(own.read_text())
    assert base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]) == b"the ca.crt\n"
    assert sorted(document["users"][0]["user"]) == ["client-certificate-data", "client-key-data"]
    assert document["users"][1]["user"] == {"token": "the token"}
    assert document["current-context"] == "default"
    with pytest.raises(ClusterError, match="not a usable kubeconfig"):
        hand_over(tmp_path / "nothing", home)
