"""What lies in a stack's folders: manifests, image files, charts; and the hash of it.

Everything is read before anything starts, and an error names file and line.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from aftershock.base.errors import HostError, ProblemError
from aftershock.cluster import tools
from aftershock.cluster.image.spec import ImageSpec
from aftershock.problem.source import Source, near
from aftershock.stack.model import Objects
from aftershock.stack.schema import ChartFile, ImageFile

__all__ = ["chart", "folder_digest", "images", "inside", "manifest", "parse", "pod_images"]

LEFT_OUT = ("__pycache__", ".pytest_cache", ".ruff_cache", "tests")
DOCUMENTS = ("README.md", "RELEASES.md")
# What must be there before what refers to it, as an operator would apply a heap of files.
FIRST = (
    "Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "ResourceQuota", "LimitRange",
    "ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim", "ClusterRole", "ClusterRoleBinding", "Role",
    "RoleBinding", "NetworkPolicy", "Service",
)  # fmt: skip


def inside(source: Source, root: Path, base: Path, name: str, at: tuple[str | int, ...]) -> Path:
    """A path of the stack's folder that exists."""
    path = (base / name).resolve()
    if not path.is_relative_to(root.resolve()):
        raise source.error(f"`{name}` lies outside the stack's folder", at, "copy it into the stack")
    if not path.exists():
        raise source.error(f"there is no `{name}`", at, f"looked for {path}")
    return path


def manifest(path: Path) -> Objects:
    """The objects of a manifest file, in its order."""
    return parse(path.read_text(), str(path))


def parse(text: str, where: str) -> Objects:
    """The objects of a YAML text."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ProblemError(f"this is not YAML: {error.problem}", where=f"{where}:{line}") from error
    objects: list[dict[str, Any]] = []
    for obj in documents:
        if isinstance(obj, dict) and obj.get("kind") == "List":
            objects += obj.get("items") or []
        else:
            objects.append(obj)
    for obj in objects:
        if not isinstance(obj, dict) or not obj.get("kind") or not obj.get("metadata", {}).get("name"):
            raise ProblemError("an object without kind or name", where=where)
    if not objects:
        raise ProblemError("a manifest without objects", where=where)
    return tuple(objects)


def in_order(objects: Iterable[dict[str, Any]]) -> Objects:
    """Objects from several files in an order in which they can be applied."""
    return tuple(sorted(objects, key=lambda o: FIRST.index(o["kind"]) if o["kind"] in FIRST else len(FIRST)))


def chart(folder: Path, entry: ChartFile, namespace: str) -> Objects:
    """The objects of a Helm chart, as `helm template` renders them.

    Raises:
        HostError: there is no `helm` program on this machine.
        ProblemError: it refuses the chart, in its own words.
    """
    path = folder / entry.folder
    helm = shutil.which("helm")
    if helm is None:
        raise HostError(
            f"the chart {path.name} needs the program helm, which is not on this machine",
            where=str(path),
            todo="install helm (https://helm.sh), or put what `helm template` prints there as plain manifests",
        )
    argv = [helm, "template", entry.release or path.name, str(path), "--namespace", entry.namespace or namespace]
    argv += ["--include-crds", *(f"--values={folder / name}" for name in entry.values)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ProblemError(f"helm refuses the chart: {done.stderr.strip()[-600:]}", where=str(path))
    return in_order(parse(done.stdout, f"the chart {path}"))


def _absolute(source: Source, destination: str, at: tuple[str | int, ...]) -> None:
    if not destination.startswith("/"):
        raise source.error(f"the destination `{destination}` is not absolute", at, "begin it with /")


def images(root: Path, folder: Path) -> tuple[ImageSpec, ...]:
    """The images that a folder's image.yaml describes, one for each version."""
    if not (folder / "image.yaml").is_file():
        return ()
    source = Source.read(folder / "image.yaml")
    file = source.model(ImageFile, source.data)
    requirements = None
    if file.requirements:
        requirements = inside(source, root, folder, file.requirements, ("requirements",))
    for name, destination in file.programs.items():
        if name not in tools.names():
            raise source.error(f"there is no tool `{name}`", ("programs", name), near(name, tools.names()))
        _absolute(source, destination, ("programs", name))
    specs = []
    for tag, version in file.versions.items():
        files = []
        for name, destination in version.files.items():
            at = ("versions", tag, "files", name)
            _absolute(source, destination, at)
            files.append((inside(source, root, folder, name, at), destination))
        specs.append(
            ImageSpec(
                name=file.image,
                tag=tag,
                packages=tuple(file.packages),
                requirements=requirements,
                programs=tuple(file.programs.items()),
                files=tuple(files),
                entrypoint=tuple(file.entrypoint),
                cmd=tuple(file.cmd),
                env=tuple(file.env.items()),
                user=file.user,
                workdir=file.workdir,
            )
        )
    return tuple(specs)


def pod_images(value: Any) -> Iterator[str]:
    """All images named by containers anywhere in an object."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key in ("containers", "initContainers") and isinstance(below, list):
                yield from (container["image"] for container in below)
            else:
                yield from pod_images(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from pod_images(below)


def folder_digest(total: "hashlib._Hash", root: Path, path: Path) -> None:
    """Take in the names and bytes of all files of a folder (or one file) that can reach a cluster."""
    found = sorted(path.rglob("*"), key=lambda p: p.relative_to(root).as_posix()) if path.is_dir() else [path]
    for file in found:
        name = file.relative_to(root)
        if file.is_symlink():
            raise ProblemError("a link in a stack folder", where=str(file), todo="put the file itself there")
        if not file.is_file() or any(part in LEFT_OUT for part in name.parts) or file.name in DOCUMENTS:
            continue
        data = file.read_bytes()
        total.update(f"{name.as_posix()}\0{len(data)}\0".encode())
        total.update(data)
