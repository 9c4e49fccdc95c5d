"""Packets that are lost, refused or slow, in the network namespace of a pod, set from its node.

Rules live where the packets pass and where no object shows them. They stay while the pod does, through
restarts of its containers, and are gone with it; a pod that takes its place is not hit.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from aftershock.base.errors import AftershockError, ClusterError
from aftershock.base.wait import NotYet
from aftershock.fault.base import primitive
from aftershock.fault.machine import TARGET, OnPods, Place, Targets, entries_of, pods_of
from aftershock.fault.scene import Scene, split_ref

Direction = Literal["in", "out", "both"]
PEER = TARGET[:-2] + r"|\d+\.\d+\.\d+\.\d+(/\d+)?)$"
REGEX_NAME = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"


async def addresses(scene: Scene, peer: str, namespace: str | None = None) -> list[str]:
    """Addresses of a peer: pods' own, for a Service that of the Service and of the pods behind, or as written.

    Raises:
        ClusterError: there are none.
    """
    try:
        return [str(ipaddress.ip_network(peer, strict=False))]
    except ValueError:
        pass
    found = []
    if split_ref(peer)[0] == "Service" and (service := await scene.get(peer, namespace)):
        found += [ip for ip in service["spec"].get("clusterIPs", []) if ip != "None" and ":" not in ip]
    found += [ip for pod in await pods_of(scene, peer, namespace) if (ip := pod.get("status", {}).get("podIP"))]
    if not found:
        raise ClusterError(f"{peer} has no address", where=namespace or scene.namespace)
    return [f"{ip}/32" for ip in found]


class OnPackets(Targets):
    """Base of rules over packets between a pod and, when given, its peer `to` (a pod, workload, Service or
    address) and the peer's `port`. `in` is what comes to the pod, `out` what it sends."""

    to: str = Field(default="", pattern=f"^$|{PEER}")
    port: int | None = Field(default=None, ge=1, le=65535)
    to_namespace: str | None = None
    serving: bool = Field(default=False, description="`port` is the pod's own, not the peer's")
    protocol: Literal["tcp", "udp", "all"] = "all"

    @model_validator(mode="after")
    def _port_of_what(self) -> "OnPackets":
        if self.port and self.protocol == "all":
            raise ValueError("a `port` needs `protocol: tcp` or `udp`")
        return self

    def matches(self, direction: str, peers: Sequence[str]) -> list[list[str]]:
        """Chain and match of the rules of one direction, one for each address of the peer."""
        chain, side = ("INPUT", "-s") if direction == "in" else ("OUTPUT", "-d")
        proto = [] if self.protocol == "all" else ["-p", self.protocol]
        if self.port:
            theirs = "--sport" if direction == "in" else "--dport"
            ours = "--dport" if direction == "in" else "--sport"
            proto += [ours if self.serving else theirs, str(self.port)]
        return [[chain, *([side, peer] if peer else []), *proto] for peer in peers or [""]]

    def directions(self) -> Sequence[str]:
        return ("in", "out")

    def verdicts(self) -> Sequence[Sequence[str]]:
        """What is appended to each match: further conditions and the target, one rule each."""
        return (("-j", "DROP"),)

    def rules(self, peers: Sequence[str]) -> list[list[str]]:
        return [
            [*match, *verdict]
            for direction in self.directions()
            for match in self.matches(direction, peers)
            for verdict in self.verdicts()
        ]

    async def run(self, scene: Scene) -> dict[str, Any]:
        peers = await addresses(scene, self.to, self.to_namespace or self.namespace) if self.to else []
        rules = self.rules(peers)
        done: dict[str, Any] = {"places": [], "rules": rules}
        try:
            for place in await self.places(scene):
                await change(scene, place, "-I", rules)
                done["places"].append(place.entry())
        except AftershockError:
            await self.undo(scene, done)
            raise
        return done

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        for place, _ in entries_of(done):
            if missing := await absent(scene, place, done["rules"]):
                raise NotYet(f"the packet filter of {place.pod} lacks {' '.join(missing[0])}")

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        for place, _ in entries_of(done):
            await change(scene, place, "-D", done["rules"])


async def change(scene: Scene, place: Place, how: str, rules: Sequence[Sequence[str]]) -> None:
    """Insert (`-I`) or delete (`-D`) rules in the pod's filter."""
    lines = [f"inside iptables -w 5 {how} {' '.join(_quoted(rule))}" for rule in rules]
    await place.run(scene, "\n".join(lines))


async def absent(scene: Scene, place: Place, rules: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rules that are not in the pod's filter."""
    lines = [f"inside iptables -w 5 -C {' '.join(_quoted(rule))} 2>/dev/null || echo {n}"
             for n, rule in enumerate(rules)]  # fmt: skip
    out = await place.look(scene, "\n".join(lines))
    return [rules[int(n)] for n in out.split()]


def _quoted(rule: Sequence[str]) -> list[str]:
    return [f"'{word}'" for word in rule]


@primitive("drop_packets")
class DropPackets(OnPackets):
    """Lose a share of a pod's packets by chance; with `share: 1` in one `direction`, half-open connections."""

    share: float = Field(gt=0, le=1)
    direction: Direction = "both"

    def directions(self) -> Sequence[str]:
        return ("in", "out") if self.direction == "both" else (self.direction,)

    def verdicts(self) -> Sequence[Sequence[str]]:
        if self.share == 1:
            return (("-j", "DROP"),)
        chance = ("-m", "statistic", "--mode", "random", "--probability", f"{self.share:.4f}")
        return ((*chance, "-j", "DROP"),)


@primitive("partition")
class Partition(OnPackets):
    """Nothing passes any more between `pods` and `to`, in both directions; connections just hang."""

    to: str = Field(pattern=PEER)


@primitive("reset_connections")
class ResetConnections(OnPackets):
    """Answer with a reset: new connections to the peer, or, with `after_bytes`, those that have carried so much."""

    protocol: Literal["tcp"] = "tcp"
    after_bytes: int | None = Field(default=None, ge=1)
    share: float = Field(default=1.0, gt=0, le=1)

    def directions(self) -> Sequence[str]:
        return ("in",) if self.serving else ("out",)

    def verdicts(self) -> Sequence[Sequence[str]]:
        chance: tuple[str, ...] = ()
        if self.share < 1:
            chance = ("-m", "statistic", "--mode", "random", "--probability", f"{self.share:.4f}")
        which: tuple[str, ...] = ("--syn",)
        if self.after_bytes:
            limit = f"{self.after_bytes}:"
            which = ("-m", "connbytes", "--connbytes", limit, "--connbytes-dir", "both", "--connbytes-mode", "bytes")
        return ((*which, *chance, "-j", "REJECT", "--reject-with", "tcp-reset"),)


@primitive("dns_lost")
class DnsLost(OnPackets):
    """Look-ups of one name get no answer in a pod (a time-out, not a refusal); all others do."""

    name: str = Field(pattern=REGEX_NAME)
    protocol: Literal["udp"] = "udp"
    port: int | None = 53

    def directions(self) -> Sequence[str]:
        return ("out",)

    def verdicts(self) -> Sequence[Sequence[str]]:
        return (("-m", "string", "--algo", "bm", "--icase", "--hex-string", f"|{wire_name(self.name)}|", "-j", "DROP"),)


def wire_name(name: str) -> str:
    """A domain name as a query carries it, in hexadecimal: the length of each label before it.

    >>> wire_name("db.shop")
    '0264620473686f70'
    """
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")).hex()


@primitive("bandwidth")
class Bandwidth(OnPods):
    """Let a pod send (`out`), receive (`in`) or both no faster than so many bytes a second; what waits is late."""

    bytes_per_second: int = Field(ge=1000)
    direction: Direction = "both"

    async def act(self, scene: Scene, place: Place) -> str:
        shape = 'root tbf rate "$1" burst "$2" latency 400ms'
        lines = [f'{end} tc qdisc replace dev "${dev}" {shape}' for end, dev in self.ends()]
        await place.run(scene, ENDS + "\n".join(lines), *self.numbers())
        return ""

    def ends(self) -> list[tuple[str, str]]:
        """The two ends of the pod's link: its own shapes what it sends, the node's what it receives."""
        out, into = ("inside", "near"), ("", "far")
        return [end for end, way in ((out, "out"), (into, "in")) if self.direction in (way, "both")]

    def numbers(self) -> tuple[str, str]:
        return f"{self.bytes_per_second * 8}bit", str(max(1600, self.bytes_per_second // 100))

    async def probe(self, scene: Scene, place: Place, kept: str) -> None:
        shown = await place.look(scene, ENDS + "\n".join(f'{e} tc qdisc show dev "${d}" root' for e, d in self.ends()))
        if shown.count(" tbf ") < len(self.ends()):
            raise NotYet(f"the link of {place.pod} is not shaped")

    async def revert(self, scene: Scene, place: Place, kept: str) -> None:
        await place.run(scene, ENDS + "\n".join(f'{end} tc qdisc del dev "${d}" root' for end, d in self.ends()))


# The pod's own link and the node's end of it, which has the number that follows its `@if`.
ENDS = """near=eth0
number=$(inside ip -o link show eth0 | sed 's/^[0-9]*: eth0@if\\([0-9]*\\):.*/\\1/')
far=$(ip -o link | awk -F ': ' -v n="$number" '$1 == n {sub("@.*", "", $2); print $2}')
"""
