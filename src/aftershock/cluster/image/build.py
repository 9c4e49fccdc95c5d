"""Images out of layers, in the OCI format.

An image is a small document: which layers, which command. Its digest depends on nothing else.
"""

import asyncio
import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aftershock.cluster.image.layers import (
    Layer,
    add_bytes,
    blob,
    files_layer,
    packages_layer,
    read_layer,
    requirements_layer,
)
from aftershock.cluster.image.spec import ImageSpec
from aftershock.cluster.parts import Part, Progress, ensure, quiet
from aftershock.cluster.programs import PROGRAMS_BIN, programs
from aftershock.cluster.tools import tool

__all__ = ["Image", "Pulled", "build_images", "system_images", "write_archive"]


@dataclass(frozen=True)
class Image:
    """A built image: its reference, configuration and layers. `digest` is its manifest's."""

    reference: str
    config: bytes
    layers: tuple[Layer, ...]

    @property
    def manifest(self) -> bytes:
        digest, size = blob(self.config)
        return json.dumps({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": size},
            "layers": [
                {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": x.digest, "size": x.size}
                for x in self.layers
            ],
        }).encode()  # fmt: skip

    @property
    def digest(self) -> str:
        return blob(self.manifest)[0]


@dataclass(frozen=True)
class Pulled:
    """An image that came from a registry; the store has it already."""

    reference: str
    digest: str
    layers: tuple[Layer, ...] = ()


def _image(spec: ImageSpec, layers: Iterable[Layer]) -> Image:
    found = tuple(layers)
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **dict(spec.env)}
    settings: dict[str, object] = {"Env": [f"{k}={v}" for k, v in env.items()], "WorkingDir": spec.workdir}
    if spec.entrypoint:
        settings["Entrypoint"] = list(spec.entrypoint)
    if spec.cmd:
        settings["Cmd"] = list(spec.cmd)
    if spec.user:
        settings["User"] = spec.user
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [x.digest for x in found]},
    }
    return Image(spec.reference, json.dumps(config, sort_keys=True).encode(), found)


async def build_images(specs: Iterable[ImageSpec], progress: Progress = quiet) -> list[Image]:
    """Build what is not built yet; two layers or programs at a time."""
    gate = asyncio.Semaphore(2)

    async def layer(part: Part) -> Layer:
        async with gate:
            return read_layer(await ensure(part, progress))

    async def program(name: str, place: str) -> Layer:
        part = tool(name)
        async with gate:
            folder = await ensure(part, progress)
        return await layer(files_layer([(folder / name, place)], key=part.key))

    async def one(spec: ImageSpec) -> Image:
        layers = []
        if spec.packages:
            layers.append(await layer(packages_layer(spec.packages)))
        if spec.requirements:
            layers.append(await layer(requirements_layer(spec.requirements)))
        for name, place in spec.programs:
            layers.append(await program(name, place))
        if spec.files:
            layers.append(await layer(files_layer(spec.files)))
        return _image(spec, layers)

    return list(await asyncio.gather(*(one(spec) for spec in specs)))


async def system_images(progress: Progress = quiet) -> list[Image]:
    """The images of the cluster's own pods: the pause program, CoreDNS and metrics-server."""
    part = programs()
    folder = (await ensure(part, progress)) / PROGRAMS_BIN
    pause = files_layer([(folder / "pause", "/pause")], key=part.key)
    # One file under two names, so that both programs share its pages in memory.
    both = files_layer([(folder / "kube", "/coredns"), (folder / "kube", "/metrics-server")], key=part.key)
    images = []
    for name, tag, layer in (("pause", "3.10", pause), ("coredns", "1.12.4", both), ("metrics-server", "0.8.0", both)):
        spec = ImageSpec(f"registry.internal/{name}", tag, packages=(), entrypoint=(f"/{name}",))
        images.append(_image(spec, [read_layer(await ensure(layer, progress))]))
    return images


def write_archive(images: Iterable[Image], target: Path) -> None:
    """An OCI archive of several images; a layer that they share is in it once."""
    index, seen = [], set()
    with tarfile.open(target, "w") as tar:
        add_bytes(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for image in images:
            digest, size = blob(image.manifest)
            for data in (image.config, image.manifest):
                name = "blobs/" + blob(data)[0].replace(":", "/")
                if name not in seen:
                    seen.add(name)
                    add_bytes(tar, name, data)
            for layer in image.layers:
                name = "blobs/" + layer.digest.replace(":", "/")
                if name not in seen:
                    seen.add(name)
                    tar.add(layer.path, name, recursive=False)
            index.append({
                "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": size,
                "annotations": {
                    "io.containerd.image.name": image.reference, "org.opencontainers.image.ref.name": image.reference,
                },
            })  # fmt: skip
        add_bytes(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": index}).encode())
