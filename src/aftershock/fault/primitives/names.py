"""Wrong answers from the cluster's DNS, by its own configuration, as an operator would break it."""

import re
import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from aftershock.base.errors import ClusterError
from aftershock.base.wait import NotYet
from aftershock.fault.base import Primitive, primitive
from aftershock.fault.machine import look_on
from aftershock.fault.primitives.network import REGEX_NAME, wire_name
from aftershock.fault.scene import Scene

CODES = {"NOERROR": 0, "SERVFAIL": 2, "NXDOMAIN": 3, "REFUSED": 5}
SERVER = re.compile(r"^(?P<zones>[^\s#{}][^{}\n]*?)\s*\{\s*$", re.MULTILINE)


def with_answer(corefile: str, name: str, answer: str) -> str:
    """A Corefile that answers one name otherwise: with an address, or with a code such as NXDOMAIN.

    Raises:
        ValueError: no server of it serves the name.
    """
    best: tuple[int, int] | None = None
    for match in SERVER.finditer(corefile):
        for zone in match["zones"].split():
            plain = zone.partition("://")[2] or zone
            plain = plain.rpartition(":")[0] if ":" in plain else plain
            plain = plain.strip(".")
            if not plain or name == plain or name.endswith(f".{plain}"):
                rank = len(plain)
                if best is None or rank > best[0]:
                    best = rank, match.end()
    if best is None:
        raise ValueError(f"no server of the Corefile serves {name}")
    only = "^" + re.escape(name).replace("\\.", "[.]").replace("\\-", "-") + "[.]$"
    code = answer in CODES
    if code:
        blocks = [("ANY ANY", f"rcode {answer}")]
    else:
        blocks = [("IN A", f'answer "{{{{ .Name }}}} 60 IN A {answer}"'), ("IN AAAA", "rcode NOERROR")]
    text = "".join(
        f"\n    template {what} {{\n      match {only}\n      {says}\n      fallthrough\n    }}"
        for what, says in blocks
    )
    return corefile[: best[1]] + text + corefile[best[1] :]


def query(name: str) -> bytes:
    """A question for the address of a name."""
    return struct.pack(">6H", 0x2B1D, 0x0100, 1, 0, 0, 0) + bytes.fromhex(wire_name(name)) + b"\0" + b"\0\x01\0\x01"


def read_answer(packet: bytes) -> tuple[str, list[str]]:
    """The code of an answer and the addresses in it.

    Raises:
        ValueError: it is none.
    """
    if len(packet) < 12:
        raise ValueError("not an answer")
    _, flags, questions, answers, _, _ = struct.unpack(">6H", packet[:12])
    code = next((word for word, number in CODES.items() if number == flags & 15), str(flags & 15))
    at = 12
    for _ in range(questions):
        at = _past_name(packet, at) + 4
    found = []
    for _ in range(answers):
        at = _past_name(packet, at)
        kind, _, _, length = struct.unpack(">HHIH", packet[at : at + 10])
        if kind == 1 and length == 4:
            found.append(".".join(str(byte) for byte in packet[at + 10 : at + 14]))
        at += 10 + length
    return code, found


def _past_name(packet: bytes, at: int) -> int:
    while packet[at]:
        if packet[at] >= 192:
            return at + 2
        at += packet[at] + 1
    return at + 1


@primitive("dns_answer")
class DnsAnswer(Primitive):
    """Have the cluster's DNS answer one name wrongly: NXDOMAIN, SERVFAIL, or another address. It is a line too
    many in CoreDNS' configuration; CoreDNS takes it up by itself within about a minute and a half."""

    needs: ClassVar[frozenset[str]] = frozenset({"node-run"})
    name: str = Field(pattern=REGEX_NAME)
    answer: str = Field(pattern=r"^(NXDOMAIN|SERVFAIL|REFUSED|\d+\.\d+\.\d+\.\d+)$")
    config: str = "coredns"
    namespace: str = "kube-system"
    within: float = Field(default=180.0, gt=0, le=600)

    def touches(self) -> frozenset[str]:
        return frozenset({f"ConfigMap/{self.config}"})

    async def run(self, scene: Scene) -> dict[str, Any]:
        config = await scene.api.get("ConfigMap", self.config, self.namespace)
        before = (config or {}).get("data", {}).get("Corefile")
        if not before:
            raise ClusterError(f"there is no Corefile in ConfigMap/{self.config}", where=self.namespace)
        try:
            after = with_answer(before, self.name, self.answer)
        except ValueError as error:
            raise ClusterError(str(error), where=self.where) from error
        await self._write(scene, after)
        return {"before": before}

    async def _write(self, scene: Scene, text: str) -> None:
        api = scene.tool("kubectl-edit")
        await api.patch("ConfigMap", self.config, self.namespace, {"data": {"Corefile": text}}, how="merge")

    async def landed(self, scene: Scene, done: Mapping[str, Any]) -> None:
        """Asked from a node: what pods would be answered."""
        service = await scene.api.get("Service", "kube-dns", self.namespace)
        if service is None:
            raise ClusterError("the cluster's DNS has no Service", where=f"kube-dns in {self.namespace}")
        packet = "".join(f"\\x{byte:02x}" for byte in query(self.name))
        asked = """exec 3<>"/dev/udp/$1/53"; printf "$2" >&3
        timeout 3 dd bs=4096 count=1 status=none <&3 | od -An -v -tx1"""
        out = await look_on(scene, scene.cluster.nodes[0], asked, service["spec"]["clusterIP"], packet)
        try:
            code, found = read_answer(bytes.fromhex("".join(out.split())))
        except ValueError as error:
            raise NotYet(f"the cluster's DNS gave no answer for {self.name}") from error
        if (code if self.answer in CODES else found) != (self.answer if self.answer in CODES else [self.answer]):
            raise NotYet(f"{self.name} is answered with {code} {' '.join(found)}".rstrip())

    async def undo(self, scene: Scene, done: Mapping[str, Any]) -> None:
        await self._write(scene, done["before"])
