"""The command `trial`: one agent at one problem, told as it happens."""

import secrets
import time
from pathlib import Path
from typing import Any

import typer

from aftershock.cli.output import Output, escape, run_async

JSON = typer.Option(False, "--json", help="Print one JSON record last.")


def trial(
    problem: str = typer.Argument(help="Id of the problem."),
    agent: str = typer.Option("nop", "--agent", "-a", help="nop, or fix:NAME."),
    record: str = typer.Option("", "--record", help="Folder of the record; a new one under ./runs by default."),
    kubeconfig: str = typer.Option("", "--kubeconfig", help="Use this existing cluster instead of a box."),
    context: str = typer.Option("", "--context", help="Context of that kubeconfig."),
    front: str = typer.Option("", "--front", help="URL of the front door of that cluster, if not a node port."),
    noise: str = typer.Option("", "--noise", help="off, low or high, in the place of the problem's own level."),
    seed: int = typer.Option(1, "--seed", help="Of the users' choices, and of all that is left to chance."),
    keep: bool = typer.Option(False, "--keep", help="Leave the box as it is at the end, to be looked at."),
    as_json: bool = JSON,
) -> None:
    """Bring an incident about on a fresh cluster, let an agent answer it, and judge."""
    out = Output(as_json)
    chosen = {"record": record, "kubeconfig": kubeconfig, "context": context, "front": front, "noise": noise}
    document = run_async(out, run_trial(out, problem, agent, **chosen, seed=seed, keep=keep))
    show_verdict(out, document)
    out.result(**document)
    raise typer.Exit(0 if document["verdict"] in ("succeeded", "failed", "unsafe") else 4)


async def run_trial(
    out: Output,
    problem: str,
    agent: str,
    *,
    record: str = "",
    kubeconfig: str = "",
    context: str = "",
    front: str = "",
    noise: str = "",
    seed: int = 1,
    keep: bool = False,
) -> dict[str, Any]:
    """Plan, conduct and draw one trial."""
    from contextlib import AbstractAsyncContextManager

    from aftershock.base.errors import UsageError
    from aftershock.base.paths import records_dir
    from aftershock.cluster.base import Cluster
    from aftershock.stack.provide import on_fresh_cluster, saved
    from aftershock.trial.conduct import conduct
    from aftershock.trial.page import write_page
    from aftershock.trial.plan import plan
    from aftershock.workload.warm import warm

    if noise not in ("", "off", "low", "high"):
        raise UsageError(f"`{noise}` is no level of noise", todo="give off, low or high")
    planned = plan(problem, agent)
    folder = (
        Path(record).resolve()
        if record
        else records_dir() / f"{time.strftime('%Y%m%d-%H%M%S')}-{problem}-{agent.replace(':', '-')}"
    )
    if kubeconfig:
        from aftershock.cluster.existing import open_existing
        from aftershock.stack.provide import on_existing

        existing = await open_existing(Path(kubeconfig), context or None)
        planned.require(existing)

        def factory() -> AbstractAsyncContextManager[Cluster]:
            return on_existing(existing, planned.stack, front=front, progress=out.progress)
    else:
        kept = f"kept-{secrets.token_hex(3)}" if keep else ""
        # What is built once is not part of the trial's time.
        await saved(planned.stack, out.progress, warm=warm)

        def factory() -> AbstractAsyncContextManager[Cluster]:
            return on_fresh_cluster(planned.stack, name=kept, keep=keep)

    out.progress(f"record: {folder}")
    document = await conduct(planned, factory, folder, listener=lambda event: tell(out, event), seed=seed, noise=noise)
    if (folder / "users").is_dir():
        write_page([folder], folder / "trial.html", title=planned.problem.title)
    if keep and not kubeconfig:
        out.progress(f"the box {kept} is kept: `aftershock shell {kept}`, and `aftershock down {kept}` when done")
        document = {**document, "box": kept}
    return document


def tell(out: Output, event: dict[str, Any]) -> None:
    """One event of a trial as a line of its timeline."""
    kind = event["event"]
    if kind == "stage" and event["state"] == "begin":
        out.progress(f"[bold]{event['stage']}[/bold]")
    elif kind == "stage":
        ended = "took" if event["state"] == "end" else "broke off after"
        out.progress(f"  {event['stage']} {ended} {event.get('seconds', 0):.1f} s")
    elif kind == "step":
        out.progress(f"  {event.get('said') or event.get('step', '')}")
    elif kind == "suffering":
        out.progress(f"  users suffer {event['after']:.0f} s after the trigger")
    elif kind == "agent":
        out.progress(f"  agent: {event['ended']} {event['said']}")
    elif kind == "check":
        color = {"pass": "green", "fail": "red"}.get(str(event["result"]), "yellow")
        out.progress(f"  [{color}]{event['result']:7}[/{color}] {event['id']}: {escape(str(event['said']))}")
    elif kind in ("defect", "teardown_failed"):
        out.progress(f"  [red]{kind}[/red] {escape(str(event.get('error') or event.get('traceback', '')))}")


def show_verdict(out: Output, document: dict[str, Any]) -> None:
    """The end of a trial for people."""
    color = {"succeeded": "green", "failed": "red", "unsafe": "red"}.get(str(document["verdict"]), "yellow")
    out.text("")
    out.text(
        f"[bold {color}]{document['verdict']}[/bold {color}]  {document['problem']} answered by {document['agent']}"
    )
    out.text(f"  {escape(str(document['why']))}")
    if document.get("todo"):
        out.text(f"  next: {escape(str(document['todo']))}")
    seconds = document["seconds"]
    parts = ", ".join(f"{k} {seconds[k]:.0f} s" for k in ("restore", "agent", "judge", "total") if k in seconds)
    out.text(f"  {parts}")
    out.text(f"  record: {document['record']}")
