"""Commands about saved states: snapshot save, list, rm; restore."""

import typer

from aftershock.cli.output import Output, run_async

JSON = typer.Option(False, "--json", help="Print one JSON record last.")
app = typer.Typer(no_args_is_help=True, help="Save a box's state, list and remove saved states.")


@app.command()
def save(
    box: str = typer.Argument(help="Name of the running box."),
    name: str = typer.Argument(help="Name of the snapshot."),
    end: bool = typer.Option(False, "--end", help="End the box instead of starting it again."),
    as_json: bool = JSON,
) -> None:
    """Save the state of a box: etcd and volumes. The box is stopped for it and started again."""
    out = Output(as_json)

    async def work() -> dict[str, object]:
        from aftershock.cluster.box import box as boxes
        from aftershock.cluster.box import snapshot

        made = await snapshot.save(boxes.open_box(box), name, again=not end, progress=out.progress)
        return {"name": made.name, "box": box, "nodes": made.nodes, "bytes": made.size, "folder": str(made.folder)}

    record = run_async(out, work())
    out.text(f"saved {record['name']}: {int(str(record['bytes'])) >> 20} MiB at {record['folder']}")
    out.result(**record)


@app.command(name="list")
def list_(as_json: bool = JSON) -> None:
    """Show the snapshots of this machine."""
    out = Output(as_json)
    import time

    from aftershock.cluster.box import snapshot

    def made(when: float) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))

    found = snapshot.listed()
    if found:
        out.table(
            ["name", "nodes", "stack", "size", "made"],
            [[s.name, str(s.nodes), s.stack, f"{s.size >> 20} MiB", made(s.created)] for s in found],
        )
    else:
        out.text("no snapshots; `aftershock snapshot save BOX NAME` makes one")
    out.result(snapshots=[vars(s) for s in found])


@app.command()
def rm(name: str = typer.Argument(help="Name of the snapshot."), as_json: bool = JSON) -> None:
    """Remove a snapshot, damaged or not."""
    out = Output(as_json)
    from aftershock.base.errors import AftershockError
    from aftershock.cluster.box import snapshot

    try:
        snapshot.remove(name)
    except AftershockError as error:
        out.fail(error)
    out.text(f"removed {name}")
    out.result(name=name, removed=True)


def restore(
    snapshot_name: str = typer.Argument(metavar="SNAPSHOT", help="Name or key of the snapshot."),
    name: str = typer.Option("box", "--name", "-n", help="Name of the new box."),
    as_json: bool = JSON,
) -> None:
    """Make a new box from a snapshot, under another name and other addresses."""
    out = Output(as_json)

    async def work() -> dict[str, object]:
        from aftershock.cluster.box import snapshot

        made = await snapshot.restore(snapshot.find(snapshot_name), name, progress=out.progress)
        return {
            "name": made.name,
            "kubeconfig": str(made.kubeconfig),
            "nodes": list(made.nodes),
            "seconds": round(made.seconds, 2),
            "usable_seconds": round(made.usable_seconds, 2),
            "snapshot": snapshot_name,
        }

    record = run_async(out, work())
    out.text(
        f"[bold]{record['name']}[/bold]: {snapshot_name} restored, everything ready in {record['usable_seconds']} s"
    )
    out.text(f"  kubectl:  aftershock shell {record['name']}")
    out.result(**record)
