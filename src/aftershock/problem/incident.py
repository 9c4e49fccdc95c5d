"""incident.yaml: the structured reading of a postmortem, each claim with its place in the source.

A claim either cites (source, line or lines, a short quote), or says openly that it is assumed: what
the report does not tell and the problem had to decide. The text of the source stays outside the
repository; where it is at hand (`$AFTERSHOCK_POSTMORTEMS`) quotes are held against it.
"""

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aftershock.base.errors import ProblemError
from aftershock.problem.source import At, Source
from aftershock.problem.vocabulary import Mechanism

__all__ = ["Claim", "IncidentFile", "claims", "misquoted", "read_incident"]

FILE = "incident.yaml"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceFile(Strict):
    """A document that was read. `text`: the name of its kept text, outside the repository."""

    title: str = Field(min_length=1)
    url: str = Field(pattern=r"^https?://")
    published: date | None = None
    text: str = ""


class Claim(Strict):
    """One statement about the incident: cited, or assumed for a stated reason."""

    says: str = Field(min_length=10)
    source: str = ""
    lines: int | tuple[int, int] | None = None
    quote: str = Field(default="", max_length=240)
    assumed: str = ""

    @model_validator(mode="after")
    def _cited_or_assumed(self) -> Self:
        cited = [bool(self.source), self.lines is not None, bool(self.quote)]
        if self.assumed and any(cited):
            raise ValueError("a claim is cited or assumed, not both")
        if not self.assumed and not all(cited):
            raise ValueError("a claim needs `source`, `lines` and `quote`, or `assumed` with the reason")
        return self


class IncidentFile(Strict):
    """The keys of incident.yaml."""

    company: str = Field(min_length=1)
    happened: list[date] = Field(min_length=1)
    mechanism: Mechanism
    sources: dict[str, SourceFile] = Field(min_length=1)
    root_cause: Claim
    trigger: Claim
    latent_condition: Claim | None = None
    sustaining_loop: Claim | None = None
    manifestation: list[Claim] = Field(min_length=1)
    detection_gap: Claim | None = None
    wrong_fixes: list[Claim] = Field(default_factory=list)
    real_fix: list[Claim] = Field(min_length=1)
    preserved: list[Claim] = Field(default_factory=list)
    unknown: list[Claim] = Field(default_factory=list)


def claims(incident: IncidentFile) -> Iterator[tuple[At, Claim]]:
    """Every claim, with its path in the file."""
    for name in type(incident).model_fields:
        value = getattr(incident, name)
        if isinstance(value, Claim):
            yield (name,), value
        elif isinstance(value, list):
            yield from (((name, index), item) for index, item in enumerate(value) if isinstance(item, Claim))


def read_incident(path: Path) -> tuple[IncidentFile, Source]:
    """The incident, and its source for naming lines.

    Raises:
        ProblemError: it is malformed, or a claim cites a source that is not listed.
    """
    source = Source.read(path)
    if not isinstance(source.data, dict):
        raise source.error("the file is empty or not a mapping", (), "see docs/audit.md for its keys")
    incident = source.model(IncidentFile, source.data)
    for at, claim in claims(incident):
        if claim.source and claim.source not in incident.sources:
            known = ", ".join(sorted(incident.sources))
            raise source.error(f"no source is called `{claim.source}`", (*at, "source"), f"listed: {known}")
    return incident, source


def misquoted(incident: IncidentFile, source: Source, texts: Path | None = None) -> list[ProblemError]:
    """Quotes that are not on the lines that they name, of the sources whose texts are at hand.

    Args:
        texts: folder of kept texts; `$AFTERSHOCK_POSTMORTEMS` by default.
    """
    given = os.environ.get("AFTERSHOCK_POSTMORTEMS")
    folder = texts or (Path(given) if given else None)
    wrong = []
    for at, claim in claims(incident):
        document = incident.sources.get(claim.source)
        if folder is None or document is None or not document.text or not (folder / document.text).is_file():
            continue
        lines = (folder / document.text).read_text().splitlines()
        first, last = (claim.lines, claim.lines) if isinstance(claim.lines, int) else claim.lines or (1, len(lines))
        passage = _plain(" ".join(lines[first - 1 : last]))
        if _plain(claim.quote) not in passage:
            where = [n for n, line in enumerate(lines, 1) if _plain(claim.quote) in _plain(line)]
            todo = f"it is on line {where[0]}" if where else "quote word for word"
            wrong.append(source.error(f"the quote is not on lines {first} to {last}", (*at, "quote"), todo))
    return wrong


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
