"""Metrics as Prometheus text: a family is named once, and its samples follow."""

from collections.abc import Iterator


class Families:
    """Samples, kept by family in the order in which families first came."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str], list[str]] = {}

    def add(self, name: str, value: float | None, kind: str = "gauge", **labels: str | None) -> None:
        """One sample. A value of None is left out: the cluster does not know it."""
        if value is None:
            return
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items() if text)
        number = int(value) if value == int(value) else value
        line = f"{name}{{{shown}}} {number}" if shown else f"{name} {number}"
        self._samples.setdefault((name, kind), []).append(line)

    def __iter__(self) -> Iterator[str]:
        for (name, kind), samples in self._samples.items():
            yield f"# TYPE {name} {kind}"
            yield from samples

    def __str__(self) -> str:
        return "\n".join(self) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def quantity(text: str) -> float:
    """A Kubernetes quantity as a number.

    >>> quantity("64Mi"), quantity("250m"), quantity("2")
    (67108864.0, 0.25, 2.0)
    """
    for suffix, factor in SUFFIXES.items():
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    if text.endswith("m"):
        return float(text[:-1]) / 1000
    return float(text)
