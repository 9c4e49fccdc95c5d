"""What an agent is: something that acts on a page, within a time, with the on-call's rights."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

__all__ = ["Agent", "AgentContext", "AgentResult"]


@dataclass(frozen=True)
class AgentContext:
    """What an agent is given.

    Args:
        page: the text of the page.
        kubeconfig: its credentials: the user `oncall`.
        kubectl: the folder that holds the kubectl to use.
        home: a folder of its own, with nothing but the kubeconfig.
        out: where its output is kept; not for its eyes.
        seconds: until it is stopped.
    """

    page: str
    kubeconfig: Path
    kubectl: Path
    home: Path
    out: Path
    seconds: float


@dataclass(frozen=True)
class AgentResult:
    """What became of it. `ended`: by itself, by its own error, or at the deadline.

    `said` is what it says it did, `details` whatever proves that it acted.
    """

    ended: Literal["done", "crashed", "deadline"]
    seconds: float
    said: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class Agent(Protocol):
    @property
    def name(self) -> str: ...

    async def act(self, context: AgentContext) -> AgentResult:
        """Answer the page. Must end by `context.seconds`; is cancelled shortly after."""
        ...
