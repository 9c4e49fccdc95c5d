"""What is asked of each kind of store, and the metrics that come of it.

A probe yields (metric, labels, value). It keeps a connection while it is good. A store that no name leads
to is not part of this installation; one that has a name and does not answer is down.
"""

import asyncio
import json
from collections.abc import AsyncIterator

from wire import Connection, Failed

__all__ = ["PROBES", "Sample", "Store"]

Sample = tuple[str, dict[str, str], float]

POSTGRES = {
    "pg_connections": """
        select datname as database, usename as login, coalesce(state, 'starting') as state, count(*) as value
        from pg_stat_activity where backend_type = 'client backend' group by 1, 2, 3""",
    "pg_max_connections": "select setting as value from pg_settings where name = 'max_connections'",
    "pg_locks_waiting": "select count(*) as value from pg_locks where not granted",
    "pg_longest_transaction_seconds": """
        select coalesce(extract(epoch from max(now() - xact_start)), 0) as value from pg_stat_activity
        where backend_type = 'client backend'""",
    "pg_longest_idle_in_transaction_seconds": """
        select coalesce(extract(epoch from max(now() - state_change)), 0) as value from pg_stat_activity
        where state like 'idle in transaction%'""",
    "pg_database_size_bytes": """
        select datname as database, pg_database_size(oid) as value from pg_database where datname = 'market'""",
    "pg_transactions_total": """
        select 'commit' as result, xact_commit as value from pg_stat_database where datname = 'market'
        union all select 'rollback', xact_rollback from pg_stat_database where datname = 'market'""",
    "pg_deadlocks_total": "select deadlocks as value from pg_stat_database where datname = 'market'",
    "pg_blocks_total": """
        select 'hit' as source, blks_hit as value from pg_stat_database where datname = 'market'
        union all select 'read', blks_read from pg_stat_database where datname = 'market'""",
    "pg_dead_tuples": """
        select schemaname as schema, relname as table, n_dead_tup as value from pg_stat_user_tables
        where n_dead_tup > 1000""",
    "pg_transaction_id_age": "select max(age(datfrozenxid)) as value from pg_database",
    "pg_in_recovery": "select pg_is_in_recovery()::int as value",
    "pg_replication_lag_seconds": """
        select case when not pg_is_in_recovery() or pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0
        else extract(epoch from now() - pg_last_xact_replay_timestamp()) end as value""",
    "pg_replication_lag_bytes": """
        select application_name as replica, coalesce(pg_wal_lsn_diff(
            case when pg_is_in_recovery() then null else pg_current_wal_lsn() end, replay_lsn), 0) as value
        from pg_stat_replication""",
    "pg_slot_retained_bytes": """
        select slot_name as slot, active::text as active, coalesce(pg_wal_lsn_diff(
            case when pg_is_in_recovery() then null else pg_current_wal_lsn() end, restart_lsn), 0) as value
        from pg_replication_slots""",
}  # fmt: skip
POOLS = {
    "cl_active": ("pgbouncer_clients", "active"),
    "cl_waiting": ("pgbouncer_clients", "waiting"),
    "sv_active": ("pgbouncer_servers", "active"),
    "sv_idle": ("pgbouncer_servers", "idle"),
    "sv_used": ("pgbouncer_servers", "used"),
    "sv_login": ("pgbouncer_servers", "login"),
}
REDIS = {
    "used_memory": "redis_memory_used_bytes",
    "maxmemory": "redis_memory_max_bytes",
    "connected_clients": "redis_connected_clients",
    "blocked_clients": "redis_blocked_clients",
    "evicted_keys": "redis_evicted_keys_total",
    "expired_keys": "redis_expired_keys_total",
    "keyspace_hits": "redis_keyspace_hits_total",
    "keyspace_misses": "redis_keyspace_misses_total",
    "total_commands_processed": "redis_commands_total",
    "rejected_connections": "redis_rejected_connections_total",
    "connected_slaves": "redis_connected_replicas",
    "aof_last_write_status": "redis_aof_last_write_ok",
    "uptime_in_seconds": "redis_uptime_seconds",
}
MEMCACHED = {
    "bytes": "memcached_bytes",
    "limit_maxbytes": "memcached_limit_bytes",
    "curr_items": "memcached_items",
    "curr_connections": "memcached_connections",
    "evictions": "memcached_evictions_total",
    "get_hits": "memcached_get_hits_total",
    "get_misses": "memcached_get_misses_total",
    "uptime": "memcached_uptime_seconds",
}


class Store:
    """One store to ask. `login` is user and password, where it wants one."""

    def __init__(self, kind: str, host: str, port: int, name: str, login: tuple[str, str] = ("", "")) -> None:
        self.kind = kind
        self.host = host
        self.port = port
        self.name = name
        self.login = login
        self._connection: Connection | None = None

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    async def samples(self) -> list[Sample]:
        """Everything that the store says now. Raises Failed, OSError, ValueError, TimeoutError."""
        try:
            return [sample async for sample in PROBES[self.kind](self)]
        except BaseException:
            self.close()
            raise

    async def connection(self, database: str) -> Connection:
        if self._connection is None:
            self._connection = await Connection.connect(
                self.host, self.port, *self.login, database, "datastore-exporter"
            )
        return self._connection

    async def say(self, question: bytes, end: bytes) -> str:
        """Ask by a line of text on a connection of its own; the answer up to its end."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(question)
            return (await reader.readuntil(end)).decode(errors="replace")
        except asyncio.IncompleteReadError as error:
            raise Failed(f"an answer without an end: {error.partial[:80]!r}") from error
        finally:
            writer.close()


async def postgres(store: Store) -> AsyncIterator[Sample]:
    connection = await store.connection("market")
    for metric, sql in POSTGRES.items():
        for row in await connection.query(sql):
            value = row.pop("value")
            yield metric, {key: str(label) for key, label in row.items()}, float(value or 0)


async def pgbouncer(store: Store) -> AsyncIterator[Sample]:
    connection = await store.connection("pgbouncer")
    for row in await connection.query("show pools"):
        if row["database"] == "pgbouncer":
            continue
        labels = {"database": str(row["database"]), "login": str(row["user"])}
        for column, (metric, state) in POOLS.items():
            yield metric, {**labels, "state": state}, float(row[column] or 0)
        waited = float(row["maxwait"] or 0) + float(row.get("maxwait_us") or 0) / 1e6
        yield "pgbouncer_longest_wait_seconds", labels, waited
    for row in await connection.query("show stats_totals"):
        labels = {"database": str(row["database"])}
        yield "pgbouncer_transactions_total", labels, float(row["xact_count"] or 0)
        yield "pgbouncer_wait_seconds_total", labels, float(row["wait_time"] or 0) / 1e6


async def redis(store: Store) -> AsyncIterator[Sample]:
    text = await store.say(b"INFO\r\nPING\r\n", b"+PONG\r\n")
    info = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line and not line.startswith("$"))
    for field, metric in REDIS.items():
        if field in info:
            yield metric, {}, float(info[field] == "ok") if field == "aof_last_write_status" else float(info[field])
    yield "redis_is_master", {}, float(info.get("role") == "master")
    if info.get("role") == "slave":
        yield "redis_link_up", {}, float(info.get("master_link_status") == "up")
    keys = dict(part.split("=") for part in info.get("db0", "keys=0").split(","))
    yield "redis_keys", {"db": "0"}, float(keys["keys"])


async def sentinel(store: Store) -> AsyncIterator[Sample]:
    text = await store.say(b"INFO sentinel\r\nPING\r\n", b"+PONG\r\n")
    for line in text.split("\r\n"):
        if line.startswith("master0:"):
            about = dict(part.split("=", 1) for part in line.removeprefix("master0:").split(","))
            labels = {"master": about["name"]}
            yield "redis_sentinel_master_ok", labels, float(about["status"] == "ok")
            yield "redis_sentinel_replicas", labels, float(about["slaves"])
            yield "redis_sentinel_sentinels", labels, float(about["sentinels"])


async def memcached(store: Store) -> AsyncIterator[Sample]:
    text = await store.say(b"stats\r\n", b"END\r\n")
    stats = dict(line.split(" ", 2)[1:] for line in text.split("\r\n") if line.startswith("STAT "))
    for field, metric in MEMCACHED.items():
        yield metric, {}, float(stats[field])


async def _json(store: Store, path: str) -> dict[str, object]:
    reader, writer = await asyncio.open_connection(store.host, store.port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {store.host}\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise Failed(f"{path}: {head.splitlines()[0].decode(errors='replace') if head else 'no answer'}")
    found: dict[str, object] = json.loads(body)
    return found


async def nats(store: Store) -> AsyncIterator[Sample]:
    about = await _json(store, "/varz")
    for field, metric in (
        ("connections", "nats_connections"),
        ("slow_consumers", "nats_slow_consumers_total"),
        ("mem", "nats_memory_bytes"),
        ("in_msgs", "nats_received_messages_total"),
        ("out_msgs", "nats_sent_messages_total"),
    ):
        yield metric, {}, float(str(about.get(field, 0)))
    streams = await _json(store, "/jsz?streams=1&consumers=1")
    for account in streams.get("account_details") or []:  # type: ignore[attr-defined]
        for stream in account.get("stream_detail") or []:
            labels, state = {"stream": stream["name"]}, stream["state"]
            yield "nats_stream_messages", labels, float(state["messages"])
            yield "nats_stream_bytes", labels, float(state["bytes"])
            if stream["name"] == "DEAD":
                yield "nats_dead_letters", {}, float(state["messages"])
            for consumer in stream.get("consumer_detail") or []:
                named = {**labels, "consumer": consumer["name"]}
                yield "nats_consumer_pending", named, float(consumer["num_pending"])
                yield "nats_consumer_ack_pending", named, float(consumer["num_ack_pending"])
                yield "nats_consumer_redelivered", named, float(consumer["num_redelivered"])


PROBES = {
    "postgres": postgres,
    "pgbouncer": pgbouncer,
    "redis": redis,
    "sentinel": sentinel,
    "memcached": memcached,
    "nats": nats,
}
