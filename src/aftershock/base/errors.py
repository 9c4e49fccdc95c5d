"""Errors that help: what happened, where, and what to do next.

Every error that a user may see derives from `AftershockError`. The command line prints its three
parts and exits with `exit_code`; anything else is a defect and shows its traceback.
"""


class AftershockError(Exception):
    """Base of all expected failures.

    Args:
        what: what happened, one sentence.
        where: the file and line, the node, the box or the command it happened in.
        todo: what the reader can do next.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.todo = todo

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"where: {self.where}")
        if self.todo:
            parts.append(f"next: {self.todo}")
        return "\n".join(parts)


class UsageError(AftershockError):
    """The command or its input is wrong: an unknown name, a malformed file."""

    exit_code = 2


class ProblemError(UsageError):
    """A problem or stack folder is malformed; `where` names file and line."""


class HostError(AftershockError):
    """This machine lacks something: a right, a kernel feature, a program, space, memory."""

    exit_code = 3


class BuildError(AftershockError):
    """A part (program, root file system, image) could not be built or is damaged."""


class ClusterError(AftershockError):
    """The cluster did not do what was asked of it."""


class MissingCapability(ClusterError):
    """What was asked for cannot be done on this kind of cluster or kernel."""


class CommandFailed(AftershockError):
    """A program ended with an error; carries its exit status and the end of what it printed."""

    def __init__(self, what: str, *, code: int, where: str = "", todo: str = "") -> None:
        super().__init__(what, where=where, todo=todo)
        self.code = code


class DeadlinePassed(AftershockError):
    """A condition did not come true in time; `what` says which, and what it looked like last."""
