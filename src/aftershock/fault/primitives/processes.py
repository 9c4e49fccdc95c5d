"""Processes of a container that are killed or stopped, from outside of it."""

from pydantic import Field

from aftershock.base.wait import NotYet
from aftershock.fault.base import Primitive, primitive
from aftershock.fault.machine import OnPods, Place, look_on
from aftershock.fault.scene import Scene

# Processes of the container whose command line matches $1 (an extended regular expression; all when empty).
CHOSEN = r"""
chosen() {
  for one in $(cat "$(group pids)/cgroup.procs"); do
    if [ -z "$1" ] || tr '\0' ' ' <"/proc/$one/cmdline" | grep -qE -e "$1"; then echo "$one"; fi
  done
}
"""


@primitive("kill_process")
class KillProcess(OnPods):
    """Kill processes of a container, its first one by default; `command` is a regular expression of theirs."""

    command: str = ""
    signal: str = Field(default="KILL", pattern="^(KILL|TERM|ABRT|SEGV|HUP|INT)$")

    async def act(self, scene: Scene, place: Place) -> str:
        return await place.run(
            scene,
            CHOSEN
            + """if [ -z "$1" ]; then found=$P; else found=$(chosen "$1"); fi
            if [ -z "$found" ]; then echo "no process matches $1" >&2; exit 1; fi
            for one in $found; do echo "$one $(cut -d' ' -f22 /proc/$one/stat)"; kill -"$2" "$one"; done""",
            self.command, self.signal,
        )  # fmt: skip

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        ids = [word for line in kept.splitlines() for word in line.split()]
        left = await look_on(
            scene,
            place.node,
            """while [ $# -gt 1 ]; do
            if [ "$(cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null)" = "$2" ] &&
              ! grep -q '^State:.Z' "/proc/$1/status"; then echo "$1"; fi; shift 2; done""",
            *ids,
        )
        if left and self.signal in ("KILL", "TERM", "ABRT", "SEGV"):
            raise NotYet(f"process {left} of {place.pod} still runs")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        """What was killed is started again by whoever started it."""

    undo = Primitive.undo


@primitive("pause_process")
class PauseProcess(OnPods):
    """Stop processes of a container (all by default): they keep connections and memory, and answer nothing."""

    command: str = ""

    async def act(self, scene: Scene, place: Place) -> str:
        return await place.run(
            scene,
            CHOSEN
            + """found=$(chosen "$1")
            if [ -z "$found" ]; then echo "no process matches $1" >&2; exit 1; fi
            kill -STOP $found; echo $found""",
            self.command,
        )

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        states = await place.look(scene, 'for one in $1; do grep "^State:" "/proc/$one/status"; done', kept)
        if any("T (stopped)" not in line for line in states.splitlines()):
            raise NotYet(f"a process of {place.pod} still runs")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(scene, "kill -CONT $1", kept)
