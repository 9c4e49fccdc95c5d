"""What faults there are, as a table made from their code: one row a step, for people who write problems."""

import typing
from typing import Any

from pydantic_core import PydanticUndefined

from aftershock.fault.base import Primitive, primitives_registry

__all__ = ["Row", "page", "rows"]

COMMON = ("within", "namespace")


class Row(typing.NamedTuple):
    """One step: its name, what it does, its parameters, the capabilities it needs, and whether it can be undone."""

    name: str
    does: str
    parameters: tuple[str, ...]
    needs: tuple[str, ...]
    undone: bool
    module: str


def rows() -> list[Row]:
    """All steps by module and name."""
    found = []
    for name, cls in primitives_registry.classes().items():
        if not cls.__module__.startswith("aftershock.fault.primitives"):
            continue
        does = " ".join((cls.__doc__ or "").split())
        parameters = tuple(_parameter(key, field) for key, field in cls.model_fields.items() if key not in COMMON)
        undone = cls.undo is not Primitive.undo
        needs = tuple(sorted(cls.needs))
        found.append(Row(name, does, parameters, needs, undone, cls.__module__.rpartition(".")[2]))
    return sorted(found, key=lambda row: (row.module, row.name))


def _parameter(key: str, field: Any) -> str:
    """`name`, with its default where that says something; needed ones are bare."""
    name = str(field.alias or key)
    if field.is_required():
        return name
    default = field.default
    if default is PydanticUndefined or default in (None, "", [], {}) or not isinstance(default, str | int | float):
        return f"[{name}]"
    text = (
        str(default).lower() if isinstance(default, bool) else f"{default:g}" if isinstance(default, float) else default
    )
    return f"[{name}={text}]"


HEAD = """\
# Faults

Steps of `fault:`, `trigger:` and challenges: what can be done to a cluster. This page is made from the code
(`aftershock.fault.listing`); a test keeps it in step.

Every step has `within`, the seconds until its effect must show. What did not show ends the trial as the
problem's fault. Parameters in brackets need not be given. `pods` is a pod or workload (`Deployment/web`) or a
label selector. *Undo* says that a step can be taken back; inside of a box nobody has to, since everything ends
with it. What needs `node-run` or `world` works on a box only.

A latent fault, what sets it off, and what distracts:

```yaml
fault:
  - certificate: {secret: api-tls, authority: internal-ca, state: expired}   # nobody has read it yet
  - noise: {level: low, restart: [Deployment/docs], pods: [Deployment/search], spikes: [{path: /products}]}
trigger:
  - later:
      requests: 2000              # or `after: 60` seconds, or `wait: {...}`
      steps:
        - kill_process: {pods: Deployment/api, which: one}
```

Noise is held against everything that the fault and the trigger name, and what that is made of: restarting a
workload that mounts the Secret above is refused, as it would set the fault off. Everything left to chance is drawn
from the trial's seed, but for what the kernel draws itself (which packets are lost).

What cannot be done here:

- **Delay in the kernel** (netem is in few kernels): `delay_connections` puts a proxy in the path instead.
- **The clock of a process that runs.** A kernel's time namespace has no wall clock of its own, and libfaketime has
  to be loaded when a process starts. Build it into an image (`packages: [libfaketime]`) and release that one.
- **Faults in a pod's own network namespace or control group end with the pod**, and those of a control group or
  mount with the container. What takes its place is not hit, but where a step says so. For faults that outlast a
  restart, change what the new pod reads.
- **A reboot of the first node**, whose API server would go with it.
"""


def page() -> str:
    """docs/faults.md."""
    lines = [HEAD]
    module = ""
    for row in rows():
        if row.module != module:
            module = row.module
            lines += [
                f"\n## {module.capitalize()}\n",
                "| step | does | parameters | needs | undo |",
                "|---|---|---|---|---|",
            ]
        parameters = " ".join(f"`{one}`" for one in row.parameters)
        cells = (f"`{row.name}`", row.does, parameters, " ".join(row.needs), "yes" if row.undone else "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
