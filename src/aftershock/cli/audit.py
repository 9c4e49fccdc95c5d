"""The command `audit`: prove a problem's oracle, told as it goes, with a heat map at the end."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from aftershock.cli.output import Output, escape, run_async

MARKS = {"pass": "[green]·[/green]", "fail": "[red]█[/red]", "unknown": "[yellow]?[/yellow]", "skipped": "[dim]-[/dim]"}


def audit(
    problems: list[str] = typer.Argument(help="Ids or folders of problems."),
    jobs: str = typer.Option("auto", "--jobs", "-j", help="Boxes at once; auto goes by cores and memory."),
    cells: str = typer.Option("*", "--cells", help="Only cells of these names: fix:*, adversary:wait,nop ..."),
    since: bool = typer.Option(False, "--since", help="Only what has changed since the last record, or was not green."),
    out_folder: str = typer.Option("", "--out", help="Folder of the journals and trials; ./runs by default."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON record last."),
) -> None:
    """Prove that a problem's oracle accepts what is right and rejects what is wrong, each for its reason."""
    out = Output(as_json)
    documents = run_async(out, _audit_all(out, problems, jobs, cells, since, out_folder))
    for document in documents:
        show(out, document)
    sound = all(document["sound"] for document in documents)
    out.result(**(documents[0] if len(documents) == 1 else {"audits": documents, "sound": sound}))
    raise typer.Exit(0 if sound else 5)


async def _audit_all(
    out: Output, problems: Sequence[str], jobs: str, cells: str, since: bool, out_folder: str
) -> list[dict[str, Any]]:
    from aftershock.audit.admission import Admission, cores, slots
    from aftershock.audit.heatmap import write_heatmap
    from aftershock.audit.run import audit as run_audit
    from aftershock.base.errors import UsageError
    from aftershock.base.paths import records_dir
    from aftershock.cluster.box.lifecycle import all_layouts
    from aftershock.cluster.host import memory_available
    from aftershock.problem.load import load
    from aftershock.stack.load import load as load_stack
    from aftershock.stack.provide import saved
    from aftershock.workload.warm import warm

    if jobs != "auto" and not (jobs.isdigit() and int(jobs) > 0):
        raise UsageError(f"`{jobs}` is not a number of boxes", where="--jobs", todo="give a number, or auto")
    read = [load(name) for name in problems]
    stacks = {p.id: load_stack(p.stack, size=p.size, components=p.components) for p in read}
    for stack in stacks.values():
        await saved(stack, out.progress, warm=warm)  # what is built once is not part of an audit's time
    wanted = int(jobs) if jobs != "auto" else slots(cores(), memory_available(), len(all_layouts()))
    admission = Admission(wanted)
    documents = []
    for problem in read:
        folder = (Path(out_folder).resolve() if out_folder else records_dir()) / f"audit-{problem.id}"
        out.progress(f"[bold]{problem.id}[/bold]: {wanted} boxes at once; records: {folder}")
        document = await run_audit(
            problem,
            stacks[problem.id],
            folder=folder,
            admission=admission,
            pattern=cells,
            since=since,
            tell=_Teller(out),
        )
        page = write_heatmap(document, folder / "audit.html", title=problem.title)
        documents.append({**document, "page": str(page), "record": str(folder)})
    return documents


class _Teller:
    """Tells of an audit, a line for what matters."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._begun: dict[str, float] = {}

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        cell = str(data.get("cell", ""))
        if kind == "begin":
            self._begun[cell] = time.monotonic()
            self._out.progress(f"  {cell} begins")
        elif kind == "cell":
            result = data["result"]
            mark = "[green]ok [/green]" if result.ok else "[red]red[/red]"
            check = f" by {result.check}" if result.check else ""
            why = "" if result.ok and not result.void else f": {escape(result.why)}"
            self._out.progress(f"{mark} {cell}: {result.verdict}{check} ({result.seconds:.0f} s){why}")
        elif kind == "again":
            self._out.progress(f"  {cell} is run again: {escape(data['why'])}")
        elif kind == "resumed" and data["cells"]:
            self._out.progress(f"  {len(data['cells'])} of {data['of']} cells are known already")


def show(out: Output, document: Mapping[str, Any]) -> None:
    """The heat map in the terminal: cells by checks, then what follows from it."""
    if out.as_json:
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    checks = document["checks"]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name in ("cell", "verdict"):
        table.add_column(name, no_wrap=True)
    for number, _ in enumerate(checks, 1):
        table.add_column(f"{number}", justify="center", min_width=2)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for cell in document["cells"]:
        color = "green" if cell["ok"] else "red"
        marks = [_mark(cell, check["id"]) for check in checks]
        word = "void" if cell["void"] else cell["verdict"]
        table.add_row(
            cell["name"], f"[{color}]{word}[/{color}]", *marks, escape("" if cell["ok"] else cell["why"][:60])
        )
    console.print()
    console.print(table)
    for number, check in enumerate(checks, 1):
        idle = " [yellow](idle)[/yellow]" if check["idle"] else ""
        held = f"kills {len(check['kills'])}, alone {len(check['alone'])}"
        console.print(f"  {number:2} {check['id']} [dim]{check['family']}, {held}[/dim]{idle}")
    for finding in document["findings"]:
        color = "red" if finding["grave"] else "yellow"
        console.print(f"  [{color}]{finding['code']}[/{color}] {escape(finding['what'])}")
    for leak in document["leaks"]:
        console.print(f"  [red]leak[/red] {leak['kind']} `{escape(leak['what'])}` in {escape(leak['where'])}")
    word = "[bold green]sound[/bold green]" if document["sound"] else "[bold red]not sound[/bold red]"
    console.print(f"{word}  {document['problem']}, {len(document['cells'])} cells, {document['seconds']:.0f} s")
    if not document["sound"]:
        console.print(f"  {escape(document['why'])}")
    console.print(f"  heat map: {document['page']}")


def _mark(cell: Mapping[str, Any], check: str) -> str:
    mark = MARKS.get(cell["results"].get(check, ""), " ")
    decided = cell["check"] == check or cell["check"].split("/")[0] == check
    return f"[reverse]{mark}[/reverse]" if decided else mark
