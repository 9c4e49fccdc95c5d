"""The command `demo`: the main job on one public outage, twice."""

import time
from pathlib import Path
from typing import Any

import typer

from aftershock.cli.output import Output, run_async
from aftershock.cli.trial import run_trial, show_verdict

PROBLEM = "amber-heron"
AGENTS = ("nop", "fix:report-in-batches")


def demo(
    folder: str = typer.Option("demo", "--out", help="Where the records and the page go."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON record last."),
) -> None:
    """Replay a public outage twice: nobody answers, then a right fix. Draws what users saw."""
    out = Output(as_json)
    target = Path(folder).resolve() / time.strftime("%Y%m%d-%H%M%S")

    async def work() -> list[dict[str, Any]]:
        from aftershock.problem.load import load

        problem = load(PROBLEM)
        out.progress(f"[bold]{problem.title}[/bold]")
        out.progress(f"  {problem.postmortem.company}: {problem.postmortem.title}, {problem.postmortem.url}")
        done = []
        for agent in AGENTS:
            out.progress("")
            out.progress(f"[bold]Trial: {'nobody answers' if agent == 'nop' else 'answered with ' + agent}[/bold]")
            done.append(await run_trial(out, PROBLEM, agent, record=str(target / agent.replace(":", "-"))))
        return done

    documents = run_async(out, work())
    from aftershock.problem.load import load
    from aftershock.trial.page import write_page

    page = target / "demo.html"
    write_page([Path(d["record"]) for d in documents], page, title=load(PROBLEM).title)
    for document in documents:
        show_verdict(out, document)
    out.text("")
    out.text(f"What users saw, side by side: [bold]{page}[/bold] (open it in a browser)")
    as_expected = [d["verdict"] for d in documents] == ["failed", "succeeded"]
    out.result(page=str(page), trials=documents, as_expected=as_expected)
    if not as_expected:
        out.text("[red]The verdicts are not the expected ones (failed, succeeded).[/red]")
        raise typer.Exit(1)
