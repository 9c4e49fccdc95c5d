"""The conductor: one agent at one problem, from a fresh cluster to a verdict.

    restore -> users -> baseline -> fault -> trigger -> suffering -> page -> agent -> judge -> teardown

Each stage is an event with its seconds, and the final document is written anew at each, so that
the record of a killed trial says how far it came. Only `judge` gives a verdict about the agent:
whatever goes wrong before or beside it is the problem's fault (`invalid_problem`: users never
suffered, a check looks at nothing, a step never landed) or ours (`infra_error`: everything else).
"""

import asyncio
import contextlib
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import structlog

from aftershock.agent.base import AgentContext, AgentResult
from aftershock.agent.credentials import hand_over
from aftershock.base.errors import AftershockError, ProblemError
from aftershock.base.record import Record
from aftershock.cluster.base import Cluster
from aftershock.fault.base import NotLanded, blast_of, perform
from aftershock.fault.psql import Databases
from aftershock.fault.scene import Scene
from aftershock.oracle.base import Bench
from aftershock.oracle.pressure import Pressure
from aftershock.oracle.tree import check_results, judge_node, take_baselines
from aftershock.oracle.verdict import decide, deciding
from aftershock.trial.harm import harm
from aftershock.trial.plan import Plan
from aftershock.trial.report import Report
from aftershock.trial.suffering import until_paged, until_suffering
from aftershock.workload.crowd import Users
from aftershock.workload.outside import Outside, world_of

__all__ = ["conduct"]

log = structlog.get_logger()

Factory = Callable[[], AbstractAsyncContextManager[Cluster]]
Listener = Callable[[dict[str, Any]], None]

DEFAULT_RATE = 20.0
AGENT_GRACE = 10.0
BASELINE_GRACE = 10.0


async def conduct(
    plan: Plan,
    factory: Factory,
    folder: Path,
    *,
    listener: Listener | None = None,
    front: str = "",
    seed: int = 1,
    noise: str = "",
) -> dict[str, Any]:
    """Run a trial and return its final document, which is also `trial.json` in its folder.

    Args:
        factory: gives a freshly ready cluster with the stack on it, and takes it away again.
        folder: a new folder for the record.
        listener: gets every event as it happens.
        front: URL of the front door, for a cluster without a world of its own.
        seed: of the users' choices, and of all that is left to chance.
        noise: `off`, `low` or `high`, in the place of the problem's own level.

    Raises:
        asyncio.CancelledError: it was interrupted (also by SIGTERM); the record says so by then.
    """
    record = Record(folder, listener)
    report = Report(plan, folder, seed, noise)
    begin = time.monotonic()
    report.write(record)
    record.event("trial", problem=plan.problem.id, agent=plan.agent.name, digest=plan.problem.digest)
    try:
        with _terminable():
            await _Trial(plan, factory, record, report, front, seed, noise).run()
        report.state = "finished"
    except asyncio.CancelledError:
        report.state = "interrupted"
        report.conclude("infra_error", f"interrupted during {report.stage}", "run it again")
        raise
    except Exception as error:
        report.state = "finished"
        _blame(report, record, error)
    finally:
        report.seconds["total"] = time.monotonic() - begin
        record.event("verdict", verdict=report.verdict, why=report.why, state=report.state)
        document = report.write(record)
        record.close()
    return document


def _blame(report: Report, record: Record, error: Exception) -> None:
    """The verdict for an error: the problem's fault, or ours. A defect of ours keeps its traceback.

    An error after judging is one of taking down, and takes nothing from the verdict.
    """
    if report.verdict is not None:
        record.event("teardown_failed", error=str(error))
        log.error("the trial could not be taken down cleanly", error=str(error))
    elif isinstance(error, ProblemError | NotLanded):
        where = f" ({error.where})" if error.where else ""
        report.conclude("invalid_problem", f"during {report.stage}: {error.what}{where}", error.todo)
    elif isinstance(error, AftershockError):
        where = f" ({error.where})" if error.where else ""
        report.conclude("infra_error", f"during {report.stage}: {error.what}{where}", error.todo)
    else:
        report.conclude("infra_error", f"during {report.stage}: a defect: {type(error).__name__}: {error}", "report it")
        record.event("defect", traceback="".join(traceback.format_exception(error)))
        log.error("a defect ended the trial", stage=report.stage, exc_info=error)


@contextlib.contextmanager
def _terminable() -> Any:
    """Have SIGTERM cancel this task, as SIGINT does already, so that everything is taken down."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    try:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    except (NotImplementedError, RuntimeError, ValueError):  # not the main thread: whoever runs us cancels us
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


class _Trial:
    """The stages, in the order in which they are called."""

    def __init__(
        self, plan: Plan, factory: Factory, record: Record, report: Report, front: str, seed: int, noise: str
    ) -> None:
        self._plan = plan
        self._factory = factory
        self._record = record
        self._report = report
        self._front = front
        self._seed = seed
        self._noise = noise

    async def run(self) -> None:
        report = self._report
        teardown = time.monotonic()
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with self._stage("restore"):
                    cluster = await stack.enter_async_context(self._factory())
                    self._plan.require(cluster)
                sampled = report.folder / "pressure.jsonl"
                pressure = await stack.enter_async_context(Pressure(sampled, own=cluster.groups))
                async with self._stage("users"):
                    if names := self._plan.stack.parties:
                        out = report.folder / "parties"
                        await stack.enter_async_context(Outside(world_of(cluster, names), names, out))
                    users = await stack.enter_async_context(self._users(cluster))
                scene = await self._scene(stack, cluster, users)
                bench = Bench(scene, pressure, tell=self._record.event)
                report.marks["begin"] = users.begin
                try:
                    await self._incident(bench, users)
                    await self._answer(bench)
                    await self._judge(bench)
                finally:
                    self._close_books(users)
                    teardown = time.monotonic()
                    self._record.event("stage", stage="teardown", state="begin")
        finally:
            seconds = report.seconds["teardown"] = time.monotonic() - teardown
            self._record.event("stage", stage="teardown", state="end", seconds=round(seconds, 3))

    @contextlib.asynccontextmanager
    async def _stage(self, name: str, **said: Any) -> AsyncIterator[None]:
        begin = time.monotonic()
        self._report.stage = name
        self._record.event("stage", stage=name, state="begin", **said)
        ended = False
        try:
            yield
            ended = True
        finally:
            self._report.seconds[name] = time.monotonic() - begin
            state = "end" if ended else "broken"
            self._record.event("stage", stage=name, state=state, seconds=round(self._report.seconds[name], 3))
            self._report.write(self._record)

    def _users(self, cluster: Cluster) -> Users:
        stack = self._plan.stack
        return Users(
            cluster.world,
            out=self._report.folder / "users",
            host=stack.front.host,
            front=self._front or cluster.front_url,
            rate=self._plan.problem.users_rate or DEFAULT_RATE,
            seed=self._seed,
            journey=stack.journey,
            journeys=stack.journeys,
            components=stack.components,
        )

    async def _scene(self, stack: contextlib.AsyncExitStack, cluster: Cluster, users: Users) -> Scene:
        api = cluster.api()
        stack.push_async_callback(api.close)
        databases = Databases(api, self._plan.stack.namespace, self._plan.problem.databases)
        stack.push_async_callback(databases.close)
        scene = Scene(cluster, api, self._plan.stack.namespace, self._plan.problem.folder, users, databases)
        scene.seed, scene.noise, scene.tell = self._seed, self._noise or None, self._record.event
        stores = {f"Pod/{database.pod}" for database in self._plan.problem.databases.values()}
        scene.blast = blast_of((*self._plan.fault, *self._plan.trigger)) | stores
        stack.push_async_callback(scene.close)
        return scene

    async def _incident(self, bench: Bench, users: Users) -> None:
        """Baseline, fault and trigger, until users suffer and the page goes out."""
        problem, marks, tell = self._plan.problem, self._report.marks, self._record.event
        async with self._stage("baseline"):
            await self._baseline(bench)
        async with self._stage("fault"):
            marks["fault"] = users.now()
            await self._perform(self._plan.fault, bench, marks["fault"])
        async with self._stage("trigger"):
            marks["trigger"] = users.now()
            await self._perform(self._plan.trigger, bench, marks["trigger"])
        async with self._stage("suffering"):
            marks["suffering"] = await until_suffering(problem.suffering, users)
            tell("suffering", after=round(marks["suffering"] - marks["trigger"], 1))
        async with self._stage("page"):
            await until_paged(problem, users, marks["suffering"])
            marks["page"] = users.now()
            (self._report.folder / "page.md").write_text(problem.page_text())

    async def _baseline(self, bench: Bench) -> None:
        seconds = self._plan.problem.limits.baseline
        for step in (*self._plan.fault, *self._plan.trigger):
            for ref in step.keeps():
                await bench.scene.keep(ref)
        bench.ends = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds + BASELINE_GRACE):
                await bench.scene.databases.open_all()
                self._report.baseline = await take_baselines(self._plan.oracle, bench)
                await bench.scene.databases.forget()
        except TimeoutError:
            raise AftershockError(f"the baseline was not complete within {seconds:g} s", todo="see events") from None
        self._record.document("baseline", self._report.baseline)

    async def _perform(self, steps: Any, bench: Bench, since: float) -> None:
        """A step that did not land is the problem's fault, unless the machine was under pressure."""
        try:
            await perform(steps, bench.scene, self._record.event)
        except NotLanded as late:
            if why := bench.unfair(since, time.time()):
                raise AftershockError(f"{late.what}; the machine was under pressure: {why}", where=late.where) from late
            raise

    async def _answer(self, bench: Bench) -> None:
        """The agent acts; what it raises is its own crash, not ours."""
        plan, folder = self._plan, self._report.folder / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        await bench.scene.databases.forget()
        oncall = bench.scene.cluster.api("oncall")
        kubectl = shutil.which(oncall.kubectl) or oncall.kubectl
        limit = plan.problem.limits.agent
        async with self._stage("agent", agent=plan.agent.name):
            self._report.marks["agent_begin"] = bench.scene.users.now()
            begin = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="oncall-") as home:
                context = AgentContext(
                    page=plan.problem.page_text(),
                    kubeconfig=hand_over(oncall.kubeconfig, Path(home)),
                    kubectl=Path(kubectl).parent,
                    home=Path(home),
                    out=folder,
                    seconds=limit,
                )
                result = await _act(plan, context, begin)
            self._report.agent = result
            self._report.marks["agent_end"] = bench.scene.users.now()
            self._record.event("agent", ended=result.ended, said=result.said, details=result.details)

    async def _judge(self, bench: Bench) -> None:
        report = self._report
        async with self._stage("judge"):
            bench.began = report.marks["judge_begin"] = bench.scene.users.now()
            bench.ends = time.monotonic() + self._plan.problem.limits.judge
            outcome = await judge_node(self._plan.oracle, bench, report.baseline)
            bench.scene.users.check()
            bench.scene.check()
            report.checks = check_results(outcome)
            report.conclude(*decide(outcome))
            report.decided_by = [result.id for result in deciding(outcome)]
            if report.agent and report.agent.ended != "done":
                report.why += f" (the agent {report.agent.ended}: {report.agent.said})"
            report.marks["judge_end"] = bench.scene.users.now()

    def _close_books(self, users: Users) -> None:
        """Add up what users went through, from the first suffering to now."""
        now = users.now()
        self._report.marks["end"] = now
        if (since := self._report.marks.get("suffering")) is not None:
            until = self._report.marks.get("judge_end", now)
            self._report.harm = harm(users.requests(since, until), since, until)


async def _act(plan: Plan, context: AgentContext, begin: float) -> AgentResult:
    try:
        async with asyncio.timeout(context.seconds + AGENT_GRACE):
            return await plan.agent.act(context)
    except TimeoutError:
        return AgentResult("deadline", time.monotonic() - begin, f"stopped after {context.seconds:g} s")
    except AftershockError as error:
        return AgentResult("crashed", time.monotonic() - begin, error.what)
