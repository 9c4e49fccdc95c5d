"""The image store: every layer unpacked once for all nodes of all boxes on this machine.

The store is the data folder of a containerd that runs only while images are added. Nodes mount it
read-only and get a *seed*: containerd's two small databases, cut down to the images of that kind of
box, with a symbolic link for each unpacked layer. So a node knows its images from its first moment,
nothing is copied, and a node never shows an image that is not its own.
"""

import json
import secrets
import shlex
import shutil
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from aftershock.base.errors import BuildError, CommandFailed
from aftershock.base.paths import cache_dir
from aftershock.base.record import write_json
from aftershock.base.run import run
from aftershock.cluster.host import require_room
from aftershock.cluster.image.build import Image, Pulled, write_archive
from aftershock.cluster.parts import Part, Progress, digest, ensure, lock, quiet
from aftershock.cluster.programs import node_root

__all__ = ["pull", "seed", "store_dir"]

FORMAT = "2"
PLACE = "root/var/lib/images"  # a layer of every node's root
SNAPSHOTTER = "io.containerd.snapshotter.v1.overlayfs"
DATABASES = ("io.containerd.metadata.v1.bolt/meta.db", f"{SNAPSHOTTER}/metadata.db")


def store_dir() -> Path:
    return cache_dir() / f"images-{FORMAT}"


async def _containerd(data: Path, store: Path, script: str, *, timeout: float) -> str:
    """Run a shell script beside a containerd whose data folder is `data`; both end with it."""
    system = (await ensure(node_root())) / "root"
    helper = Path(str(files(__package__) / "with-containerd.sh"))
    done = await run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
         "bash", str(helper), str(system), str(data), str(store), script],
        timeout=timeout, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    return done.out


def _known(store: Path) -> dict[str, str]:
    """Digest -> reference of every image in the store."""
    path = store / "known.json"
    if not path.exists() or not (store / PLACE / "data" / DATABASES[0]).exists():
        return {}
    found: dict[str, str] = json.loads(path.read_text())
    return found


async def pull(references: Sequence[str], progress: Progress = quiet) -> list[Pulled]:
    """Images from their registries, fetched once; the machine needs a way there the first time.

    Args:
        references: complete names with tag or digest, such as docker.io/library/nginx:1.27.

    Raises:
        BuildError: a registry cannot be reached, or has no such image.
    """
    if not references:
        return []
    store = store_dir()
    await _generation()
    async with lock(cache_dir() / "locks" / "images", lambda: progress("images: waiting for another process")):
        known = _known(store)
        pulled_path = store / "pulled.json"
        # Two names may have one content, so what a name stood for is kept apart from what is there.
        digests: dict[str, str] = json.loads(pulled_path.read_text()) if known and pulled_path.exists() else {}
        data = store / PLACE / "data"
        data.mkdir(parents=True, exist_ok=True)
        for reference in references:
            if reference in digests:
                continue
            require_room(cache_dir(), 2000, f"pulling {reference}")
            progress(f"images: pulling {reference}")
            name = shlex.quote(reference)
            script = (
                f"ctr -n k8s.io images pull --snapshotter overlayfs {name} >&2\n"
                f"digest=$(ctr -n k8s.io images ls name=={name} | awk 'NR == 2 {{ print $3 }}')\n"
                f'ctr -n k8s.io images tag --force {name} "kept.local/$(echo "$digest" | cut -c 8-31):1" >&2\n'
                f"ctr -n k8s.io images rm {name} >&2\necho $digest\n"
            )
            try:
                digests[reference] = (await _containerd(data, store, script, timeout=900)).strip()
            except CommandFailed as error:
                raise BuildError(
                    f"the image {reference} could not be pulled: {error.what[-400:]}",
                    where=reference,
                    todo="check the name (registry, path and tag) and the way to the registry",
                ) from error
            known.setdefault(digests[reference], reference)
            write_json(store / "known.json", known)
            write_json(pulled_path, digests)
    return [Pulled(reference, digests[reference]) for reference in references]


async def _add(images: Sequence[Image | Pulled], progress: Progress) -> None:
    """Add to the store what is not in it yet. The caller holds the store's lock."""
    store = store_dir()
    known = _known(store)
    missing = [i for i in images if isinstance(i, Image) and i.digest not in known]
    if not missing:
        return
    size = sum(layer.size for image in missing for layer in image.layers) >> 20
    require_room(cache_dir(), 2 * size + 500, "unpacking images")
    progress(f"images: unpacking {len(missing)} (about {max(2, size // 60)} s)")
    data = store / PLACE / "data"
    data.mkdir(parents=True, exist_ok=True)
    archive = store / "adding.tar"
    try:
        write_archive(missing, archive)
        # Images are kept under their digest, so that two contents of one name can be there.
        script = f"ctr -n k8s.io images import --snapshotter overlayfs --all-platforms {archive} >&2"
        for image in missing:
            script += f"\nctr -n k8s.io images tag --force {image.reference} {_kept(image)} >&2"
            script += f"\nctr -n k8s.io images rm {image.reference} >&2"
        script += "\nctr -n k8s.io images check | grep -v 'complete (' | tail -n +2 >&2 || :"
        await _containerd(data, store, script, timeout=600)
    except CommandFailed as error:
        raise BuildError(
            f"images could not be unpacked: {error.what[-800:]}",
            where=str(store),
            todo="try again; `aftershock clean` removes the cache if it goes on",
        ) from error
    finally:
        archive.unlink(missing_ok=True)
    write_json(store / "known.json", known | {i.digest: i.reference for i in missing})


async def _generation() -> str:
    """What tells this store from one that was removed: seeds of the other do not fit it."""
    path = store_dir() / "generation"
    if not path.exists():
        async with lock(cache_dir() / "locks" / "images"):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, secrets.token_hex(8))
    return path.read_text().strip()


def _kept(image: Image | Pulled) -> str:
    """The name under which the store keeps an image."""
    return f"kept.local/{image.digest.removeprefix('sha256:')[:24]}:1"


async def seed(images: Sequence[Image | Pulled], progress: Progress = quiet) -> Path:
    """The folder with `seed.tar`, a node's containerd data with exactly these images."""
    wanted = sorted({i.reference: i for i in images}.values(), key=lambda i: i.reference)

    async def build(folder: Path, progress: Progress) -> None:
        store = store_dir()
        async with lock(cache_dir() / "locks" / "images", lambda: progress("images: waiting for another process")):
            await _add(wanted, progress)
            data = folder / "data"
            for name in DATABASES:
                (data / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(store / PLACE / "data" / name, data / name)
            _link_layers(store, data)
            script = "".join(f"ctr -n k8s.io images tag {_kept(i)} {i.reference} >&2\n" for i in wanted)
            keep = " ".join(i.reference for i in wanted)
            script += (
                f"keep=' {keep} '; for i in $(ctr -n k8s.io images ls -q); do "
                'case "$keep" in *" $i "*) ;; *) ctr -n k8s.io images rm --sync "$i" >&2;; esac; done\n'
                "ctr -n k8s.io images check | tail -n +2\n"
            )
            checked = await _containerd(data, store, script, timeout=120)
        complete = {line.split()[0] for line in checked.splitlines() if " complete " in line}
        if lost := [i.reference for i in wanted if i.reference not in complete]:
            raise BuildError(
                f"images are not whole in the store: {', '.join(lost)}",
                where=str(store),
                todo="`aftershock clean` removes the store; it is built again",
            )
        for leave in ("io.containerd.runtime.v1.linux", "io.containerd.runtime.v2.task", "tmpmounts"):
            shutil.rmtree(data / leave, ignore_errors=True)
        await run(["tar", "-cf", str(folder / "seed.tar"), "-C", str(data), "--numeric-owner", "."], timeout=60)
        shutil.rmtree(data)

    key = digest(FORMAT, await _generation(), *(f"{i.reference}@{i.digest}" for i in wanted))
    return await ensure(Part("seed", key, build, estimate=4), progress)


def _link_layers(store: Path, data: Path) -> None:
    """Links to the unpacked layers and blobs, at the place where nodes mount the store."""
    place = Path("/var/lib/images/data")
    for inner in (f"{SNAPSHOTTER}/snapshots", "io.containerd.content.v1.content/blobs/sha256"):
        (data / inner).mkdir(parents=True, exist_ok=True)
        for entry in (store / PLACE / "data" / inner).iterdir():
            (data / inner / entry.name).symlink_to(place / inner / entry.name)
    (data / "io.containerd.content.v1.content/ingest").mkdir(exist_ok=True)
