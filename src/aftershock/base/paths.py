"""Where things are kept on this machine.

*Cache*: what can be built again (programs, root file systems, images), under the user's cache
folder, keyed by content. *State*: what runs now and what was saved (boxes, snapshots), one place
for the whole machine, because links and cgroups are machine-wide too. *Records*: the results of
trials, in the folder the user works in.
"""

import os
from pathlib import Path

__all__ = ["cache_dir", "records_dir", "source_root", "state_dir"]


def cache_dir() -> Path:
    """The cache folder: `$AFTERSHOCK_CACHE`, else `$XDG_CACHE_HOME/aftershock`."""
    if given := os.environ.get("AFTERSHOCK_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aftershock"


def state_dir() -> Path:
    """The state folder: `$AFTERSHOCK_STATE`, else `/var/lib/aftershock`."""
    return Path(os.environ.get("AFTERSHOCK_STATE") or "/var/lib/aftershock")


def records_dir() -> Path:
    """Where trials write their records: `$AFTERSHOCK_RECORDS`, else `./runs`."""
    return Path(os.environ.get("AFTERSHOCK_RECORDS") or "runs").resolve()


def source_root() -> Path:
    """The folder that holds `box/`, `stacks/` and `problems/`: `$AFTERSHOCK_ROOT`, else the checkout."""
    if given := os.environ.get("AFTERSHOCK_ROOT"):
        return Path(given)
    return Path(__file__).resolve().parents[3]
