"""JSON Schemas of what authors and agents write, made from the very models that read it.

Steps and checks are plug-ins, so their part is made from the registries: what an editor offers is what there is.
`docs/schema/` holds a copy, kept in step by a test.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from aftershock.base.paths import source_root
from aftershock.fault.base import primitives_registry
from aftershock.oracle.base import checks_registry
from aftershock.problem.answers import AnswerFile
from aftershock.problem.incident import IncidentFile
from aftershock.problem.schema import CheckHead, ProblemFile

__all__ = ["SCHEMAS", "write_schemas"]

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def problem_schema() -> dict[str, Any]:
    """Of problem.yaml, with every step and kind of check that there is."""
    schema = ProblemFile.model_json_schema(by_alias=True)
    defs = schema.setdefault("$defs", {})
    steps, checks = primitives_registry.classes(), checks_registry.classes()
    defs["step"] = {"oneOf": [_step(name, cls, defs) for name, cls in steps.items()]}
    groups = [_group(op) for op in ("all", "any", "sequence")]
    defs["node"] = {"oneOf": [*groups, *(_check(name, cls, defs) for name, cls in checks.items())]}
    for name, of in (("fault", "step"), ("trigger", "step"), ("oracle", "node")):
        schema["properties"][name]["items"] = {"$ref": f"#/$defs/{of}"}
    noise = _params(steps["noise"], defs)
    schema["properties"]["noise"] = {"anyOf": [noise, {"type": "null"}], "default": None}
    return _headed(schema, "problem.yaml")


def _params(cls: type[BaseModel], defs: dict[str, Any]) -> dict[str, Any]:
    """A model's schema with what it defines moved to the whole's definitions."""
    schema = cls.model_json_schema(by_alias=True)
    defs.update(schema.pop("$defs", {}))
    return schema


def _step(name: str, cls: type[BaseModel], defs: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _params(cls, defs)},
        "required": [name],
        "additionalProperties": False,
    }


def _check(name: str, cls: type[BaseModel], defs: dict[str, Any]) -> dict[str, Any]:
    head = _params(CheckHead, defs)
    properties = {**head["properties"], name: _params(cls, defs)}
    return {
        "type": "object",
        "properties": properties,
        "required": [*head["required"], name],
        "additionalProperties": False,
    }


def _group(op: str) -> dict[str, Any]:
    below = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}}
    return {"type": "object", "properties": {op: below}, "required": [op], "additionalProperties": False}


def _headed(schema: dict[str, Any], title: str) -> dict[str, Any]:
    return {"$schema": DRAFT, **schema, "title": title}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "problem": problem_schema,
    "incident": lambda: _headed(IncidentFile.model_json_schema(), "incident.yaml"),
    "answer": lambda: _headed(AnswerFile.model_json_schema(), "an agent's diagnosis"),
}


def write_schemas(folder: Path | None = None) -> list[Path]:
    """Write all of them, to docs/schema/ by default."""
    target = folder or source_root() / "docs" / "schema"
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, make in SCHEMAS.items():
        path = target / f"{name}.schema.json"
        path.write_text(json.dumps(make(), indent=1) + "\n")
        written.append(path)
    return written
