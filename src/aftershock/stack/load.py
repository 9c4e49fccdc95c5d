"""Finding and reading stack folders. A folder with a stack.yaml under `stacks/` is one."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from aftershock.base.errors import ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.cluster.api import Object
from aftershock.cluster.image.spec import ImageSpec
from aftershock.problem.source import Source, near
from aftershock.stack.schema import ImageFile, StackFile

__all__ = ["Front", "Service", "Setup", "Stack", "find", "load", "read"]

Objects = tuple[Object, ...]
LEFT_OUT = ("__pycache__", ".pytest_cache", "tests")


@dataclass(frozen=True)
class Front:
    """Where users come in."""

    service: str
    port: int
    host: str
    path: str


@dataclass(frozen=True)
class Service:
    """One folder of a stack: its manifest's objects and the images that it brings."""

    name: str
    objects: Objects
    images: tuple[ImageSpec, ...]


@dataclass(frozen=True)
class Setup:
    """A command run once in a pod while the stack is deployed."""

    after: str
    pod: str
    argv: tuple[str, ...]
    stdin: Path | None


@dataclass(frozen=True)
class Stack:
    """A stack, ready to be deployed. `digest` covers every file of its folder."""

    name: str
    folder: Path
    nodes: int
    namespace: str
    front: Front
    services: tuple[Service, ...]
    setup: tuple[Setup, ...]
    journey: str
    digest: str

    def images(self) -> tuple[ImageSpec, ...]:
        """Every image of every version, also those that are not deployed at first."""
        return tuple(image for service in self.services for image in service.images)


def find(root: Path | None = None) -> dict[str, Path]:
    """All stack folders, by name."""
    base = (root or source_root()) / "stacks"
    return {file.parent.name: file.parent for file in sorted(base.glob("*/stack.yaml"))}


def load(name: str, root: Path | None = None) -> Stack:
    """Read a stack by its name.

    Raises:
        UsageError: there is none of that name.
        ProblemError: it is malformed; `where` names file and line.
    """
    folders = find(root)
    if name not in folders:
        raise UsageError(
            f"there is no stack `{name}`",
            where=str((root or source_root()) / "stacks"),
            todo=near(name, folders) if folders else "set $AFTERSHOCK_ROOT to the folder that holds stacks/",
        )
    return read(folders[name])


def read(folder: Path) -> Stack:
    """Read one stack folder."""
    source = Source.read(folder / "stack.yaml")
    file = source.model(StackFile, source.data)
    if file.name != folder.name:
        raise source.error(f"the stack `{file.name}` lies in the folder {folder.name}", ("name",), "give both one name")
    services = []
    for index, name in enumerate(file.order):
        if not (folder / name / "manifest.yaml").is_file():
            known = sorted(path.parent.name for path in folder.glob("*/manifest.yaml"))
            raise source.error(f"there is no {name}/manifest.yaml", ("order", index), near(name, known))
        services.append(Service(name, _manifest(folder / name / "manifest.yaml"), _images(folder, folder / name)))
    setup = []
    for index, step in enumerate(file.setup):
        stdin = _inside(source, folder, folder, step.stdin, ("setup", index, "stdin")) if step.stdin else None
        setup.append(Setup(step.after, step.pod, tuple(step.run), stdin))
    stack = Stack(
        name=file.name,
        folder=folder,
        nodes=file.nodes,
        namespace=file.namespace,
        front=Front(**file.front.model_dump()),
        services=tuple(services),
        setup=tuple(setup),
        journey=file.journey,
        digest=digest(folder),
    )
    _check_images(stack)
    return stack


def _inside(source: Source, root: Path, base: Path, name: str, at: tuple[str | int, ...]) -> Path:
    """A path of the stack's folder that exists."""
    path = (base / name).resolve()
    if not path.is_relative_to(root.resolve()):
        raise source.error(f"`{name}` lies outside the stack's folder", at, "copy it into the stack")
    if not path.exists():
        raise source.error(f"there is no `{name}`", at, f"looked for {path}")
    return path


def _manifest(path: Path) -> Objects:
    try:
        objects = tuple(document for document in yaml.safe_load_all(path.read_text()) if document)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ProblemError(f"this is not YAML: {error.problem}", where=f"{path}:{line}") from error
    for obj in objects:
        if not isinstance(obj, dict) or not obj.get("kind") or not obj.get("metadata", {}).get("name"):
            raise ProblemError("an object without kind or name", where=str(path))
    if not objects:
        raise ProblemError("a manifest without objects", where=str(path))
    return objects


def _images(root: Path, folder: Path) -> tuple[ImageSpec, ...]:
    if not (folder / "image.yaml").is_file():
        return ()
    source = Source.read(folder / "image.yaml")
    file = source.model(ImageFile, source.data)
    requirements = None
    if file.requirements:
        requirements = _inside(source, root, folder, file.requirements, ("requirements",))
    specs = []
    for tag, version in file.versions.items():
        files = []
        for name, destination in version.files.items():
            at = ("versions", tag, "files", name)
            if not destination.startswith("/"):
                raise source.error(f"the destination `{destination}` is not absolute", at, "begin it with /")
            files.append((_inside(source, root, folder, name, at), destination))
        specs.append(
            ImageSpec(
                name=file.image,
                tag=tag,
                packages=tuple(file.packages),
                requirements=requirements,
                files=tuple(files),
                entrypoint=tuple(file.entrypoint),
                cmd=tuple(file.cmd),
                env=tuple(file.env.items()),
                user=file.user,
                workdir=file.workdir,
            )
        )
    return tuple(specs)


def _check_images(stack: Stack) -> None:
    """Every image that a pod names must be one that the stack brings."""
    known = {image.reference for image in stack.images()}
    for service in stack.services:
        for named in pod_images(service.objects):
            if named not in known:
                raise ProblemError(
                    f"the image {named} is in no image.yaml",
                    where=str(stack.folder / service.name / "manifest.yaml"),
                    todo=near(named, known),
                )


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


def digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of all files of a stack that can reach its cluster."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder)
        if path.is_symlink():
            raise ProblemError("a link in a stack folder", where=str(path), todo="put the file itself there")
        if not path.is_file() or any(part in LEFT_OUT for part in name.parts) or path.name == "README.md":
            continue
        data = path.read_bytes()
        total.update(f"{name.as_posix()}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()
