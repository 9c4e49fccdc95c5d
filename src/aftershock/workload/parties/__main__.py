"""The parties' program: `python -m aftershock.workload.parties`, run in the world outside a cluster.

Each party asked for listens at its address and keeps `<party>.jsonl` in --out. A Unix socket there takes
one JSON object a line, `{"party": ..., "tell": {...}}`, and answers with how the party behaves now.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aftershock.base.errors import AftershockError, UsageError
from aftershock.base.record import write_json
from aftershock.workload.parent import die_with_parent
from aftershock.workload.parties.hooks import Pager, PartnerHooks
from aftershock.workload.parties.mail import MailRelay
from aftershock.workload.parties.payments import PaymentProvider

Party = PaymentProvider | MailRelay | PartnerHooks | Pager
PARTIES: dict[str, type[Party]] = {
    "payments": PaymentProvider, "mail": MailRelay, "hooks": PartnerHooks, "pager": Pager,
}  # fmt: skip


class Control:
    """The socket by which parties are told how to behave."""

    def __init__(self, parties: dict[str, Party]) -> None:
        self._parties = parties

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(json.dumps(self.answer(line)).encode() + b"\n")
                await writer.drain()
        writer.close()

    def answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            name = asked.get("party", "")
            if name not in self._parties:
                raise UsageError(f"there is no party `{name}`", todo=f"known: {', '.join(self._parties)}")
            told = self._parties[name].told
            if "tell" in asked:
                told.tell(asked["tell"])
            return {"party": name, "now": asdict(told.now)}
        except (UsageError, ValueError, TypeError, AttributeError) as error:
            return {"error": str(error)}


async def _main(out: Path, listen: dict[str, tuple[str, int]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    parties = {name: PARTIES[name](out / f"{name}.jsonl") for name in listen}
    ports = {name: await parties[name].start(host, port) for name, (host, port) in listen.items()}
    socket = out / "control"
    socket.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(Control(parties).connected, socket)
    write_json(out / "parties.json", {"ports": ports})
    await stop.wait()
    server.close()
    for party in parties.values():
        await party.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="parties", description="External parties of a shop.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the ledgers and the control socket")
    parser.add_argument("--listen", action="append", default=[], metavar="PARTY=HOST[:PORT]")
    parser.add_argument("--die-with-parent", action="store_true")
    arguments = parser.parse_args()
    if arguments.die_with_parent:
        die_with_parent()
    listen = {}
    for text in arguments.listen:
        name, _, place = text.partition("=")
        if name not in PARTIES:
            parser.error(f"there is no party {name}: {', '.join(PARTIES)}")
        host, _, port = place.partition(":")
        listen[name] = (host, int(port) if port else PARTIES[name].port)
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(_main(arguments.out, listen))
    except (AftershockError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
