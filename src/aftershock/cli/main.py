"""The program `aftershock`. Commands import what they need when they run, so that help is instant."""

import typer

from aftershock.cli import audit, box, demo, problems, snapshot, trial

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: half the time of a coloured one
    pretty_exceptions_enable=False,
    help="A postmortem becomes a live incident on a real cluster, an oracle and a measured challenge.",
)
app.command()(box.up)
app.command()(box.down)
app.command(name="list")(box.list_)
app.command()(box.shell)
app.command()(box.doctor)
app.command()(box.clean)
app.add_typer(snapshot.app, name="snapshot")
app.command()(snapshot.restore)
app.command(name="trial")(trial.trial)
app.command(name="audit")(audit.audit)
app.command()(problems.show)
app.command()(problems.new)
app.command()(problems.lint)
app.command()(problems.schema)
app.command()(demo.demo)


def _version(show: bool) -> None:
    if show:
        from aftershock import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_version, is_eager=True),
) -> None:
    """A postmortem becomes a live incident on a real cluster, an oracle and a measured challenge."""


def main() -> None:
    """Entry point."""
    app()
