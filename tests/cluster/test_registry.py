"""Images from a registry: a real one on loopback, made of Debian's package."""

import asyncio
import secrets
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from aftershock.base.errors import BuildError
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box.box import Box
from aftershock.cluster.image import store
from aftershock.cluster.image.build import build_images
from aftershock.cluster.image.spec import ImageSpec

from .conftest import TOOLS, Cluster


@pytest_asyncio.fixture
async def registry(tmp_path: Path) -> AsyncIterator[str]:
    """Address of an empty registry that ends with the test."""
    subprocess.run(["apt-get", "download", "-qq", "docker-registry"], cwd=tmp_path, check=True, capture_output=True)
    package = next(tmp_path.glob("*.deb"))
    subprocess.run(["dpkg", "-x", str(package), str(tmp_path / "root")], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"localhost:{free.getsockname()[1]}"
    settings = tmp_path / "config.yml"
    port = address.split(":")[1]
    settings.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = await asyncio.create_subprocess_exec(
        str(tmp_path / "root/usr/bin/docker-registry"), "serve", str(settings),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip

    async def listens() -> None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", int(address.split(":")[1]))
        except OSError as error:
            raise NotYet(str(error)) from error
        writer.close()

    await until(listens, what="the registry listens", seconds=20)
    try:
        yield address
    finally:
        process.kill()
        await process.wait()


async def test_an_image_is_pulled_once_and_runs(registry: str, box: Box, tools_image: ImageSpec) -> None:
    """The shared box' own test image is pushed to the registry; another box gets it from there."""
    wanted = f"{registry}/team/tools:1.0"
    source = store._kept((await build_images([tools_image]))[0])
    data = store.store_dir() / store.PLACE / "data"
    push = f"ctr -n k8s.io images push {wanted} {source} >&2"
    await store._containerd(data, store.store_dir(), push, timeout=120)

    made = await boxes.up(f"test-{secrets.token_hex(3)}", nodes=1, pulls=[wanted], ephemeral=True)
    async with boxes.closing(made), Cluster(made, "default") as cluster:
        await cluster.api.wait_for("ServiceAccount", "default", "default", lambda o: "" if o else "none", seconds=30)
        pod = await cluster.pod("pulled", "cat /www/index.html; sleep 600", image=wanted)
        assert pod["status"]["containerStatuses"][0]["image"] == wanted
        assert (await cluster.kubectl("logs", "pulled")).out.strip() == "hello from a pod"
        known = await cluster.box.node_run("node-0", ["ctr", "-n", "k8s.io", "images", "ls", "-q"])
        assert TOOLS not in known.out, "a node shows an image of another box"
    said: list[str] = []
    assert [p.reference for p in await store.pull([wanted], said.append)] == [wanted]
    assert said == [], "it was pulled again"


async def test_an_image_that_is_not_there_is_told(registry: str) -> None:
    with pytest.raises(BuildError, match="could not be pulled") as refused:
        await store.pull([f"{registry}/nobody/nothing:9"])
    assert "check the name" in refused.value.todo
    with pytest.raises(BuildError, match="could not be pulled"):
        await store.pull(["localhost:1/nobody/nothing:9"])
