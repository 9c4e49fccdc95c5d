"""Which components a stack is made of, once a size and some more have been asked for.

A size names components and other sizes. What is asked for besides is added, and what any of them
needs comes with it. A component that replaces another takes its place: for whoever needs the other,
and in the size. Everything is refused here that makes no sense, before anything starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aftershock.base.errors import UsageError
from aftershock.problem.source import At, Source, near
from aftershock.stack.schema import ComponentFile, StackFile

__all__ = ["Resolved", "resolve"]


@dataclass(frozen=True)
class Resolved:
    """Components in dependency order, and for each the components that it needs and comes after."""

    size: str
    extras: tuple[str, ...]
    order: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    after: Mapping[str, tuple[str, ...]]


def resolve(source: Source, file: StackFile, size: str = "", asked: Iterable[str] = ()) -> Resolved:
    """The components of a size, the first in the file when none is named, and those asked for.

    Raises:
        ProblemError: the file names what is not there, or components need each other in a ring.
        UsageError: there is no such size or component.
    """
    _check(source, file)
    asked = tuple(dict.fromkeys(asked))
    if size and size not in file.sizes:
        raise UsageError(
            f"the stack {file.name} has no size `{size}`", where=source.where(("sizes",)), todo=near(size, file.sizes)
        )
    for name in asked:
        if name not in file.components:
            raise UsageError(
                f"the stack {file.name} has no component `{name}`",
                where=source.where(("components",)),
                todo=near(name, file.components),
            )
    size = size or next(iter(file.sizes))
    chosen = {*_members(file, size), *asked}
    stands_in = _stand_ins(source, file, chosen, asked)
    names = _closure(file, {stands_in.get(name, name) for name in chosen}, stands_in)
    needs = {name: _kept(file.components[name].needs, stands_in, names) for name in names}
    after = {name: _kept(file.components[name].after, stands_in, names) for name in names}
    order = _sorted(source, {name: (*needs[name], *after[name]) for name in names}, list(file.components))
    members = {stands_in.get(name, name) for name in _members(file, size)}
    extras = tuple(sorted(name for name in asked if name not in members or name in stands_in.values()))
    return Resolved(size, extras, order, needs, after)


def _check(source: Source, file: StackFile) -> None:
    """What the file says of its components and sizes must be about things that are there."""
    for name, component in file.components.items():
        for key, named in (("needs", component.needs), ("after", component.after)):
            for index, other in enumerate(named):
                _exists(source, other, file.components, ("components", name, key, index))
        if component.replaces:
            _exists(source, component.replaces, file.components, ("components", name, "replaces"))
    for size, members in file.sizes.items():
        for index, member in enumerate(members):
            _exists(source, member, {**file.components, **file.sizes}, ("sizes", size, index))
    _sorted(
        source,
        {size: tuple(m for m in members if m in file.sizes) for size, members in file.sizes.items()},
        list(file.sizes),
        what="sizes",
    )
    _sorted(
        source, {name: (*entry.needs, *entry.after) for name, entry in file.components.items()}, list(file.components)
    )


def _exists(source: Source, name: str, known: Iterable[str], at: At) -> None:
    if name not in known:
        raise source.error(f"there is no component `{name}`", at, near(name, known))


def _members(file: StackFile, size: str) -> list[str]:
    """The components of a size, those of the sizes in it included."""
    found: list[str] = []
    for member in file.sizes[size]:
        found += _members(file, member) if member in file.sizes else [member]
    return list(dict.fromkeys(found))


def _stand_ins(source: Source, file: StackFile, chosen: Iterable[str], asked: Sequence[str]) -> dict[str, str]:
    """Which component takes whose place."""
    found: dict[str, str] = {}
    for name in sorted(chosen):
        replaced = file.components[name].replaces
        if not replaced:
            continue
        if replaced in asked:
            raise UsageError(f"`{name}` takes the place of `{replaced}`", todo="ask for one of them")
        if replaced in found:
            raise UsageError(
                f"`{name}` and `{found[replaced]}` both take the place of `{replaced}`", todo="ask for one"
            )
        found[replaced] = name
    return found


def _closure(file: StackFile, wanted: set[str], stands_in: Mapping[str, str]) -> set[str]:
    """Everything wanted and all that it needs."""
    found: set[str] = set()
    todo = sorted(wanted)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [stands_in.get(other, other) for other in file.components[name].needs]
    return found


def _kept(names: Iterable[str], stands_in: Mapping[str, str], chosen: set[str]) -> tuple[str, ...]:
    """Names after replacement, those that are not part of this composition left out."""
    return tuple(dict.fromkeys(name for name in (stands_in.get(n, n) for n in names) if name in chosen))


def _sorted(
    source: Source, needs: Mapping[str, Sequence[str]], listed: Sequence[str], *, what: str = "components"
) -> tuple[str, ...]:
    """Dependency order; among equals that of the file.

    Raises:
        ProblemError: naming the ring.
    """
    done: list[str] = []
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in path:
            ring = " needs ".join([*path[path.index(name) :], name])
            raise source.error(f"{what} need each other in a ring: {ring}", (what, name), "take one of these needs out")
        path.append(name)
        for other in needs.get(name, ()):
            visit(other)
        done.append(path.pop())

    for name in sorted(needs, key=listed.index):
        visit(name)
    return tuple(done)


def service_names(name: str, component: ComponentFile) -> list[str]:
    """The services that a component consists of, by the names they have in a resolved stack."""
    found = list(component.folders)
    found += [f"{name}-manifests"] if component.manifests else []
    found += [f"{name}-chart"] if component.chart else []
    return found or [name]
