"""What a right diagnosis of a problem says, and how an agent's answer is written.

A diagnosis has parts, and each part accepts alternatives: incidents have more than one true account.
`diagnoses` lists accounts; an answer is held against each and the best fit counts. `examples` are
answers with the grade that they must get: the grading is audited with them like any other oracle.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from aftershock.problem.vocabulary import Mechanism

__all__ = ["Answer", "AnswerFile", "Answers", "AnswersFile", "Diagnosis", "Example", "answer_of", "answers_of"]

Mark = Literal["fault", "trigger", "suffering"]


@dataclass(frozen=True)
class Diagnosis:
    """One true account.

    Args:
        components: names of what is to blame; each should be named.
        beside: names that may be given too: victims and neighbours that an answer may well speak of.
        mechanisms: accepted words of the vocabulary, with the credit for each, 0 to 1.
        trigger: regular expressions; the answer's trigger must match one of them. None asked when empty.
        since: the mark of the trial from which it went wrong.
        within: seconds by which an answer may be off.
        evidence: regular expressions, each a thing that proves it; credit by the share that is there.
    """

    components: tuple[str, ...]
    beside: tuple[str, ...]
    mechanisms: Mapping[str, float]
    trigger: tuple[str, ...] = ()
    since: Mark = "trigger"
    within: float = 60.0
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What an agent says. `since`: seconds since the epoch; `confidence`: 0 to 1, None where it says none."""

    components: tuple[str, ...] = ()
    mechanism: str = ""
    trigger: str = ""
    since: float | None = None
    evidence: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True)
class Example:
    """An answer whose grade is known. Its `since` counts from the account's mark, in seconds."""

    name: str
    answer: Answer
    expect: Literal["right", "partial", "wrong"]


@dataclass(frozen=True)
class Answers:
    diagnoses: tuple[Diagnosis, ...]
    examples: tuple[Example, ...] = field(default=())


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DiagnosisFile(Strict):
    """One true account of what went wrong."""

    components: list[str] = Field(min_length=1)
    beside: list[str] = Field(default_factory=list)
    mechanisms: dict[Mechanism, float] = Field(min_length=1)
    trigger: list[str] = Field(default_factory=list)
    since: Mark = "trigger"
    within: float = Field(default=60.0, gt=0)
    evidence: list[str] = Field(default_factory=list)

    @field_validator("trigger", "evidence")
    @classmethod
    def _compile(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"`{pattern}` is not a regular expression: {error}") from error
        return patterns

    @field_validator("mechanisms")
    @classmethod
    def _credits(cls, mechanisms: dict[Mechanism, float]) -> dict[Mechanism, float]:
        if not all(0 < credit <= 1 for credit in mechanisms.values()):
            raise ValueError("the credit of a mechanism is more than 0 and at most 1")
        if max(mechanisms.values()) < 1:
            raise ValueError("one mechanism must give the whole credit, 1")
        return mechanisms


class AnswerFile(Strict):
    """An agent's structured answer, as it writes it. `since` is an ISO 8601 time, or seconds since the epoch."""

    components: list[str] = Field(default_factory=list)
    mechanism: str = ""
    trigger: str = ""
    since: float | datetime | None = None
    evidence: list[str] = Field(default_factory=list)
    confidence: float | None = Field(default=None, ge=0, le=1)


class ExampleFile(Strict):
    name: str = Field(min_length=1)
    expect: Literal["right", "partial", "wrong"]
    answer: AnswerFile


class AnswersFile(Strict):
    """`answers:` of problem.yaml."""

    diagnoses: list[DiagnosisFile] = Field(min_length=1)
    examples: list[ExampleFile] = Field(default_factory=list)


def answer_of(file: AnswerFile) -> Answer:
    """The plain data of an answer that was read."""
    since = file.since.timestamp() if isinstance(file.since, datetime) else file.since
    return Answer(
        components=tuple(file.components),
        mechanism=file.mechanism,
        trigger=file.trigger,
        since=since,
        evidence=tuple(file.evidence),
        confidence=file.confidence,
    )


def answers_of(file: AnswersFile) -> Answers:
    """The plain data of `answers:`."""
    return Answers(
        diagnoses=tuple(
            Diagnosis(
                components=tuple(entry.components),
                beside=tuple(entry.beside),
                mechanisms={str(name): credit for name, credit in entry.mechanisms.items()},
                trigger=tuple(entry.trigger),
                since=entry.since,
                within=entry.within,
                evidence=tuple(entry.evidence),
            )
            for entry in file.diagnoses
        ),
        examples=tuple(Example(entry.name, answer_of(entry.answer), entry.expect) for entry in file.examples),
    )
