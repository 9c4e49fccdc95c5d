"""Layers and images: the same inputs give the same bytes."""

import json
import tarfile
from pathlib import Path

import pytest

from aftershock.base.errors import BuildError
from aftershock.cluster.image.build import Image, build_images, write_archive
from aftershock.cluster.image.layers import files_layer, read_layer
from aftershock.cluster.image.spec import ImageSpec
from aftershock.cluster.parts import ensure


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))


def code(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.py").write_text(text)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    (folder / "tests").mkdir(exist_ok=True)
    return folder


async def test_the_same_files_give_the_same_layer_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = []
    for name in ("one", "two"):
        monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / f"cache-{name}"))
        source = code(tmp_path / name / "src", "print(1)\n")
        digests.append(read_layer(await ensure(files_layer([(source, "/app")]))).digest)
    assert digests[0] == digests[1]


async def test_a_layers_entries_are_plain(tmp_path: Path) -> None:
    layer = read_layer(await ensure(files_layer([(code(tmp_path / "src", "print(1)\n"), "/app")])))
    with tarfile.open(layer.path) as tar:
        members = {m.name: m for m in tar.getmembers()}
    assert list(members) == sorted(members)
    assert {(m.uid, m.gid, m.mtime, m.uname) for m in members.values()} == {(0, 0, 1700000000, "")}
    assert members["app/main.py"].mode == 0o644
    assert members["app/run.sh"].mode == 0o755
    assert layer.size == layer.path.stat().st_size


async def test_a_file_at_two_places_is_there_once(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"x" * 100_000)
    layer = read_layer(await ensure(files_layer([(program, "/one"), (program, "/two")])))
    assert layer.size < 150_000
    with tarfile.open(layer.path) as tar:
        assert tar.getmember("two").islnk()


async def test_a_missing_file_is_told() -> None:
    with pytest.raises(BuildError, match="missing"):
        files_layer([(Path("/nowhere/at/all"), "/app")])


async def test_only_the_thin_layer_differs_between_versions(tmp_path: Path) -> None:
    shared = code(tmp_path / "shared", "shared = 1\n")
    images = []
    for tag in ("1.0", "1.1"):
        version = code(tmp_path / tag, f"version = '{tag}'\n")
        spec = ImageSpec(
            "registry.internal/a", tag, packages=(), files=((shared, "/app"), (version, "/app")), user="1000",
            env=(("PATH", "/opt/bin"),), entrypoint=("/app/run.sh",),
        )  # fmt: skip
        images += await build_images([spec])
    assert images[0].digest != images[1].digest
    config = json.loads(images[0].config)
    assert config["config"]["Env"] == ["PATH=/opt/bin"]
    assert (config["config"]["User"], config["config"]["Entrypoint"]) == ("1000", ["/app/run.sh"])
    # A later folder is laid over an earlier one.
    with tarfile.open(images[0].layers[0].path) as tar:
        found = tar.extractfile("app/main.py")
        assert found
        assert found.read() == b"version = '1.0'\n"


async def test_an_archive_holds_a_shared_layer_once_and_names_each_image(tmp_path: Path) -> None:
    layer = read_layer(await ensure(files_layer([(code(tmp_path / "src", "x = 1\n"), "/app")])))
    images = [Image(f"registry.internal/{n}:1", json.dumps({"n": n}).encode(), (layer,)) for n in "ab"]
    write_archive(images, tmp_path / "images.tar")
    with tarfile.open(tmp_path / "images.tar") as tar:
        names = tar.getnames()
        index = json.loads(tar.extractfile("index.json").read())  # type: ignore[union-attr]
    assert names.count("blobs/" + layer.digest.replace(":", "/")) == 1
    shown = [m["annotations"]["io.containerd.image.name"] for m in index["manifests"]]
    assert shown == ["registry.internal/a:1", "registry.internal/b:1"]
    assert {m["digest"] for m in index["manifests"]} == {i.digest for i in images}
