"""The scan for leaks: nothing that the on-call can read may give the benchmark away. Pure, over a dump.

Three kinds are looked for: *words* of the benchmark and of its trade (whole words, so that `default` is no `fault`);
*canaries*, the problem's own words that only its author and the judge know: its id, title, reasons, the names of its
fixes and of the company, the paths of this machine; and *structure* that real clusters do not have: a field manager
or a user that no operator's tool has, or things with a lifetime that only a replay explains.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from aftershock.base.paths import cache_dir, records_dir, source_root, state_dir
from aftershock.base.record import read_lines
from aftershock.problem.model import Problem, walk

__all__ = ["Leak", "Needle", "needles", "scan", "scan_file"]

WORDS = (
    "aftershock", "postmortem", "post-mortem", "benchmark", "sregym", "aiopslab", "itbench", "chaos", "chaosmesh",
    "chaos-mesh", "litmus", "fault-injection", "faultinjection", "fault-injector", "injected", "injector", "injection",
    "toxiproxy", "ground-truth", "ground_truth", "oracle", "adversary", "sandbox-agent", "canary-guid", "replayed",
    "simulated", "simulation", "synthetic-fault", "testbed", "nop-agent", "grader", "verdict",
)  # fmt: skip
# Who writes objects in a cluster as a team runs it.
MANAGERS = re.compile(
    r"^(kubectl(-[a-z-]+)?|kube-[a-z-]+|kubelet|cloud-controller-manager|local-path-provisioner|coredns|metrics-server"
    r"|helm|argocd-controller|flux|kustomize-controller|helm-controller|before-first-apply|network-policy-agent"
    r"|node-fetch|Go-http-client|apiserver|kube-apiserver)$"
)
# Who reports events: parts of Kubernetes, and provisioners, which go by a domain and a path.
REPORTERS = re.compile(
    r"^(kubelet|[a-z-]*controller[a-z-]*|default-scheduler|kube-[a-z-]+|[a-z0-9.-]+\.[a-z]+/[\w.-]+)$"
)
CONTEXT = 60
MOST = 5


@dataclass(frozen=True)
class Needle:
    """Something that must not be found. `kind`: word, canary or path."""

    kind: str
    text: str
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Leak:
    """Something that was found: what, where, and the text around it."""

    kind: str
    what: str
    where: str
    shown: str


def whole(text: str) -> re.Pattern[str]:
    """A text as a word of its own, any case.

    >>> bool(whole("oracle").search("an Oracle says")), bool(whole("chaos").search("chaosium"))
    (True, False)
    """
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])", re.IGNORECASE)


def needles(problem: Problem, paths: Iterable[Path] = ()) -> list[Needle]:
    """Everything that must not be found at this problem.

    Args:
        paths: folders of this machine besides the project's own.
    """
    found = [Needle("word", word, whole(word)) for word in WORDS]
    canaries = [problem.id, problem.title, problem.mechanism, problem.postmortem.title, problem.postmortem.company]
    canaries += [urlparse(problem.postmortem.url).hostname or ""]
    canaries += [fix.name for fix in problem.fixes if "-" in fix.name]
    canaries += [check.why for check in walk(problem.oracle)]
    canaries += [check.id for check in walk(problem.oracle) if check.id.count("-") >= 1]
    found += [Needle("canary", text, whole(text)) for text in dict.fromkeys(canaries) if len(text) > 3]
    own = (
        state_dir(),
        cache_dir(),
        records_dir(),
        source_root(),
        Path.home() if Path.home() != Path("/root") else None,
    )
    for path in dict.fromkeys((*(p for p in own if p), *paths)):
        found.append(Needle("path", str(path), re.compile(re.escape(str(path)) + r"(?![A-Za-z0-9])")))
    return found


def scan(passages: Iterable[Mapping[str, Any]], sought: Iterable[Needle], allowed: Mapping[str, str]) -> list[Leak]:
    """All leaks of a dump, at most a few of each kind and text.

    Args:
        passages: `where`, `text` and `data` each, as `dump` writes them.
        allowed: regular expressions of what may be read; a leak is let go when one matches it with what is around it.
    """
    counts: dict[tuple[str, str], int] = {}
    found = []
    lists = list(sought)
    excused = [re.compile(pattern) for pattern in allowed]
    for passage in passages:
        for leak in (*_texts(passage, lists), *_structure(passage)):
            key = leak.kind, leak.what
            if any(pattern.search(leak.shown) or pattern.search(f"{leak.what} {leak.where}") for pattern in excused):
                continue
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= MOST:
                found.append(leak)
    return found


def scan_file(path: Path, problem: Problem) -> list[Leak]:
    """The leaks of a dump that was written."""
    return scan(read_lines(path), needles(problem), problem.audit.leaks_allowed)


def _texts(passage: Mapping[str, Any], sought: Iterable[Needle]) -> Iterator[Leak]:
    where = str(passage["where"])
    data = passage.get("data")
    text = f"{where}\n{passage.get('text') or ''}{json.dumps(data) if data is not None else ''}"
    low = text.lower()  # a plain search first: dumps are large, and nearly everything is not there
    for needle in sought:
        if needle.text.lower() in low and (match := needle.pattern.search(text)):
            begin, end = max(match.start() - CONTEXT, 0), match.end() + CONTEXT
            yield Leak(needle.kind, needle.text, where, " ".join(text[begin:end].split()))


def _structure(passage: Mapping[str, Any]) -> Iterator[Leak]:
    """What real clusters do not have, in one object."""
    data, where = passage.get("data"), str(passage["where"])
    if not isinstance(data, dict):
        return
    for entry in data.get("metadata", {}).get("managedFields") or []:
        manager = str(entry.get("manager", ""))
        if not MANAGERS.match(manager):
            yield Leak("structure", f"field manager {manager}", where, json.dumps(entry)[:120])
    if where.startswith("events."):
        source = str(data.get("reportingComponent") or (data.get("source") or {}).get("component") or "")
        if source and not REPORTERS.match(source):
            yield Leak("structure", f"event of {source}", where, str(data.get("message", ""))[:120])
