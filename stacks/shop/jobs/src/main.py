"""Jobs that run by the clock: settlement, cleanup, sales-report.

    python3 main.py settlement

Each is a module with `async def run(settings)`, which returns what goes into the last log line, and which may be
killed at any point and run again.
"""

import asyncio
import importlib
import sys
import time

from marketlib.errors import Unavailable
from marketlib.logs import log, set_up
from marketlib.settings import Settings
from release import VERSION

JOBS = {"settlement": "settlement", "cleanup": "cleanup", "sales-report": "sales_report"}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in JOBS:
        sys.stderr.write(f"usage: main.py {' | '.join(JOBS)}\n")
        return 2
    name = arguments[0]
    set_up(name)
    module = importlib.import_module(JOBS[name])
    begin = time.monotonic()
    log.info("started", extra={"version": VERSION})
    try:
        about = asyncio.run(module.run(Settings.load(name)))
    except Unavailable as error:
        log.error("not finished", extra={"reason": str(error)})
        return 1
    log.info("finished", extra={**about, "seconds": round(time.monotonic() - begin, 2)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
