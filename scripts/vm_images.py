"""What the virtual machine of `test-vm.sh` boots from and finds, prepared on this machine.

`root` prints the folder of a part with a stock Debian: kernel, initial RAM disk and a disk image. Like all
parts it is built once and kept. `payload FOLDER` fills a mounted disk with what changes: the code, the
locked requirements for that Debian's Python, and a cache that holds just what the tests need, because the
virtual machine has no network to build anything with.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from aftershock.base.errors import AftershockError
from aftershock.base.paths import source_root
from aftershock.base.run import run
from aftershock.cluster.box.lifecycle import make_parts
from aftershock.cluster.image.layers import SITE, packages_layer, requirements_layer
from aftershock.cluster.parts import Part, Progress, digest, ensure
from aftershock.cluster.programs import DEBIAN, node_root, programs

PACKAGES = (
    "linux-image-cloud-amd64", "initramfs-tools", "systemd-sysv", "udev", "kmod", "dbus", "iproute2", "iptables",
    "util-linux", "mount", "e2fsprogs", "tar", "procps", "curl", "mmdebstrap", "python3",
)  # fmt: skip
UNIT = """\
[Unit]
Description=Run what the payload brings, then power off
RequiresMountsFor=/payload
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStart=/bin/bash /payload/checkout/scripts/vm-guest.sh
"""
FILES = {
    "etc/fstab": "/dev/vda / ext4 defaults 0 1\n/dev/vdb /payload ext4 noatime 0 2\n",
    "etc/hostname": "emulated-host\n",
    "etc/systemd/system/payload.service": UNIT,
}
ENABLED = "etc/systemd/system/multi-user.target.wants/payload.service"
CODE = ("src", "tests", "box", "scripts", "pyproject.toml", "requirements.txt")
PROGRAM = "#!{python}\nfrom aftershock.cli.main import main\n\nmain()\n"


def say(text: str) -> None:
    print(f"test-vm: {text}", file=sys.stderr, flush=True)


def root() -> Part:
    """A Debian with its own kernel, systemd and nothing of ours but the unit that starts the tests."""

    async def build(folder: Path, progress: Progress) -> None:
        tree, disk = folder / "root", folder / "disk.img"
        # What it mounts into the tree ends with it, however that comes.
        await run(
            ["unshare", "--mount", "mmdebstrap", "--variant=minbase", "--quiet",
             '--aptopt=APT::Install-Recommends "false"',
             f"--include={','.join(PACKAGES)}", DEBIAN, str(tree)],
            timeout=1200,
        )  # fmt: skip
        for name, text in FILES.items():
            (tree / name).write_text(text)
        (tree / "payload").mkdir()
        (tree / ENABLED).symlink_to("/etc/systemd/system/payload.service")
        for name, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd.img", "initrd.img-*")):
            shutil.copy(next((tree / "boot").glob(pattern)), folder / name)
        for leave in ("var/cache/apt", "var/lib/apt/lists"):
            shutil.rmtree(tree / leave, ignore_errors=True)
        with disk.open("wb") as file:
            file.truncate(2 << 30)
        await run(["mkfs.ext4", "-q", "-F", "-d", str(tree), str(disk)], timeout=300)
        shutil.rmtree(tree)

    return Part("vm-root", digest(DEBIAN, *PACKAGES, *(f"{k}\n{v}" for k, v in FILES.items())), build, estimate=150)


async def payload(folder: Path) -> None:
    """Fill the payload's disk."""
    checkout, cache = folder / "checkout", folder / "cache"
    for name in CODE:
        source, target = source_root() / name, checkout / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, target)
    os.environ["AFTERSHOCK_ROOT"] = str(checkout)  # what is built from here on fits what was copied
    (folder / "site").mkdir()
    locked = await ensure(requirements_layer(source_root() / "requirements.txt"), say)
    await run(["tar", "-xf", str(locked / "layer.tar"), "-C", str(folder / "site"), "--strip-components",
               str(SITE.count("/") + 1), SITE], timeout=300)  # fmt: skip
    # Python knows itself by the path that it was called by, and the tests find the program beside it.
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to("/usr/bin/python3")
    (folder / "bin/aftershock").write_text(PROGRAM.format(python="/payload/bin/python"))
    (folder / "bin/aftershock").chmod(0o755)

    sys.path.insert(0, str(checkout))
    from tests.cluster.conftest import tools_spec

    (folder / "page").mkdir()
    tools = tools_spec(folder / "page")
    (cache / "parts").mkdir(parents=True)
    for part in (programs(), node_root(), packages_layer(tools.packages)):
        built = await ensure(part, say)
        await run(["cp", "-a", str(built), str(cache / "parts")], timeout=120)
    os.environ["AFTERSHOCK_CACHE"] = str(cache)
    for images in ((), (tools,)):
        await make_parts(images, say)


async def main() -> None:
    if sys.argv[1:] == ["root"]:
        print(await ensure(root(), say))
    else:
        await payload(Path(sys.argv[2]))


try:
    asyncio.run(main())
except AftershockError as error:
    sys.exit(f"test-vm: {error}")
