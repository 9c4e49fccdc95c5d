"""Memory, processors, descriptors, processes and ports that run short, set where the kernel counts them.

The numbers in the pod's specification stay as they are: what `kubectl describe` shows is not what holds.
Limits are those of the running container and are gone when it starts anew, unless said otherwise.
"""

import asyncio
from typing import ClassVar

from pydantic import Field

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.fault.base import primitive
from aftershock.fault.machine import OnPods, Place
from aftershock.fault.scene import Scene

# A writer in the container's memory group, outside of its process list, whose pages lie in a file system that
# nobody else sees. It ends with the container's first process, or when the file that names it is gone.
GROW = r"""
group=$(group memory)
script='mount -t tmpfs -o "size=$2" tmpfs /mnt
while kill -0 "$1" 2>/dev/null && [ -e "/run/lock/$1" ]; do
  head -c "$3" /dev/zero >>/mnt/data 2>/dev/null || :
  sleep 0.25
done'
touch "/run/lock/$P"
join='echo $$ >"$0/cgroup.procs" && exec unshare --mount bash -s -- "$@"'
printf '%s' "$script" | setsid -f bash -c "$join" "$group" "$P" "$1" "$2" >/dev/null 2>&1
"""
USED = 'cat "$(group memory)"/memory.usage_in_bytes "$(group memory)"/memory.current 2>/dev/null || :'


@primitive("grow_memory")
class GrowMemory(OnPods):
    """Have a container's memory grow by so many bytes a second, up to `most`, as with a leak: it is counted to
    the container, shows in `kubectl top`, and ends in OOMKilled where there is a limit. With `again`, also in
    each container that takes its place."""

    bytes_per_second: int = Field(ge=4096)
    most: int = Field(default=1 << 30, ge=1 << 20, le=8 << 30)
    again: bool = True

    async def act(self, scene: Scene, place: Place) -> str:
        used = await place.run(scene, f"{GROW}\n{USED}", str(self.most), str(self.bytes_per_second // 4))
        if self.again:
            scene.start(f"{self.kind} in {place.pod}", self._follow(scene, place))
        return used.split()[0]

    async def _follow(self, scene: Scene, place: Place) -> None:
        """Go on in the containers that follow in the same pod or workload."""
        known = {place.id}
        while True:
            await asyncio.sleep(1.0)
            try:
                for found in await self.places(scene):
                    if found.id not in known:
                        known.add(found.id)
                        await found.run(scene, GROW, str(self.most), str(self.bytes_per_second // 4))
            except ClusterError:
                continue  # nothing of it runs now

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        used = int((await place.look(scene, USED)).split()[0])
        if used < int(kept) + min(self.bytes_per_second, self.most) // 2:
            raise NotYet(f"the memory of {place.pod} has not grown: {kept} to {used} bytes")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(scene, 'rm -f "/run/lock/$P"')


class OnGroup(OnPods):
    """Base of what writes one setting into a container's control group: (controller, file) of v1, file of v2."""

    v1: ClassVar[tuple[str, str]]
    v2: ClassVar[str]

    def value(self, version: int) -> str:
        raise NotImplementedError

    def file(self) -> str:
        controller, name = self.v1
        return f"if [ $V = 2 ]; then file=$(group {controller})/{self.v2}; else file=$(group {controller})/{name}; fi"

    async def act(self, scene: Scene, place: Place) -> str:
        write = 'cat "$file"; if [ $V = 2 ]; then echo "$2" >"$file"; else echo "$1" >"$file"; fi'
        return await place.run(scene, f"{self.file()}\n{write}", self.value(1), self.value(2))

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        version, now = (await place.look(scene, f'{self.file()}\necho $V; cat "$file"')).split("\n", 1)
        if now.split() != self.value(int(version)).split():
            raise NotYet(f"{self.v2} of {place.pod} is {now}")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(scene, f'{self.file()}\necho "$1" >"$file"', kept)


@primitive("limit_cpu")
class LimitCpu(OnGroup):
    """Give a container so many processors and no more, whatever its specification says."""

    v1 = ("cpu", "cpu.cfs_quota_us")
    v2 = "cpu.max"
    cores: float = Field(ge=0.01, le=64)

    def value(self, version: int) -> str:
        quota = f"{int(self.cores * 100_000)}"
        return f"{quota} 100000" if version == 2 else quota


@primitive("limit_memory")
class LimitMemory(OnGroup):
    """Lower a container's memory limit below its specification; refused by the kernel under what it uses now."""

    v1 = ("memory", "memory.limit_in_bytes")
    v2 = "memory.max"
    bytes: int = Field(ge=1 << 20)

    def value(self, version: int) -> str:
        return str(self.bytes // 4096 * 4096)


@primitive("limit_processes")
class LimitProcesses(OnGroup):
    """Let a container have so many processes and threads; a fork beyond that fails."""

    v1 = ("pids", "pids.max")
    v2 = "pids.max"
    count: int = Field(ge=1)

    def value(self, version: int) -> str:
        return str(self.count)


@primitive("limit_files")
class LimitFiles(OnPods):
    """Let each process of a container, and those that they start, have so many open files. It is the soft limit,
    which a few programs raise by themselves when they start."""

    count: int = Field(ge=3)

    async def act(self, scene: Scene, place: Place) -> str:
        return await place.run(
            scene,
            """prlimit --pid "$P" --nofile --noheadings --output SOFT | tr -d ' '
            for one in $(cat "$(group pids)/cgroup.procs"); do prlimit --pid "$one" --nofile="$1:" || :; done""",
            str(self.count),
        )

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        now = await place.look(scene, 'prlimit --pid "$P" --nofile --noheadings --output SOFT')
        if now.strip() != str(self.count):
            raise NotYet(f"processes of {place.pod} may open {now.strip()} files")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(
            scene,
            'for one in $(cat "$(group pids)/cgroup.procs"); do prlimit --pid "$one" --nofile="$1:" || :; done',
            kept,
        )


@primitive("limit_ports")
class LimitPorts(OnPods):
    """Leave a pod so many ports to connect from; the rest is as if connections in TIME_WAIT held them.
    Stays through restarts of its containers."""

    count: int = Field(ge=1, le=28_000)

    async def act(self, scene: Scene, place: Place) -> str:
        return await place.run(
            scene,
            "inside bash -c 'cat /proc/sys/net/ipv4/ip_local_port_range; "
            'echo "32768 $((32767 + $0))" >/proc/sys/net/ipv4/ip_local_port_range\' "$1"',
            str(self.count),
        )

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        low, high = (await place.look(scene, "inside cat /proc/sys/net/ipv4/ip_local_port_range")).split()
        if int(high) - int(low) + 1 != self.count:
            raise NotYet(f"{place.pod} may connect from ports {low} to {high}")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(scene, 'inside bash -c \'echo "$0" >/proc/sys/net/ipv4/ip_local_port_range\' "$1"', kept)
