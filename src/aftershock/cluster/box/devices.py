"""Taking the machine's disks from a control group of the unified hierarchy.

There the kernel asks a small program that is attached to the group, once for each device that a process
opens. It is written here as the seven kinds of instruction that it takes, since the libraries that compile
such programs bring a compiler along. Once attached it lives as long as the group.

Source: the kernel's include/uapi/linux/bpf.h (struct bpf_cgroup_dev_ctx, union bpf_attr).
"""

import ctypes
import os
import struct
from pathlib import Path

from aftershock.base.errors import HostError

__all__ = ["deny_block_devices"]

SYS_BPF = 321  # x86-64
PROG_LOAD, PROG_ATTACH = 5, 8
CGROUP_DEVICE_PROGRAM, CGROUP_DEVICE = 15, 6
ALLOW_MULTI = 2  # container runtimes attach programs of their own further down; all have to agree
KEPT_MAJORS = (1, 7)  # RAM disks and loop devices: the nodes' own disks are such
LOAD_WORD, AND, RIGHT, EQUAL, UNEQUAL, MOVE, EXIT = 0x61, 0x57, 0x77, 0x15, 0x55, 0xB7, 0x95


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, source << 4 | target, offset, value)


def _program() -> bytes:
    """Allow all but reading and writing of block devices whose major number is not kept."""
    kept = [_instruction(EQUAL, 3, offset=2 + len(KEPT_MAJORS) - n - 1, value=m) for n, m in enumerate(KEPT_MAJORS)]
    refuse = [_instruction(MOVE, 0, value=0), _instruction(EXIT)]
    allow = [_instruction(MOVE, 0, value=1), _instruction(EXIT)]
    after_access = 4 + len(kept) + len(refuse)
    return b"".join([
        _instruction(LOAD_WORD, 2, 1),  # access << 16 | type
        _instruction(MOVE | 0x08, 4, 2),
        _instruction(RIGHT, 4, value=16),
        _instruction(AND, 4, value=6),  # read or write
        _instruction(EQUAL, 4, offset=after_access - 1, value=0),
        _instruction(AND, 2, value=0xFFFF),
        _instruction(UNEQUAL, 2, offset=after_access - 3, value=1),  # 1: block device
        _instruction(LOAD_WORD, 3, 1, offset=4),  # major number
        *kept, *refuse, *allow,
    ])  # fmt: skip


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, 128)
    result: int = libc.syscall(SYS_BPF, command, buffer, 128)
    if result < 0:
        error = ctypes.get_errno()
        raise HostError(
            f"the kernel refused a device program: {os.strerror(error)}",
            where="bpf(2), to take the machine's disks from the nodes",
            todo="a kernel with CONFIG_CGROUP_BPF is needed, and root",
        )
    return result


def deny_block_devices(group: Path) -> None:
    """From now on no process in this group, or below, can read or write a disk of the machine."""
    program = ctypes.create_string_buffer(_program())
    licence = ctypes.create_string_buffer(b"MIT")
    count = (len(program) - 1) // 8
    loaded = _bpf(
        PROG_LOAD,
        struct.pack("<IIQQ", CGROUP_DEVICE_PROGRAM, count, ctypes.addressof(program), ctypes.addressof(licence)),
    )
    directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _bpf(PROG_ATTACH, struct.pack("<IIII", directory, loaded, CGROUP_DEVICE, ALLOW_MULTI))
    finally:
        os.close(directory)
        os.close(loaded)
