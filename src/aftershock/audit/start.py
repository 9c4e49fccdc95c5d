"""Starting a problem folder from an incident: all that the incident tells is filled in, the rest is asked for.

What is left to be written is marked, and `lint` names each place, so that an unfinished problem cannot count.
"""

import re
import shutil
from pathlib import Path

import yaml

from aftershock.audit.lint import FILLER
from aftershock.base.errors import UsageError
from aftershock.base.paths import source_root
from aftershock.problem.incident import IncidentFile, read_incident
from aftershock.stack.load import Stack
from aftershock.stack.load import load as load_stack

__all__ = ["start"]

PROBLEM = """\
# {filler}: see docs/problem.md for every key.
title: "{filler}: a sentence for people"
summary: >
  {root_cause}
stack: {stack}
mechanism: {mechanism}

postmortem:
{postmortem}
# The latent condition: {latent}
fault: []

# What set it off: {trigger}
trigger:
  - wait: {{users: served}}  # {filler}: the steps that make it show

suffering: {{success_below: 0.5, window: 5, patience: 3, within: 90}}
page: {{file: page.md, after: 10}}

oracle:
  - id: users-served
    family: outcome
    why: Users are served again, for half a minute, under the same load.
    served: {{hold: 30, within: 60}}
  # {filler}: the broken invariant holds again (cause), by any means
  # {filler}: what had to be preserved, checked against the users' ledger (preservation):
{preserved}
  # {filler}: the trigger fires again (challenge)
"""

FIX = """\
#!/bin/sh
# expect: {expect}
{decides}# {says}
# {filler}: `# changes:` in the header, and the commands, each necessary step marked
set -eu
"""


def start(id_: str, incident_path: Path, stack_name: str) -> Path:
    """Make the folder and return it.

    Raises:
        UsageError: the id is malformed or taken.
        ProblemError: the incident is malformed; names file and line.
    """
    if not re.fullmatch(r"[a-z]+(-[a-z]+)+", id_):
        raise UsageError(f"`{id_}` is not an id", todo="two neutral words in lower case, such as grey-otter")
    incident, source = read_incident(incident_path)
    stack = load_stack(stack_name)
    folder = source_root() / "problems" / id_
    if folder.exists():
        raise UsageError(f"there is a folder {id_} already", where=str(folder), todo="choose another id")
    (folder / "fixes").mkdir(parents=True)
    shutil.copyfile(source.path, folder / "incident.yaml")
    (folder / "problem.yaml").write_text(_problem(incident, stack))
    (folder / "page.md").write_text(f"**P1 · {stack.namespace} · {FILLER}: what the alert says**\n")
    (folder / "README.md").write_text(_readme(id_, incident))
    for number, claim in enumerate(incident.real_fix, 1):
        _fix(folder, f"right-{number}", "right", claim.says)
    for number, claim in enumerate(incident.wrong_fixes, 1):
        _fix(folder, f"wrong-{number}", "wrong", claim.says)
    return folder


def _problem(incident: IncidentFile, stack: Stack) -> str:
    document = next(iter(incident.sources.values()))
    postmortem = yaml.safe_dump({"company": incident.company, "title": document.title, "url": document.url})
    latent = incident.latent_condition.says if incident.latent_condition else "none told"
    return PROBLEM.format(
        filler=FILLER,
        root_cause=incident.root_cause.says,
        stack=stack.name,
        mechanism=incident.mechanism,
        postmortem="".join(f"  {line}\n" for line in postmortem.splitlines()),
        latent=latent,
        trigger=incident.trigger.says,
        preserved="\n".join(f"  #   {claim.says}" for claim in incident.preserved) or "  #   none told",
    )


def _readme(id_: str, incident: IncidentFile) -> str:
    told = [incident.root_cause, incident.trigger, *incident.manifestation]
    there = "\n".join(f"- {claim.says}" for claim in told)
    parts = [f"# {id_}", f"## What happened there\n\n{incident.company}\n\n{there}"]
    parts += [f"## {title}\n\n{FILLER}" for title in ("What happens here", "What was scaled", "Fixes")]
    return "\n\n".join(parts) + "\n"


def _fix(folder: Path, name: str, expect: str, says: str) -> None:
    decides = "" if expect == "right" else "# decides: users-served\n"
    text = FIX.format(expect=expect, decides=decides, says=says, filler=FILLER)
    (folder / "fixes" / f"{name}.sh").write_text(text)
