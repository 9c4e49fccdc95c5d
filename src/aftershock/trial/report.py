"""The final document of a trial, kept up to date while it runs: a killed trial says how far it came."""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from aftershock.agent.base import AgentResult
from aftershock.base.record import Record
from aftershock.oracle.base import CheckResult
from aftershock.oracle.verdict import Verdict
from aftershock.trial.harm import Harm
from aftershock.trial.plan import Plan

__all__ = ["Report", "State"]

State = Literal["running", "finished", "interrupted"]


@dataclass
class Report:
    """What is known of a trial so far.

    `decided_by`: ids of the checks that decided, the weightiest first; none for a success.
    `marks`: moments on the users' clock; `seconds`: of each stage.
    """

    plan: Plan
    folder: Path
    seed: int = 1
    noise: str = ""
    state: State = "running"
    stage: str = ""
    verdict: Verdict | None = None
    why: str = ""
    todo: str = ""
    decided_by: list[str] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, Any] = field(default_factory=dict)
    agent: AgentResult | None = None
    harm: Harm | None = None
    begun: float = field(default_factory=time.time)

    def document(self) -> dict[str, Any]:
        """The final JSON. Times in seconds; `record` is the trial's folder."""
        problem = self.plan.problem
        seconds = {"total": 0.0, "restore": 0.0, "agent": 0.0, "judge": 0.0, **self.seconds}
        return {
            "problem": problem.id,
            "title": problem.title,
            "problem_digest": problem.digest,
            "stack": self.plan.stack.name,
            "stack_digest": self.plan.stack.digest,
            "agent": self.plan.agent.name,
            "seed": self.seed,
            "noise": self.noise,
            "state": self.state,
            "stage": self.stage,
            "verdict": self.verdict,
            "why": self.why,
            "todo": self.todo,
            "decided_by": self.decided_by,
            "checks": [asdict(result) for result in self.checks],
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
            "marks": {name: round(value, 3) for name, value in self.marks.items()},
            "harm": asdict(self.harm) if self.harm else None,
            "agent_result": asdict(self.agent) if self.agent else None,
            "baseline": self.baseline,
            "begun": round(self.begun, 3),
            "record": str(self.folder),
        }

    def write(self, record: Record) -> dict[str, Any]:
        document = self.document()
        record.document("trial", document)
        return document

    def conclude(self, verdict: Verdict, why: str, todo: str = "") -> None:
        self.verdict, self.why, self.todo = verdict, why, todo
