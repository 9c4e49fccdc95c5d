"""Programs that end with the one that started them."""

import ctypes
import signal

__all__ = ["die_with_parent"]

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel end this program when the one that started it is gone, however that came about."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
