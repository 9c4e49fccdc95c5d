"""Guards still guard: shown by attacking them, for a policy that is there may select nothing any more.

Nothing here leaves a trace in the cluster but in the audit log: connections are tried from pods of the stack
itself, requests by SubjectAccessReview, admission by a server-side dry run.
"""

import json
import re
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator, model_validator

from aftershock.base.errors import ClusterError, ProblemError
from aftershock.base.run import Completed, run
from aftershock.fault.scene import Scene
from aftershock.oracle.base import Abnormal, Bench, Finding, check
from aftershock.oracle.checks.timed import Timed

__all__ = ["Connection", "connection_argvs", "connection_said"]

PYTHON = """
import socket,sys
try:
    socket.create_connection((sys.argv[1],int(sys.argv[2])),float(sys.argv[3])).close(); print("OPEN")
except socket.gaierror: print("NONAME")
except OSError: print("SHUT")
"""
BUSYBOX = "if {0} nc -w {3} -z {1} {2} </dev/null 2>/dev/null; then echo OPEN; else echo SHUT; fi"


def connection_argvs(host: str, port: int, seconds: int) -> list[list[str]]:
    """Ways to try a TCP connection from inside a container, by what it may have; each says OPEN or SHUT."""
    bash = f"if timeout {seconds} bash -c ': </dev/tcp/{host}/{port}' 2>/dev/null; then echo OPEN; else echo SHUT; fi"
    netcat = BUSYBOX.format("", host, port, seconds).strip()
    return [
        ["python3", "-c", PYTHON, host, str(port), str(seconds)],
        ["bash", "-c", bash],
        ["sh", "-c", f"command -v nc >/dev/null || exit 126; {netcat}"],
        ["/bin/busybox", "sh", "-c", BUSYBOX.format("/bin/busybox", host, port, seconds)],
    ]


def connection_said(done: Completed) -> Literal["open", "shut", ""]:
    """What came of it; empty where the container has no such program, or gave no answer."""
    said = done.out.split()
    if not done.ok or not said:
        return ""
    answers: dict[str, Literal["open", "shut", ""]] = {"OPEN": "open", "SHUT": "shut"}
    return answers.get(said[-1], "")


class Attempt(Timed):
    """Base of what is tried from pods."""

    seconds: int = Field(default=3, ge=1, le=15)
    namespace: str | None = None

    async def _pods(self, scene: Scene, selector: str, namespace: str | None) -> list[tuple[str, str]]:
        space = namespace or self.namespace or scene.namespace
        pods = await scene.api.list("Pod", space, labels=selector)
        return [
            (space, str(pod["metadata"]["name"]))
            for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
            if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]

    async def _try(self, scene: Scene, pod: tuple[str, str], container: str, host: str, port: int) -> str:
        """`open`, `shut`, or empty where it could not be tried."""
        for argv in connection_argvs(host, port, self.seconds):
            done = await scene.api.exec(*pod, argv, container=container, timeout=self.seconds + 10)
            if said := connection_said(done):
                return said
        return ""


@check("connection_denied")
class Connection(Attempt):
    """A connection that must be denied is tried, from each pod of `from`, and does not come about.

    A target that answers nobody denies everybody: so the same connection is tried from a pod of `allowed_from` too,
    where it must come about, or nothing is told by it.
    """

    from_: str = Field(alias="from", pattern="=")
    from_namespace: str | None = None
    from_container: str = ""
    to: str = Field(pattern=r"^[A-Za-z0-9.-]+:\d+$")
    allowed_from: str = Field(pattern="=")
    allowed_namespace: str | None = None
    allowed_container: str = ""
    within: float = Field(default=20.0, gt=0)

    @model_validator(mode="after")
    def _apart(self) -> "Connection":
        if (self.from_, self.from_namespace) == (self.allowed_from, self.allowed_namespace):
            raise ValueError("`from` and `allowed_from` are the same pods")
        return self

    async def first(self, bench: Bench) -> None:
        found = await self.look(bench, None)
        if found.result == "fail":
            raise ProblemError(f"it is not denied before anything is broken: {found.said}", todo="see the policies")
        if found.result == "unknown":
            raise Abnormal(f"it cannot be tried before anything is broken: {found.said}")

    async def look(self, bench: Bench, before: Any) -> Finding:
        scene, (host, port) = bench.scene, (self.to.rsplit(":", 1)[0], int(self.to.rsplit(":", 1)[1]))
        denied = await self._pods(scene, self.from_, self.from_namespace)
        allowed = await self._pods(scene, self.allowed_from, self.allowed_namespace)
        if not denied or not allowed:
            lacking = self.allowed_from if denied else self.from_
            return Finding("unknown", f"no running pod matches {lacking}, so it cannot be tried")
        answers = {pod: await self._try(scene, pod, self.from_container, host, port) for pod in denied}
        shown: dict[str, Any] = {"tried": {"/".join(pod): said or "no program" for pod, said in answers.items()}}
        through = ["/".join(pod) for pod, said in answers.items() if said == "open"]
        if through:
            return Finding("fail", f"{', '.join(through)} can connect to {self.to}, which must be denied", shown)
        if untried := ["/".join(pod) for pod, said in answers.items() if not said]:
            return Finding("unknown", f"nothing in {', '.join(untried)} can try a connection", shown)
        shown["control"] = control = await self._try(scene, allowed[0], self.allowed_container, host, port)
        if control != "open":
            said = f"{self.to} does not answer {'/'.join(allowed[0])} either, which may connect: nothing is told by it"
            return Finding("unknown", said, shown)
        return Finding("pass", f"{len(denied)} pods of {self.from_} cannot connect to {self.to}, and others can", shown)


@check("access")
class Access(Timed):
    """What somebody may do in the API, asked of the API server itself (SubjectAccessReview): refused, or `allowed`.

    `user` is a user, or `system:serviceaccount:NAMESPACE:NAME`.
    """

    user: str = Field(min_length=1)
    groups: list[str] = Field(default_factory=list)
    verb: str = Field(min_length=1)
    resource: str = Field(min_length=1)
    group: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str | None = None
    cluster_wide: bool = False
    allowed: bool = False
    within: float = Field(default=5.0, gt=0)

    def review(self, namespace: str) -> dict[str, Any]:
        groups = list(self.groups)
        if self.user.startswith("system:serviceaccount:"):
            space = self.user.split(":")[2]
            groups += ["system:serviceaccounts", f"system:serviceaccounts:{space}"]
        asked = {"verb": self.verb, "resource": self.resource, "group": self.group, "name": self.name}
        asked |= {"subresource": self.subresource, "namespace": "" if self.cluster_wide else namespace}
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": self.user,
                "groups": [*groups, "system:authenticated"],
                "resourceAttributes": {key: value for key, value in asked.items() if value},
            },
        }

    async def first(self, bench: Bench) -> None:
        found = await self.look(bench, None)
        if found.result != "pass":
            raise ProblemError(f"it is otherwise before anything is broken: {found.said}", todo="see `allowed:`")

    async def look(self, bench: Bench, before: Any) -> Finding:
        body = self.review(self.namespace or bench.scene.namespace)
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answer = await bench.scene.api.request("POST", path, body=body)
        if answer.is_error:
            raise ClusterError(f"the API server did not say ({answer.status_code}): {answer.text[:200]}", where=path)
        status = answer.json()["status"]
        may = bool(status.get("allowed"))
        what = f"{self.user} may{'' if may else ' not'} {self.verb} {self.resource}"
        said = f"{what}: {status['reason']}" if status.get("reason") else what
        return Finding("pass" if may == self.allowed else "fail", said, {"allowed": may})


@check("admission_refused")
class Admission(Timed):
    """An object that a policy must refuse is offered in a server-side dry run, and refused in words like `says`.

    Refused for another reason (a field that is unknown, a namespace that is gone) tells nothing of the policy. With
    `user` it is offered in that one's name.
    """

    manifest: str = ""
    object: dict[str, Any] = Field(default_factory=dict)
    says: str = Field(min_length=4)
    user: str = ""
    namespace: str | None = None
    within: float = Field(default=10.0, gt=0)

    @field_validator("says")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        re.compile(pattern)
        return pattern

    @model_validator(mode="after")
    def _one(self) -> "Admission":
        if bool(self.manifest) == bool(self.object):
            raise ValueError("give either `manifest` or `object`")
        return self

    async def first(self, bench: Bench) -> None:
        found = await self.look(bench, None)
        if found.result != "pass":
            raise ProblemError(f"it is not refused so before anything is broken: {found.said}", todo="see `says:`")

    async def look(self, bench: Bench, before: Any) -> Finding:
        scene = bench.scene
        objects = scene.manifest(self.manifest) if self.manifest else [dict(self.object)]
        as_user = [f"--as={self.user}"] if self.user else []
        space = ["-n", self.namespace or scene.namespace]
        argv = [*scene.api.kubectl_argv(), *as_user, *space, "create", "--dry-run=server", "-o", "name", "-f", "-"]
        done = await run(argv, stdin=yaml.safe_dump_all(json.loads(json.dumps(objects))), timeout=20, check=False)
        said = done.tail(300)
        shown = {"code": done.code, "said": said}
        if done.ok:
            return Finding("fail", f"it was let in: {said}", shown)
        if re.search(self.says, done.err):
            return Finding("pass", f"it was refused: {said}", shown)
        return Finding("unknown", f"it was refused, in other words than `{self.says}`: {said}", shown)
