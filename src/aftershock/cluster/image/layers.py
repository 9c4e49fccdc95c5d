"""Layers: tar archives that come out the same, byte for byte, from the same inputs.

Four kinds, thickest first: Debian packages (shared by every image with the same set), Python
requirements, programs built from their sources, and files of one version of one service. So a change
to a service's code writes a layer of a few kilobytes and leaves the others as they are.
"""

import hashlib
import io
import json
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from aftershock.base.errors import BuildError, CommandFailed
from aftershock.base.run import run
from aftershock.cluster.parts import Part, Progress, digest
from aftershock.cluster.programs import DEBIAN, extract_packages

__all__ = ["Layer", "files_layer", "packages_layer", "read_layer", "requirements_layer"]

EPOCH = 1700000000
RECIPE = "4"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
SITE = "usr/local/lib/python3.11/dist-packages"
ACCOUNTS = (
    ("root", 0, 0, "/root"),
    ("daemon", 1, 1, "/usr/sbin"),
    ("www-data", 33, 33, "/var/www"),
    ("postgres", 101, 101, "/var/lib/postgresql"),
    ("app", 1000, 1000, "/home/app"),
    ("nobody", 65534, 65534, "/nonexistent"),
)


@dataclass(frozen=True)
class Layer:
    """An uncompressed layer: its file, and the digest that is both its blob's and its diff id."""

    path: Path
    digest: str
    size: int


def read_layer(folder: Path) -> Layer:
    """The layer that a built part holds."""
    about = json.loads((folder / "layer.json").read_text())
    return Layer(folder / "layer.tar", about["digest"], about["size"])


def pack(root: Path, target: Path, *, owner: Callable[[str], int] = lambda _: 0) -> None:
    """Write a folder as a layer: sorted, one time stamp, numeric owners, hard links kept."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*"), key=lambda p: p.relative_to(root).as_posix()):
            name = path.relative_to(root).as_posix()
            info = tar.gettarinfo(str(path), name)
            info.uid = info.gid = owner(name)
            info.uname = info.gname = ""
            info.mtime = EPOCH
            info.pax_headers = {}
            if info.isreg():
                with path.open("rb") as data:
                    tar.addfile(info, data)
            else:
                tar.addfile(info)
    _finish(target)


def _finish(tar: Path) -> None:
    with tar.open("rb") as file:
        sha = hashlib.file_digest(file, "sha256").hexdigest()
    about = {"digest": f"sha256:{sha}", "size": tar.stat().st_size}
    (tar.parent / "layer.json").write_text(json.dumps(about))


def packages_layer(packages: Iterable[str]) -> Part:
    """A base layer: Debian packages, and the accounts and links their scripts would have made."""
    wanted = tuple(sorted({*packages, "base-files", "base-passwd", "dash", "libc-bin"}))

    async def build(folder: Path, progress: Progress) -> None:
        root = folder / "root"
        await extract_packages(wanted, root)
        etc = root / "etc"
        (etc / "passwd").write_text("".join(f"{n}:x:{u}:{g}:{n}:{h}:/bin/sh\n" for n, u, g, h in ACCOUNTS))
        (etc / "group").write_text("".join(f"{n}:x:{g}:\n" for n, _, g, _ in ACCOUNTS))
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
        for path, to in (("bin/sh", "dash"), ("usr/bin/awk", "mawk")):
            if (root / path).parent.is_dir() and not (root / path).exists() and (root / path).with_name(to).exists():
                (root / path).unlink(missing_ok=True)
                (root / path).symlink_to(to)
        (root / "tmp").mkdir(exist_ok=True)
        (root / "tmp").chmod(0o1777)
        for name in ("var/cache/apt", "var/lib/apt", "var/lib/dpkg", "var/log", "boot", "usr/share/doc"):
            shutil.rmtree(root / name, ignore_errors=True)
        (root / "var/log").mkdir(parents=True)
        await run(["chroot", str(root), "/sbin/ldconfig"], timeout=60)
        (root / "var/cache/ldconfig/aux-cache").unlink(missing_ok=True)
        if (root / "usr/bin/python3").exists():
            progress("image: compiling Python's library")
            await run(["chroot", str(root), "/usr/bin/python3", "-m", "compileall", "-q", "--invalidation-mode",
                       "unchecked-hash", "/usr/lib/python3.11"], timeout=300, check=False)  # fmt: skip
        pack(root, folder / "layer.tar")
        shutil.rmtree(root)

    return Part("layer-packages", digest(DEBIAN, RECIPE, *wanted), build, estimate=45)


def requirements_layer(requirements: Path) -> Part:
    """Hash-locked Python requirements for Debian's Python 3.11, compiled."""

    async def build(folder: Path, progress: Progress) -> None:
        root = folder / "root"
        site = root / SITE
        site.mkdir(parents=True)
        try:
            await run(
                [
                    *(sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "--no-deps", "--no-compile"),
                    *("--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp"),
                    *(f"--platform={p}" for p in PLATFORMS),
                    *("--target", str(site), "-r", str(requirements)),
                ],
                timeout=600,
            )
        except CommandFailed as error:
            raise BuildError(
                f"Python requirements could not be installed: {error.what[-800:]}",
                where=str(requirements),
                todo="check the network, and that the file is locked by hashes for Python 3.11",
            ) from error
        shutil.rmtree(site / "bin", ignore_errors=True)
        for record in site.glob("*.dist-info/*"):
            if record.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                record.unlink()
        if sys.version_info[:2] == (3, 11):
            await run([sys.executable, "-m", "compileall", "-q", "-s", str(root), "-p", "/", "--invalidation-mode",
                       "unchecked-hash", str(site)], timeout=300, check=False)  # fmt: skip
        pack(root, folder / "layer.tar")
        shutil.rmtree(root)

    return Part("layer-python", digest(RECIPE, requirements, sys.version_info[:2]), build, estimate=20)


def files_layer(files: Iterable[tuple[Path, str]], *, key: str = "") -> Part:
    """Files and folders at their places in the image, owned by root, readable by all.

    A file that is wanted at two places is there once, under two names.

    Args:
        key: stands for the files' content where hashing it would take too long.
    """
    wanted = tuple(files)
    for source, _ in wanted:
        if not source.exists():
            raise BuildError("a file of an image is missing", where=str(source), todo="correct the image's files")

    async def build(folder: Path, progress: Progress) -> None:
        root = folder / "root"
        placed: dict[Path, Path] = {}
        for source, place in wanted:
            target = root / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if source in placed:
                target.hardlink_to(placed[source])
            elif source.is_dir():
                shutil.copytree(
                    source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "test_*")
                )
            else:
                placed[source] = Path(shutil.copy(source, target))
        for path in root.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        if sys.version_info[:2] == (3, 11):
            for _, place in wanted:
                await run([sys.executable, "-m", "compileall", "-q", "-s", str(root), "-p", "/", "--invalidation-mode",
                           "unchecked-hash", str(root / place.lstrip("/"))], timeout=120, check=False)  # fmt: skip
        pack(root, folder / "layer.tar")
        shutil.rmtree(root)

    parts: list[object] = [RECIPE, sys.version_info[:2]]
    for source, place in wanted:
        parts += [place, key or source]
    return Part("layer-files", digest(*parts), build, estimate=1)


def blob(data: bytes) -> tuple[str, int]:
    """Digest and size of a small blob."""
    return "sha256:" + hashlib.sha256(data).hexdigest(), len(data)


def add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = EPOCH
    tar.addfile(info, io.BytesIO(data))
