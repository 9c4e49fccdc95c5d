"""Named plug-ins found by scan: every module of a package is imported, decorators fill the registry."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from aftershock.problem.source import Source, near

__all__ = ["Registry"]

C = TypeVar("C")
K = TypeVar("K")


class Registry(Generic[C]):
    """Classes by name. `of` says what they are, `package` where their modules lie."""

    def __init__(self, of: str, package: str) -> None:
        self.of = of
        self._package = package
        self._classes: dict[str, type[C]] = {}
        self._loaded = False

    def add(self, name: str) -> Callable[[type[K]], type[K]]:
        """Class decorator: known by this name from now on."""

        def register(cls: type[K]) -> type[K]:
            if name in self._classes:
                raise ValueError(f"two {self.of}s are called {name}")
            self._classes[name] = cls  # type: ignore[assignment]
            cls.kind = name  # type: ignore[attr-defined]
            return cls

        return register

    def _load(self) -> None:
        if not self._loaded:
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._loaded = True

    def names(self) -> list[str]:
        self._load()
        return sorted(self._classes)

    def classes(self) -> dict[str, type[C]]:
        """All of them, by name."""
        return {name: self._classes[name] for name in self.names()}

    def find(self, name: str, source: Source, at: tuple[str | int, ...]) -> type[C]:
        """
        Raises:
            ProblemError: there is none of that name; says which is near.
        """
        self._load()
        if name not in self._classes:
            raise source.error(f"there is no {self.of} `{name}`", at, near(name, self._classes))
        return self._classes[name]
