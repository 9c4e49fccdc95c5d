"""Back office as of release 1.11.0."""

from typing import Any

import asyncpg

import queries

VERSION = "1.11.0"
MOST_ORDERS = 500


async def stats_of(connection: asyncpg.Connection) -> dict[str, Any]:
    return {
        "today": await queries.today(connection),
        "open": await queries.open_orders(connection),
    }
