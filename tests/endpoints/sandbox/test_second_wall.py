"""PostgreSQL's own wall, with the checker switched off: every attack is sent as it is, to a database with secrets.

Nothing outside the project's sandbox rows may come back, in rows or in messages, and nothing may be changed or held.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.conf import settings
from psycopg import Connection
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from endpoints.sql.sandbox import SandboxTable, check_sandbox_query
from tests.files import CASES

pytestmark = pytest.mark.sql

COLUMNS = ("timestamp", "id", "event_message", "metadata")
# Rows outside the sandbox, password hashes, files, stored SQL: none of it is ever seen.
# The last is the secret as bytea is written.
FORBIDDEN = (
    "marker_theirs",
    "marker_earlier",
    "marker_secret",
    "SCRAM-SHA-256",
    "root:x:0",
    "logs_private",
    "6d61726b65725f736563726574",
)

# What PostgreSQL computes from constants or tells everybody, whatever the privileges: only the checker stops it.
OWN_NAMES = "the session's own roles are key words, not functions"
NAMES_BY_CAST = "the reg* types turn names and numbers into each other without a function that could be denied"
BY_DESIGN = {
    "A544": OWN_NAMES,
    "A546": OWN_NAMES,
    "A550": OWN_NAMES,
    "A552": OWN_NAMES,
    "A559": NAMES_BY_CAST,
    "A568": NAMES_BY_CAST,
}
STATE = """
    SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_namespace),
        (SELECT count(*) FROM pg_type), (SELECT count(*) FROM pg_extension),
        (SELECT md5(string_agg(a::text, '' ORDER BY oid)) FROM pg_authid AS a),
        (SELECT count(*) FROM pg_auth_members), (SELECT md5(string_agg(s::text, '')) FROM pg_db_role_setting AS s),
        (SELECT count(*) FROM pg_largeobject_metadata), (SELECT md5(string_agg(data, '')) FROM pg_largeobject),
        (SELECT count(*) FROM pg_prepared_xacts), (SELECT count(*) FROM pg_replication_slots),
        (SELECT count(*) FROM pg_listening_channels()), pg_notification_queue_usage(),
        (SELECT md5(string_agg(t::text, '')) FROM public.auth_user AS t),
        (SELECT last_value FROM public.auth_user_id_seq),
        (SELECT md5(string_agg(t::text, '')) FROM public.log_edge AS t),
        (SELECT md5(string_agg(t::text, '' ORDER BY id, timestamp)) FROM logs.edge_logs AS t),
        (SELECT count(*) FROM logs.auth_logs),
        (SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
            WHERE a.datname = current_database()
            AND (l.locktype = 'advisory' OR l.relation IS NOT NULL AND a.usename = %s))"""


# Rows are filtered by other rows' values, or fail on them: what a predicate sees must be ours.
PRYING = [
    "select * from edge_logs where event_message::bool",
    "select * from edge_logs where (metadata->0->>'marker')::int = 1",
    "select * from edge_logs where event_message::timestamptz > now()",
    "select * from edge_logs where ('\"' || event_message || ' marker')::json is not null",
    "select count(*) from edge_logs where 1 / (case when event_message like '%theirs%' then 0 else 1 end) = 1",
    "select count(*) from edge_logs where 1 / (case when event_message like '%earlier%' then 0 else 1 end) = 1",
    "select count(*) from edge_logs a join auth_logs b on a.event_message::inet = b.event_message::inet",
    "select * from edge_logs e, lateral (select e.event_message::int) x",
    "select event_message from edge_logs group by 1 having max(event_message)::int > 0",
    "select * from edge_logs where timestamp > 'infinity' or event_message::jsonb is not null",
    "select string_agg(event_message, ',') from edge_logs",
    "select max(timestamp), min(timestamp), count(*) from edge_logs",
]
CONTROLS = [
    ("select password from public.auth_user", "marker_secret"),
    ("select rolpassword from pg_authid", "SCRAM-SHA-256"),
    ("select event_message from logs.edge_logs", "marker_theirs"),
    ("select public.leak()", "marker_secret"),
    ("select event_message from logs.edge_logs where timestamp < '2025-06-01'", "marker_earlier"),
    ("select pg_get_viewdef('edge_logs'::regclass)", "logs_private"),
    ("select pg_read_file('/etc/passwd')", "root:x:0"),
    ("select lo_get(424242)::text", "6d61726b65725f736563726574"),
]


def cases(name: str) -> list[Any]:
    loaded = map(json.loads, (CASES / f"{name}.jsonl").read_text().splitlines())
    return [pytest.param(case["id"], case["sql"], id=case["id"]) for case in loaded]


class Run(NamedTuple):
    """A text that is sent for an attack."""

    case: str
    sql: str
    text: str


def wrapped(sql: str) -> str:
    return f"SELECT * FROM (\n{sql}\n) AS result LIMIT 1001"


def values(result: PGresult) -> list[tuple[str | None, ...]]:
    def text(row: int, column: int) -> str | None:
        value = result.get_value(row, column)
        return None if value is None else value.decode("utf-8", "replace")

    return [tuple(text(row, column) for column in range(result.nfields)) for row in range(result.ntuples)]


def as_reader(walled: Any, sql: str) -> tuple[list[tuple[str | None, ...]], str]:
    """Run SQL as the service does, in the extended protocol; return its rows, or PostgreSQL's whole message."""
    gate: Connection[Any] = walled.gate
    gate.execute("BEGIN READ ONLY")
    try:
        walled.arm(gate, sql)
        result = gate.pgconn.exec_params(sql.encode("utf-8", "surrogatepass"), [])
        if result.status in (ExecStatus.COPY_OUT, ExecStatus.COPY_IN):
            raise AssertionError("PostgreSQL starts a COPY for sandbox_reader")
        if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            return values(result), ""
        return [], result.error_message.decode("utf-8", "replace")
    finally:
        if gate.info.transaction_status is not TransactionStatus.IDLE:
            gate.execute("ROLLBACK")


def state(walled: Any) -> tuple[Any, ...]:
    row = walled.superuser.execute(STATE, (settings.LOGS_GATE["user"],)).fetchone()
    session = tuple((name, value) for name, value, *_ in walled.gate.execute("SHOW ALL").fetchall())
    assert walled.gate.pgconn.notifies() is None
    return (*row, walled.gate.execute("SELECT current_user").fetchone(), session)


@pytest.fixture(scope="module")
def clean_state(walled: Any) -> tuple[Any, ...]:
    # From now on the session knows the names of its settings, and of those that PL/pgSQL brings.
    as_reader(walled, "SELECT log_functions.try_json('1')")
    return state(walled)


# As the service composes it, and as a statement of its own.
FORMS: tuple[Callable[[str], str], ...] = (wrapped, str)
RUNS = [Run(case, sql, form(sql)) for case, sql in (case.values for case in cases("attacks")) for form in FORMS]
BATCHES = [RUNS[start : start + 50] for start in range(0, len(RUNS), 50)]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{batch[0].case} to {batch[-1].case}")
def test_attacks_get_and_leave_nothing(walled: Any, clean_state: tuple[Any, ...], batch: list[Run]) -> None:
    assert [run for run in batch if gets_something(walled, run)] == []
    if state(walled) != clean_state:
        pytest.fail(f"changed by {changing(walled, batch, as_reader)}")


def gets_something(walled: Any, run: Run) -> bool:
    rows, message = as_reader(walled, run.text)
    seen = repr(rows) + message
    names = (settings.LOGS_GATE["user"], "sandbox_reader", "query_reader", "postgres", "pg_", "logs.")
    told = [name for name in names if name in repr(rows) and name not in run.sql.removesuffix("'::regrole")]
    return any(word in seen and word not in run.sql for word in FORBIDDEN) or (bool(told) and run.case not in BY_DESIGN)


def changing(walled: Any, batch: list[Run], send: Callable[[Any, str], object]) -> list[Run]:
    """Return which run of a batch changes the state, by halves; the batch if none does so a second time."""
    suspects = batch
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        suspects = half if changes(walled, half, send) else suspects[len(half) :]
    return suspects if changes(walled, suspects, send) else batch


def changes(walled: Any, runs: list[Run], send: Callable[[Any, str], object]) -> bool:
    walled.gate.execute("DISCARD ALL")  # else a setting would be changed only once
    before = state(walled)
    for run in runs:
        send(walled, run.text)
    return state(walled) != before


@pytest.mark.parametrize("at", [0, 31, 49])
@pytest.mark.parametrize(
    ("change", "undone"),
    [
        ("SET extra_float_digits = 2", "DISCARD ALL"),
        ("INSERT INTO public.auth_user VALUES (2)", "DELETE FROM public.auth_user WHERE id = 2"),
        ("CREATE TABLE IF NOT EXISTS public.made ()", "DROP TABLE public.made"),
    ],
)
def test_a_change_is_put_down_to_the_attack_that_makes_it(
    walled: Any, clean_state: tuple[Any, ...], change: str, undone: str, at: int
) -> None:
    def send(walled: Any, text: str) -> object:
        session = walled.gate if text.startswith("SET ") else walled.superuser
        return session.execute(text) if text == change else as_reader(walled, text)

    batch = list(BATCHES[0])
    batch[at] = Run("planted", change, change)
    assert changes(walled, batch, send)
    is_repeatable = "IF NOT EXISTS" not in change
    assert changing(walled, batch, send) == ([batch[at]] if is_repeatable else batch)
    walled.gate.execute("DISCARD ALL")
    walled.superuser.execute(undone)
    assert state(walled) == clean_state


@pytest.mark.one_server("the workers of a cluster refuse some of them")
def test_what_only_the_checker_stops_is_still_so(walled: Any) -> None:
    """A case that PostgreSQL has come to refuse leaves the list."""
    attacks = dict(case.values for case in cases("attacks"))
    assert [case for case in BY_DESIGN if not as_reader(walled, wrapped(attacks[case]))[0]] == []


@pytest.mark.parametrize("sql", PRYING)
def test_predicates_see_the_sandbox_rows_alone(walled: Any, clean_state: tuple[Any, ...], sql: str) -> None:
    rows, message = as_reader(walled, wrapped(sql))
    assert not [word for word in FORBIDDEN if word in repr(rows) + message]
    assert "division by zero" not in message
    assert state(walled) == clean_state


@pytest.mark.parametrize(("sql", "word"), CONTROLS)
def test_the_forbidden_words_are_there_to_be_found(walled: Any, sql: str, word: str) -> None:
    assert word in FORBIDDEN
    with walled.superuser.transaction(force_rollback=True):
        walled.superuser.execute(f"SET LOCAL search_path = {walled.schema}")
        assert word in repr([tuple(map(str, row)) for row in walled.superuser.execute(sql.encode())])


@pytest.mark.parametrize(
    "change",
    [
        "SELECT pg_advisory_xact_lock(1)",
        "INSERT INTO public.auth_user VALUES (2)",
        "SELECT lo_create(0)",
        "CREATE TABLE public.made ()",
        "ALTER ROLE logs_gate CONNECTION LIMIT 39",
        "ALTER ROLE logs_gate IN DATABASE postgres SET x.y = 'z'",
    ],
)
def test_the_comparison_of_states_sees(walled: Any, clean_state: tuple[Any, ...], change: str) -> None:
    with walled.superuser.transaction(force_rollback=True):
        walled.superuser.execute(change.encode())
        assert state(walled) != clean_state


def test_legit_queries_return_their_rows_through_the_wall(walled: Any) -> None:
    tables = tuple(SandboxTable(name, COLUMNS) for name in walled.tables)
    compared = 0
    for case, sql in (case.values for case in cases("legit")):
        checked = check_sandbox_query(sql, tables=tables)
        rows, message = as_reader(walled, checked.statement({}, max_rows=10_000).sql)
        assert not message, (case, message)
        assert sorted(map(repr, rows)) == sorted(map(repr, directly(walled, sql))), case
        compared += 1
    assert compared > 90


def directly(walled: Any, sql: str) -> list[tuple[str | None, ...]]:
    """Run a consumer's own text over the same views without any wall."""
    with walled.superuser.transaction(force_rollback=True):
        walled.arm(walled.superuser, "", role="none")
        result = walled.superuser.pgconn.exec_params(sql.rstrip().removesuffix(";").encode(), [])
        return values(result)
