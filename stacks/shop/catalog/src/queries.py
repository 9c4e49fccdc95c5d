"""What the catalogue asks its database. All of it may come from a replica that is a little behind."""

from typing import Any

import asyncpg

ITEM = "id, name, price, category, seller"


async def one(connection: asyncpg.Connection, product: int) -> dict[str, Any] | None:
    row = await connection.fetchrow(f"select {ITEM}, description from catalog.products where id = $1", product)
    return dict(row) if row else None


async def several(connection: asyncpg.Connection, products: list[int]) -> list[dict[str, Any]]:
    rows = await connection.fetch(f"select {ITEM} from catalog.products where id = any($1::int[])", products)
    found = {row["id"]: dict(row) for row in rows}
    return [found[product] for product in products if product in found]


async def page(connection: asyncpg.Connection, category: str, number: int, size: int) -> list[dict[str, Any]]:
    rows = await connection.fetch(
        f"select {ITEM} from catalog.products where $1 = '' or category = $1 order by id limit $2 offset $3",
        category,
        size,
        (number - 1) * size,
    )
    return [dict(row) for row in rows]


async def count(connection: asyncpg.Connection, category: str) -> int:
    found: int = await connection.fetchval(
        "select count(*) from catalog.products where $1 = '' or category = $1", category
    )
    return found


async def categories(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    return [dict(row) for row in await connection.fetch("select slug, title from catalog.categories order by title")]


async def export(connection: asyncpg.Connection, after: int, limit: int) -> list[dict[str, Any]]:
    rows = await connection.fetch(
        f"select {ITEM}, description from catalog.products where id > $1 order by id limit $2", after, limit
    )
    return [dict(row) for row in rows]
