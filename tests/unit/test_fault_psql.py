"""The kept session against a real PostgreSQL, where one is installed: what it answers, and what it survives."""

import asyncio
import glob
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from aftershock.fault.psql import QueryFailed, Session, SessionLost, psql_argv
from aftershock.problem.model import Database

PROGRAMS = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), "")  # noqa: PTH207
pytestmark = pytest.mark.skipif(
    not PROGRAMS or os.geteuid() != 0 or shutil.which("runuser") is None or shutil.which("psql") is None,
    reason="needs PostgreSQL's programs and root",
)


@pytest.fixture(scope="module")
def host():
    """The socket folder of a private server with room for three operators' sessions."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    shutil.chown(folder, "postgres")
    as_postgres = ["runuser", "-u", "postgres", "--"]
    data = folder / "data"
    subprocess.run(
        [*as_postgres, f"{PROGRAMS}/initdb", "-D", str(data), "-A", "trust", "-N"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
    )
    options = f"-h '' -k {folder} -c fsync=off -c max_connections=8 -c superuser_reserved_connections=3"
    start = [*as_postgres, f"{PROGRAMS}/pg_ctl", "-D", str(data), "-w", "-o", options, "-l", str(folder / "log")]
    subprocess.run([*start, "start"], check=True, stdout=subprocess.DEVNULL, cwd=folder)
    subprocess.run(["psql", "-h", str(folder), "-U", "postgres", "-qc", "create role app login"], check=True)
    yield str(folder)
    stop = [*as_postgres, f"{PROGRAMS}/pg_ctl", "-D", str(data), "-m", "immediate", "stop"]
    subprocess.run(stop, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    shutil.rmtree(folder)


@pytest.fixture
async def session(host):
    made = Session(psql_argv(Database(pod="", database="postgres", host=host)), statement_timeout=2.0)
    yield made
    await made.close()


async def test_rows_are_split_and_statements_answered_in_order(session):
    assert await session.ask("select 1, 'a|b', null") == [["1", "a|b", ""]]
    assert await session.ask("select g from generate_series(1, 3) g -- a comment") == [["1"], ["2"], ["3"]]
    assert await session.ask("create temp table t(i int)") == []
    answers = await asyncio.gather(*(session.ask(f"select {n}") for n in range(20)))
    assert answers == [[[str(n)]] for n in range(20)]
    assert session.opened == 1


async def test_a_refused_statement_names_its_state_and_leaves_the_session(session):
    with pytest.raises(QueryFailed, match="does not exist") as caught:
        await session.ask("select nothing from nowhere")
    assert caught.value.state == "42P01"
    assert caught.value.decisive
    assert await session.ask("select 1") == [["1"]]
    assert session.opened == 1


async def test_a_statement_that_takes_too_long_is_not_decisive(session):
    with pytest.raises(QueryFailed) as caught:
        await session.ask("select pg_sleep(30)")
    assert caught.value.state == "57014"
    assert not caught.value.decisive


async def test_in_haste_a_lock_queue_is_left_soon_and_a_lost_session_not_tried_again(session, host):
    await session.ask("create table if not exists held (i int)")
    holder = Session(psql_argv(Database(pod="", database="postgres", host=host)))
    await holder.ask("begin; lock table held")
    begin = time.monotonic()
    with pytest.raises(QueryFailed) as caught:
        await session.ask("select * from held", hasty=True)
    assert caught.value.state == "55P03"
    assert not caught.value.decisive
    assert time.monotonic() - begin < 1.9  # less than the statement's own time
    waiting = asyncio.create_task(session.ask("select count(*) from held"))
    await asyncio.sleep(1.0)
    await holder.ask("commit")
    assert await waiting == [["0"]]
    await holder.close()

    gone = Session(psql_argv(Database(pod="", database="postgres", host="/tmp/nowhere")))
    with pytest.raises(SessionLost) as first:
        await gone.ask("select 1", hasty=True)
    with pytest.raises(SessionLost) as second:
        await gone.ask("select 1", hasty=True)
    assert second.value is first.value
    await gone.close()


async def test_it_goes_on_when_nobody_waited_for_an_answer(session):
    await session.ask("select 1")
    slow = asyncio.create_task(session.ask("select pg_sleep(1), 'slow'"))
    await asyncio.sleep(0.2)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert await session.ask("select 'next'") == [["next"]]
    assert session.opened == 1


async def test_it_comes_back_after_its_backend_was_ended(session, host):
    (row,) = await session.ask("select pg_backend_pid()")
    end = f"select pg_terminate_backend({row[0]})"
    subprocess.run(["psql", "-h", host, "-U", "postgres", "-qAtc", end], check=True, stdout=subprocess.DEVNULL)
    assert await session.ask("select 'again'") == [["again"]]
    assert session.opened == 2


def held(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_it_answers_while_every_slot_is_taken(session, host):
    await session.ask("select 1")  # opened while there was room
    argv = ["psql", "-X", "-h", host, "-U", "app", "-d", "postgres", "-qAt"]
    holders = [held(argv) for _ in range(4)]
    operators = []
    try:
        for holder in holders:
            holder.stdin.write("select 'in';\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "in\n"
        for _ in range(3):
            operators.append(Session(psql_argv(Database(pod="", database="postgres", host=host))))
            await operators[-1].ask("select 1")
        late = Session(psql_argv(Database(pod="", database="postgres", host=host)))
        with pytest.raises(SessionLost, match="gone"):
            await late.ask("select 1")
        assert await session.ask("select count(*) from pg_stat_activity where usename = 'app'") == [["4"]]
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()
        for operator in operators:
            await operator.close()


async def test_no_program_or_no_server_is_a_lost_session():
    gone = Session(psql_argv(Database(pod="", database="postgres", host="/tmp/nowhere")))
    with pytest.raises(SessionLost, match="gone"):
        await gone.ask("select 1")
    await gone.close()
