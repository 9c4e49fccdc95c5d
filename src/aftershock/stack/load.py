"""Finding and reading stack folders. A folder with a stack.yaml under `stacks/` is one.

A user's own folder is a stack too: one with a stack.yaml anywhere, a Helm chart, or plain manifests.
Images that it does not bring itself are then taken from their registries.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import yaml

from aftershock.base.errors import ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.cluster import tools
from aftershock.cluster.api import Object
from aftershock.problem.source import Source, near
from aftershock.stack import content
from aftershock.stack.compose import Resolved, resolve, service_names
from aftershock.stack.content import pod_images
from aftershock.stack.model import Front, Link, Service, Setup, Stack
from aftershock.stack.schema import ChartFile, StackFile

__all__ = ["Front", "Service", "Setup", "Stack", "find", "load", "pod_images", "read", "read_own"]

MIB = 1 << 20


def find(root: Path | None = None) -> dict[str, Path]:
    """All stack folders, by name."""
    base = (root or source_root()) / "stacks"
    return {file.parent.name: file.parent for file in sorted(base.glob("*/stack.yaml"))}


def load(name: str, root: Path | None = None, *, size: str = "", components: Iterable[str] = ()) -> Stack:
    """Read a stack by its name, or by the path of its folder (with a `/` in it).

    Raises:
        UsageError: there is none of that name, or no such size or component.
        ProblemError: it is malformed; `where` names file and line.
    """
    folders = find(root)
    if name in folders:
        return read(folders[name], size=size, components=components)
    path = Path(name)
    if "/" in name and path.is_dir():
        if (path / "stack.yaml").is_file():
            return read(path.resolve(), size=size, components=components)
        if size or tuple(components):
            raise UsageError("plain manifests have no sizes or components", where=name, todo="leave the options out")
        return read_own(path.resolve())
    raise UsageError(
        f"there is no stack `{name}`",
        where=str((root or source_root()) / "stacks"),
        todo=near(name, folders) if folders else "set $AFTERSHOCK_ROOT to the folder that holds stacks/",
    )


def read(folder: Path, *, size: str = "", components: Iterable[str] = ()) -> Stack:
    """Read one stack folder and resolve it to a size and components."""
    source = Source.read(folder / "stack.yaml")
    file = source.model(StackFile, source.data)
    if file.name != folder.name:
        raise source.error(f"the stack `{file.name}` lies in the folder {folder.name}", ("name",), "give both one name")
    if file.components:
        resolved = resolve(source, file, size, components)
        services = _composed(source, file, folder, resolved)
        return _stack(source, file, folder, services, resolved)
    if asked := size or next(iter(components), ""):
        raise UsageError(
            f"the stack {file.name} has neither sizes nor components, and no `{asked}`", todo="leave the option out"
        )
    return _stack(source, file, folder, _listed(source, file, folder), None)


def read_own(folder: Path) -> Stack:
    """A user's folder without a stack.yaml: a Helm chart, or manifests in any depth."""
    if (folder / "Chart.yaml").is_file():
        objects = content.chart(folder.parent, ChartFile.model_validate({"folder": folder.name}), "default")
    else:
        files = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml") and path.is_file())
        if not files:
            raise UsageError(
                "neither stack.yaml nor Chart.yaml nor manifests there", where=str(folder), todo="name another folder"
            )
        objects = content.in_order(obj for path in files for obj in content.manifest(path))
    name = "".join(c if c.isalnum() else "-" for c in folder.name.lower()).strip("-") or "own"
    service = Service(name, objects, (), component=name)
    total = hashlib.sha256(yaml.safe_dump_all(objects).encode()).hexdigest()
    front = Front("", 0, "", "/")
    pulls = tuple(sorted(set(pod_images(objects))))
    spaces = tuple(sorted({o["metadata"]["namespace"] for o in objects if o["metadata"].get("namespace")}))
    return Stack(
        name, folder, 1, "default", front, (service,), (), "", total,
        state=total, namespaces=spaces or ("default",), pulls=pulls,
    )  # fmt: skip


def _listed(source: Source, file: StackFile, folder: Path) -> list[Service]:
    """The services of a plain list: each is applied after the one before it, and waits only for those
    that are set up by a command."""
    services: list[Service] = []
    set_up = {step.after for step in file.setup}
    needs: tuple[str, ...] = ()
    for index, name in enumerate(file.order):
        after = (file.order[index - 1],) if index else ()
        services.append(_service(source, folder, name, ("order", index), needs=needs, after=after, component=name))
        if name in set_up:
            needs = (name,)
    return services


def _composed(source: Source, file: StackFile, folder: Path, resolved: Resolved) -> list[Service]:
    """The services of all resolved components, in dependency order."""
    names = {name: service_names(name, file.components[name]) for name in resolved.order}
    services: list[Service] = []
    for name in resolved.order:
        entry, at = file.components[name], ("components", name)
        needs = tuple(service for other in resolved.needs[name] for service in names[other])
        after = tuple(service for other in resolved.after[name] for service in names[other])
        for below in entry.folders or ([] if entry.manifests or entry.chart else [name]):
            services.append(_service(source, folder, below, at, needs=needs, after=after, component=name))
        if entry.manifests:
            paths = [content.inside(source, folder, folder, m, (*at, "manifests")) for m in entry.manifests]
            objects = content.in_order(obj for path in paths for obj in content.manifest(path))
            services.append(Service(f"{name}-manifests", objects, (), needs, after, name))
        if entry.chart:
            objects = content.chart(folder, entry.chart, file.namespace)
            services.append(Service(f"{name}-chart", objects, (), needs, after, name))
    known = {service.name for service in services}
    if len(known) < len(services):
        raise source.error("a folder belongs to two components", ("components",), "name each folder once")
    return _overridden(source, file, services)


def _service(
    source: Source,
    folder: Path,
    name: str,
    at: tuple[str | int, ...],
    *,
    needs: tuple[str, ...],
    after: tuple[str, ...],
    component: str,
) -> Service:
    path = folder / name / "manifest.yaml"
    if not path.is_file():
        known = sorted(p.parent.name for p in folder.glob("*/manifest.yaml"))
        raise source.error(f"there is no {name}/manifest.yaml", at, near(name, known))
    return Service(name, content.manifest(path), content.images(folder, folder / name), needs, after, component)


def _overridden(source: Source, file: StackFile, services: list[Service]) -> list[Service]:
    """Take out what other components override. Two of a name otherwise are a fault of the stack."""
    owners: dict[tuple[str, str, str], str] = {}
    dropped: set[tuple[str, str, str, str]] = set()
    for service in services:
        wins = file.components[service.component].overrides
        for obj in service.objects:
            key = identity(obj, file.namespace)
            other = owners.get(key)
            if other is None:
                owners[key] = service.name
                continue
            says = f"{key[0]}/{key[2]}"
            owner = next(s for s in services if s.name == other)
            if says in wins:
                dropped.add((other, *key))
                owners[key] = service.name
            elif says in file.components[owner.component].overrides:
                dropped.add((service.name, *key))
            else:
                raise source.error(
                    f"{other} and {service.name} both have {says} in {key[1]}",
                    ("components", service.component),
                    f"name it in `overrides:` of the one that wins, as `{says}`",
                )
    return [
        Service(
            s.name,
            tuple(o for o in s.objects if (s.name, *identity(o, file.namespace)) not in dropped),
            s.images, s.needs, s.after, s.component,
        )
        for s in services
    ]  # fmt: skip


def identity(obj: Object, namespace: str) -> tuple[str, str, str]:
    """Kind, namespace and name. The namespace of what has none does not matter: names differ anyway."""
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace", namespace), meta["name"]


def _stack(source: Source, file: StackFile, folder: Path, services: list[Service], resolved: Resolved | None) -> Stack:
    setup = []
    names = [service.name for service in services]
    for index, step in enumerate(file.setup):
        stdin = content.inside(source, folder, folder, step.stdin, ("setup", index, "stdin")) if step.stdin else None
        if step.after in names:
            setup.append(Setup(step.after, step.pod, tuple(step.run), stdin, step.namespace))
        elif step.after not in {f for name, entry in file.components.items() for f in service_names(name, entry)}:
            raise source.error(
                f"setup comes after `{step.after}`, which no component has", ("setup", index), near(step.after, names)
            )
    size = resolved.size if resolved else ""
    front = Front(**file.front.model_dump()) if file.front else Front("", 0, "", "/")
    state, digest = _digests(folder, file, services, setup)
    stack = Stack(
        name=file.name,
        folder=folder,
        nodes=file.nodes,
        namespace=file.namespace,
        front=front,
        services=tuple(services),
        setup=tuple(setup),
        journey=file.journey,
        digest=digest,
        state=state,
        size=size,
        components=resolved.order if resolved else (),
        extras=resolved.extras if resolved else (),
        namespaces=tuple(file.namespaces) or (file.namespace,),
        parties=tuple(file.parties),
        links=tuple(Link(**{**e.model_dump(), "namespace": e.namespace or file.namespace}) for e in file.links),
        memory=file.memory.get(size, 0) * MIB,
        history=file.history,
    )
    return _with_images(stack, pull=file.pull)


def _with_images(stack: Stack, *, pull: bool) -> Stack:
    """Every image that a pod names must be one that the stack brings, or may be pulled."""
    known = {image.reference for image in stack.images()}
    pulls: set[str] = set()
    for service in stack.services:
        for named in pod_images(service.objects):
            if named in known:
                continue
            if not pull:
                raise ProblemError(
                    f"the image {named} is in no image.yaml",
                    where=str(stack.folder / service.name / "manifest.yaml"),
                    todo=near(named, known),
                )
            pulls.add(named)
    if not pulls:
        return stack
    return Stack(**{**vars(stack), "pulls": tuple(sorted(pulls))})


def _digests(folder: Path, file: StackFile, services: list[Service], setup: list[Setup]) -> tuple[str, str]:
    """Hashes of what reaches the cluster, and of that with all else that matters to a trial."""
    total = hashlib.sha256()
    said = file.model_dump(include={"name", "nodes", "namespace", "namespaces", "front", "history"})
    said["services"] = [[s.name, s.needs, s.after, len(s.objects)] for s in services]
    said["setup"] = [[step.after, step.pod, step.argv, step.namespace] for step in setup]
    total.update(json.dumps(said, sort_keys=True).encode())
    for path in _sources(folder, services, setup):
        content.folder_digest(total, folder, path)
    for service in services:
        if not (folder / service.name).is_dir():
            total.update(yaml.safe_dump_all(service.objects).encode())
    wanted = sorted({name for service in services for image in service.images for name, _ in image.programs})
    total.update("\0".join(tools.tool(name).key for name in wanted).encode())
    state = total.hexdigest()
    for path in sorted(folder.glob("*.py")):
        content.folder_digest(total, folder, path)
    total.update(json.dumps([file.journey, file.parties]).encode())
    return state, total.hexdigest()


def _sources(folder: Path, services: list[Service], setup: list[Setup]) -> list[Path]:
    """Folders and files that reach the cluster: the services', and what their images take from outside them."""
    found = {folder / service.name for service in services if (folder / service.name).is_dir()}
    found |= {step.stdin for step in setup if step.stdin}
    for service in services:
        for image in service.images:
            found |= {path for path, _ in image.files}
            found |= {image.requirements} if image.requirements else set()
    return sorted(path for path in found if not any(path.is_relative_to(p) and path != p for p in found))
