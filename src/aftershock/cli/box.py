"""Commands about boxes: up, down, list, shell, doctor, clean."""

from pathlib import Path
from typing import Any

import typer

from aftershock.cli.output import Output, run_async

JSON = typer.Option(False, "--json", help="Print one JSON record last.")


def up(
    name: str = typer.Option("box", "--name", "-n", help="Name of the box."),
    nodes: int = typer.Option(1, "--nodes", help="Nodes, 1 to 8."),
    memory: int = typer.Option(0, "--memory", help="Limit of the whole box in MiB; 4096, or what the stack needs."),
    stack: str = typer.Option(
        "", "--stack", help="Deploy this stack (a name, or your folder) and wait until it serves."
    ),
    size: str = typer.Option("", "--size", help="Size of the stack; its first when not given."),
    component: list[str] = typer.Option([], "--component", help="A component besides; repeatable."),
    image: list[str] = typer.Option([], "--image", help="An image from a registry that its nodes know; repeatable."),
    as_json: bool = JSON,
) -> None:
    """Start a new box, or a stopped one of that name. It outlives this command."""
    out = Output(as_json)

    async def work() -> dict[str, Any]:
        from aftershock.cluster.box import box as boxes

        if not stack:
            limit = (memory or 4096) << 20
            made = await boxes.up(name, nodes=nodes, pulls=image, memory=limit, progress=out.progress)
            return _about(made)
        return await up_stack(out, name, stack, size, component, nodes=nodes, memory=memory << 20, pulls=image)

    record = run_async(out, work())
    out.text(f"[bold]{record['name']}[/bold]: {len(record['nodes'])} nodes ready in {record['seconds']} s")
    out.text(f"  kubectl:  aftershock shell {record['name']}")
    out.text(f"  or:       export KUBECONFIG={record['kubeconfig']}")
    for link in record.get("links", []):
        out.text(f"  {link['title']}:  {link['url']}")
    out.result(**record)


def _about(made: Any) -> dict[str, Any]:
    return {
        "name": made.name,
        "kubeconfig": str(made.kubeconfig),
        "nodes": list(made.nodes),
        "seconds": round(made.seconds, 2),
        "usable_seconds": round(made.usable_seconds, 2),
        "front": made.world.front if made.world else "",
    }


async def up_stack(
    out: Output, name: str, stack: str, size: str, components: list[str], *, nodes: int, memory: int, pulls: list[str]
) -> dict[str, Any]:
    """A box with a stack on it, its external parties outside, and the pages that a person can open."""
    import time

    from aftershock.cluster.box import box as boxes
    from aftershock.stack import deploy as deploying
    from aftershock.stack import load as stacks
    from aftershock.stack.links import links
    from aftershock.stack.provide import box_memory
    from aftershock.workload.outside import Outside

    loaded = stacks.load(stack, size=size, components=components)
    limit = memory or box_memory(loaded)
    deploying.require_memory(loaded, limit)
    made = await boxes.up(
        name,
        nodes=max(nodes, loaded.nodes),
        images=loaded.images(),
        pulls=[*pulls, *loaded.pulls],
        memory=limit,
        stack=loaded.label,
        progress=out.progress,
    )
    begin = time.monotonic()
    if loaded.parties:
        async with Outside(made.world, loaded.parties, made.layout.folder / "parties", kept=True):
            out.progress(f"external parties: {', '.join(loaded.parties)}")
    await deploying.deploy(made, loaded, tell=out.progress)
    seconds = round(time.monotonic() - begin, 2)
    return {**_about(made), "stack": loaded.label, "stack_seconds": seconds, "links": await links(made, loaded)}


def down(
    name: str = typer.Argument(help="Name of the box."),
    keep: bool = typer.Option(False, "--keep", help="Stop it and keep its disks; `up` starts it again."),
    as_json: bool = JSON,
) -> None:
    """End a box and remove all that belongs to it."""
    out = Output(as_json)

    async def work() -> float:
        from aftershock.cluster.box import box as boxes

        return await boxes.down(name, keep=keep)

    seconds = run_async(out, work())
    out.text(f"{name}: {'stopped' if keep else 'gone'} after {seconds:.1f} s")
    out.result(name=name, seconds=round(seconds, 2), kept=keep)


def list_(
    sound: bool = typer.Option(False, "--sound", help="Of the problems, only those whose oracle is proven."),
    as_json: bool = JSON,
) -> None:
    """Show the boxes of this machine, and the problems."""
    out = Output(as_json)
    from aftershock.cli import problems
    from aftershock.cluster.box import cgroups, lifecycle

    rows = []
    for layout in lifecycle.all_layouts():
        dead = [layout.node_name(n) for n, pid in enumerate(layout.pids) if not pid.alive()]
        state = layout.phase if not dead else f"damaged ({', '.join(dead)} down)"
        if lifecycle.abandoned(layout):
            state = f"abandoned while {layout.phase}"
        rows.append(
            {
                "name": layout.name,
                "state": state,
                "nodes": layout.nodes,
                "addresses": layout.subnet,
                "stack": layout.stack,
                "memory_mib": cgroups.memory_used(layout) >> 20,
                "kubeconfig": str(layout.admin_kubeconfig),
            }
        )
    if rows:
        columns = ["name", "state", "nodes", "addresses", "memory", "stack"]
        out.table(
            columns,
            [
                [
                    str(r["name"]),
                    str(r["state"]),
                    str(r["nodes"]),
                    str(r["addresses"]),
                    f"{r['memory_mib']} MiB",
                    str(r["stack"]),
                ]
                for r in rows
            ],
        )
    else:
        out.text("no boxes; `aftershock up` starts one")
    found = problems.rows(sound)
    out.text("")
    problems.show_rows(out, found)
    out.result(boxes=rows, problems=found)


def shell(
    name: str = typer.Argument("box", help="Name of the box."),
    command: str = typer.Option("", "--command", "-c", help="Run this and leave."),
    node: str = typer.Option("", "--node", help="A shell in this node, as root."),
    world: bool = typer.Option(False, "--world", help="A shell outside the cluster, where its users are."),
    user: str = typer.Option("admin", "--user", help="admin or oncall."),
) -> None:
    """Open a shell with kubectl ready."""
    import os
    import shutil

    from aftershock.base.errors import AftershockError, UsageError
    from aftershock.cluster.box import box as boxes
    from aftershock.cluster.box.node import node_argv

    out = Output(False)
    try:
        opened = boxes.open_box(name)
        if user not in ("admin", "oncall"):
            raise UsageError(f"there is no user {user}", todo="admin or oncall")
        if node and node not in opened.nodes:
            raise UsageError(f"the box {name} has no node {node}", todo=f"its nodes: {', '.join(opened.nodes)}")
        program = shutil.which("bash") or "/bin/sh"
        argv = [program, "-c", command] if command else [program, "--norc", "-i"]
        env = {
            **os.environ, "KUBECONFIG": str(opened.layout.folder / f"{user}.kubeconfig"),
            "PATH": f"{boxes.kubectl().parent}:{os.environ.get('PATH', '')}", "PS1": f"({name}) \\w \\$ ",
        }  # fmt: skip
        if node:
            argv = node_argv(opened.layout, opened.nodes.index(node), ["bash", *argv[1:]])
        elif world and opened.world:
            argv = opened.world.argv(argv)
    except AftershockError as error:
        out.fail(error)
    os.execvpe(argv[0], argv, env)


def doctor(
    fix: bool = typer.Option(False, "--fix", help="Remove what killed commands left behind."),
    deep: bool = typer.Option(False, "--deep", help="Hash every file of the cache and of the snapshots."),
    as_json: bool = JSON,
) -> None:
    """Say what this machine can do, what is missing, and what is left over or damaged."""
    out = Output(as_json)
    from aftershock.cluster import host, parts
    from aftershock.cluster.box import lifecycle, snapshot

    found = host.findings()
    for f in found:
        mark = "[green]ok[/green]     " if f.ok else ("[red]missing[/red]" if f.needed else "[yellow]low[/yellow]    ")
        out.text(f"{mark} {f.name}: {f.detail}" + ("" if f.ok else f"\n        for {f.purpose}; {f.todo}"))
    damaged = {str(p): why for p in parts.every_part() if (why := parts.verify(p, deep=deep))}
    damaged |= {str(s.folder): why for s in snapshot.listed() if (why := parts.verify(s.folder, deep=deep))}
    for path, why in damaged.items():
        out.text(f"[red]damaged[/red] {path}: {why}")
    left = [x.name for x in lifecycle.all_layouts() if lifecycle.abandoned(x)]
    removed: list[str] = []
    if fix:
        import shutil

        removed = run_async(out, lifecycle.sweep())
        for path in damaged:
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
        for what in removed:
            out.text(f"removed {what}")
        left = []
    for name in left:
        out.text(
            f"[yellow]left[/yellow]    box {name}, of a command that was killed; `aftershock doctor --fix` removes it"
        )
    healthy = all(f.ok or not f.needed for f in found) and (fix or not damaged) and not left
    out.result(healthy=healthy, findings=[vars(f) for f in found], damaged=damaged, left=left, removed=removed)
    raise typer.Exit(0 if healthy else 3)


def clean(
    all_: bool = typer.Option(False, "--all", help="Also the snapshots."),
    as_json: bool = JSON,
) -> None:
    """Remove the cache (it is built again when needed). Boxes must be down."""
    out = Output(as_json)
    import shutil

    from aftershock.base.errors import UsageError
    from aftershock.base.paths import cache_dir
    from aftershock.cluster.box import lifecycle, snapshot
    from aftershock.cluster.image.store import store_dir

    run_async(out, lifecycle.sweep())
    if running := [x.name for x in lifecycle.all_layouts()]:
        out.fail(UsageError(f"boxes use the cache: {', '.join(running)}", todo="`aftershock down` them first"))
    gone: list[Path] = [cache_dir() / "parts", store_dir(), cache_dir() / "locks"]
    if all_:
        gone.append(snapshot.snapshots_dir())
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
    out.text("removed " + ", ".join(str(g) for g in gone))
    out.result(removed=[str(g) for g in gone])
