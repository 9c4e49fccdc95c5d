"""How commands speak: progress to standard error, results to standard output.

With `--json` the last line of standard output is one JSON object and nothing else is there. Errors
print what happened, where and what to do next; with `--json` they are such an object too.
"""

import json
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

from aftershock.base.errors import AftershockError

T = TypeVar("T")

__all__ = ["Output", "escape", "run_async"]


class Output:
    """One command's output.

    Args:
        as_json: print one JSON object at the end and nothing else to standard output.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._begin = time.monotonic()

    def progress(self, text: str) -> None:
        """One line of progress, with the seconds since the start."""
        from rich.console import Console

        Console(stderr=True, highlight=False).print(
            f"[dim]{time.monotonic() - self._begin:6.1f}s[/dim]  {text}", markup=True
        )

    def text(self, text: str) -> None:
        """A line for people."""
        if not self.as_json:
            from rich.console import Console

            Console(highlight=False).print(text)

    def table(self, columns: list[str], rows: list[list[str]]) -> None:
        """A table for people."""
        if not self.as_json:
            from rich.console import Console
            from rich.table import Table

            table = Table(*columns, box=None, header_style="bold", pad_edge=False)
            for row in rows:
                table.add_row(*row)
            Console(highlight=False).print(table)

    def result(self, **record: Any) -> None:
        """The machine-readable record; the last thing that a command prints."""
        if self.as_json:
            sys.stdout.write(json.dumps(record, default=str) + "\n")
            sys.stdout.flush()

    def fail(self, error: AftershockError) -> NoReturn:
        """Print an error and exit with its code."""
        if self.as_json:
            self.result(error=error.what, where=error.where, next=error.todo, kind=type(error).__name__)
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, highlight=False)
        console.print(Text.assemble(("error: ", "bold red"), error.what))
        if error.where:
            console.print(Text.assemble(("where: ", "bold"), error.where))
        if error.todo:
            console.print(Text.assemble((" next: ", "bold"), error.todo))
        raise SystemExit(error.exit_code)


def run_async(out: Output, work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work; SIGINT and SIGTERM cancel it, so that what it began is cleaned up."""
    import asyncio  # here, since it is a third of what `--help` would import

    async def main() -> T:
        task = asyncio.current_task()
        assert task
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        return await work

    try:
        return asyncio.run(main())
    except AftershockError as error:
        out.fail(error)
    except (asyncio.CancelledError, KeyboardInterrupt):
        out.fail(AftershockError("interrupted; what was begun has been cleaned up"))


def escape(text: str) -> str:
    """Text that is shown as it is, brackets included."""
    from rich.markup import escape as rich_escape

    return rich_escape(text)
