"""Commands about problems: show, new, lint, schema; and their part of `list`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from aftershock.cli.output import Output, escape

if TYPE_CHECKING:
    from aftershock.stack.load import Stack

JSON = typer.Option(False, "--json", help="Print one JSON record last.")


def rows(sound_only: bool = False) -> list[dict[str, Any]]:
    """`id, title, mechanism, sound, why` of every problem; one that cannot be read is not sound, and says why."""
    from aftershock.audit.record import soundness
    from aftershock.base.errors import AftershockError
    from aftershock.problem.load import find, read

    found = []
    stacks: dict[str, Stack] = {}
    for name, folder in find().items():
        try:
            problem = read(folder)
        except AftershockError as error:
            found.append({"id": name, "title": "", "mechanism": "", "sound": False, "why": error.what})
            continue
        holds = soundness(problem, stacks)
        row = {"id": name, "title": problem.title, "mechanism": problem.mechanism}
        found.append({**row, "sound": holds.sound, "why": holds.why})
    return [row for row in found if row["sound"] or not sound_only]


def show_rows(out: Output, found: list[dict[str, Any]]) -> None:
    """The problems as a table."""
    if not found:
        out.text("no problems here; `aftershock new ID --from incident.yaml` starts one")
        return
    lines = [
        [row["id"], "yes" if row["sound"] else "no", row["mechanism"], row["title"], escape(row["why"][:80])]
        for row in found
    ]
    out.table(["problem", "sound", "mechanism", "title", "why not"], lines)


def show(problem: str = typer.Argument(help="Id or folder of a problem."), as_json: bool = JSON) -> None:
    """Show what a problem is: its incident, oracle, fixes, and whether its oracle is proven."""
    out = Output(as_json)
    from aftershock.audit.record import soundness
    from aftershock.base.errors import AftershockError
    from aftershock.problem.load import load
    from aftershock.problem.model import walk

    try:
        read = load(problem)
        holds = soundness(read)
    except AftershockError as error:
        out.fail(error)
    checks = walk(read.oracle)
    out.text(f"[bold]{read.id}[/bold]  {escape(read.title)}")
    out.text(f"  {escape(read.summary)}")
    out.text(f"  mechanism: {read.mechanism or 'not given'}; stack: {read.stack}; digest {read.digest[:12]}")
    post = read.postmortem
    out.text(f"  from: {escape(post.company)}, {escape(post.title)}, {post.url}")
    out.text(f"  sound: {'yes' if holds.sound else f'no, {escape(holds.why)}'}")
    out.text("")
    out.table(
        ["check", "family", "kind", "why"],
        [[c.id, c.family, c.kind + (" (unsafe)" if c.unsafe else ""), escape(c.why)] for c in checks],
    )
    out.text("")
    out.table(["fix", "expect", "decides", "steps"], [
        [fix.name, fix.expect, fix.decides, ", ".join(name for name, _ in fix.steps)] for fix in read.fixes
    ])  # fmt: skip
    out.result(
        id=read.id, title=read.title, summary=read.summary, mechanism=read.mechanism, stack=read.stack,
        digest=read.digest, postmortem=vars(post), sound=holds.sound, why=holds.why,
        checks=[{"id": c.id, "family": c.family, "kind": c.kind, "unsafe": c.unsafe, "why": c.why} for c in checks],
        fixes=[
            {"name": f.name, "expect": f.expect, "decides": f.decides, "steps": [name for name, _ in f.steps]}
            for f in read.fixes
        ],
    )  # fmt: skip


def new(
    id_: str = typer.Argument(metavar="ID", help="Two neutral words: grey-otter."),
    source: str = typer.Option(..., "--from", help="The incident's structured reading, incident.yaml."),
    stack: str = typer.Option("orders", "--stack", help="The stack that breaks."),
    as_json: bool = JSON,
) -> None:
    """Start a problem folder from an incident; `lint` then says what is left to write."""
    out = Output(as_json)
    from aftershock.audit.lint import lint_folder
    from aftershock.audit.start import start
    from aftershock.base.errors import AftershockError

    try:
        folder = start(id_, Path(source), stack)
        left = lint_folder(folder)
    except AftershockError as error:
        out.fail(error)
    out.text(f"{folder}: {len(left)} things are left to write; `aftershock lint {id_}` lists them")
    out.result(id=id_, folder=str(folder), left=len(left))


def lint(
    problems: list[str] = typer.Argument(None, help="Ids or folders; all problems by default."),
    explain: str = typer.Option("", "--explain", help="Say what a rule asks and why."),
    as_json: bool = JSON,
) -> None:
    """Say what is wrong or missing in problem folders: rule, file and line, what would be right."""
    out = Output(as_json)
    from aftershock.audit.lint import explain as explain_rule
    from aftershock.audit.lint import lint_folders
    from aftershock.base.errors import AftershockError, UsageError
    from aftershock.problem.load import find
    from aftershock.problem.source import near

    try:
        if explain:
            rule = explain_rule(explain)
            out.text(f"[bold]{rule.code}[/bold] ({rule.severity}): {escape(rule.what)}\n{escape(rule.why)}")
            out.result(**vars(rule))
            return
        known = find()
        folders = []
        for name in problems or known:
            if name not in known and not Path(name).is_dir():
                raise UsageError(f"there is no problem `{name}`", todo=near(name, known))
            folders.append(known.get(name) or Path(name).resolve())
        faults = lint_folders(folders)
    except AftershockError as error:
        out.fail(error)
    for fault in faults:
        color = "red" if fault.severity == "error" else "yellow"
        out.text(f"[{color}]{fault.code}[/{color}] {escape(fault.where)}  {escape(fault.what)}")
        if fault.todo:
            out.text(f"      {escape(fault.todo)}")
    errors = sum(fault.severity == "error" for fault in faults)
    out.text(f"{len(folders)} problems, {errors} errors, {len(faults) - errors} warnings")
    out.result(problems=len(folders), errors=errors, faults=[vars(fault) for fault in faults])
    raise typer.Exit(2 if errors else 0)


def schema(
    name: str = typer.Argument("problem", help="problem, incident, or answer."),
    write: bool = typer.Option(False, "--write", help="Write all of them to docs/schema/."),
) -> None:
    """Print the JSON Schema of a file, made from what reads it."""
    import json

    out = Output(False)
    from aftershock.audit.schemas import SCHEMAS, write_schemas
    from aftershock.base.errors import UsageError
    from aftershock.problem.source import near

    if write:
        for path in write_schemas():
            out.text(str(path))
        return
    if name not in SCHEMAS:
        out.fail(UsageError(f"there is no schema `{name}`", todo=near(name, SCHEMAS)))
    typer.echo(json.dumps(SCHEMAS[name](), indent=1))
