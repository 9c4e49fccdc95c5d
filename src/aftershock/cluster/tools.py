"""Programs of a stack that no Debian package brings, built from their published sources.

Each folder of `tools/` is a Go module without code: its go.mod names one program by a `tool` line and
pins it with everything that it needs, and go.sum holds the hashes. So a version is changed where Go's own
commands change it, and what is built is what was pinned.
"""

import asyncio
import re
from pathlib import Path

from aftershock.base.errors import BuildError, CommandFailed, UsageError
from aftershock.base.paths import source_root
from aftershock.base.run import run
from aftershock.cluster.parts import Part, Progress, digest
from aftershock.cluster.programs import go_program, say_still

__all__ = ["names", "tool"]

FLAGS = ("-trimpath", "-ldflags", "-s -w")
ENV = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
# Seconds on two cores with empty caches, where it is not about half a minute.
ESTIMATES = {"alertmanager": 40, "jaeger": 260, "vlagent": 15}


def names(root: Path | None = None) -> list[str]:
    """The tools there are."""
    return sorted(path.parent.name for path in ((root or source_root()) / "tools").glob("*/go.mod"))


def package(name: str, root: Path | None = None) -> str:
    """The Go package of a tool: what the one `tool` line of its go.mod names.

    Raises:
        UsageError: there is no such tool.
        BuildError: its go.mod names no program, or several.
    """
    file = (root or source_root()) / "tools" / name / "go.mod"
    if not file.is_file():
        raise UsageError(
            f"there is no tool `{name}`", where=str(file.parent), todo=f"tools here: {', '.join(names(root)) or 'none'}"
        )
    found: list[str] = re.findall(r"^tool\s+(\S+)\s*$", file.read_text(), re.MULTILINE)
    if len(found) != 1:
        raise BuildError(
            f"{name}: go.mod should name one program by a `tool` line, and names {len(found)}",
            where=str(file),
            todo="run `go get -tool PACKAGE@VERSION` in that folder",
        )
    return found[0]


def tool(name: str, root: Path | None = None) -> Part:
    """A tool as a part: a folder that holds the program under the tool's name."""
    wanted = package(name, root)
    module = (root or source_root()) / "tools" / name
    estimate = ESTIMATES.get(name, 30)

    async def build(folder: Path, progress: Progress) -> None:
        still = asyncio.create_task(say_still(progress, f"{name}: still compiling"))
        try:
            await run([go_program(), "mod", "download"], cwd=module, env=ENV, timeout=1200)
            await run(
                [go_program(), "build", *FLAGS, "-o", str(folder / name), wanted], cwd=module, env=ENV, timeout=3600
            )
        except CommandFailed as error:
            raise BuildError(
                f"the program {name} does not build: {error.what[-1500:]}",
                where=str(module),
                todo="check the network (module downloads) and the Go version",
            ) from error
        finally:
            still.cancel()

    return Part(f"tool-{name}", digest(module / "go.mod", module / "go.sum", *FLAGS), build, estimate=estimate)
