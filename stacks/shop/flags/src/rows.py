"""The flags in the database."""

import json
from typing import Any

import asyncpg

__all__ = ["current", "every", "store"]


async def every(connection: asyncpg.Connection) -> dict[str, Any]:
    rows = await connection.fetch("select name, value from flags.flags order by name")
    return {row["name"]: json.loads(row["value"]) for row in rows}


async def current(connection: asyncpg.Connection, name: str) -> Any:
    """The value of a flag, None where there is no such flag."""
    found = await connection.fetchval("select value from flags.flags where name = $1 for update", name)
    return None if found is None else json.loads(found)


async def store(connection: asyncpg.Connection, name: str, value: Any, who: str) -> None:
    await connection.execute(
        "insert into flags.flags (name, value, updated_by) values ($1, $2::jsonb, $3)"
        " on conflict (name) do update"
        " set value = excluded.value, updated_at = now(), updated_by = excluded.updated_by",
        name,
        json.dumps(value),
        who,
    )
