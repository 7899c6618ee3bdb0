"""PostgreSQL's own log: nothing that the gate's sessions do writes a value of a row, or a text, into it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import Statement
from logsources.roles import QUERY_READER

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

# Each fails with a message, a detail or a context that quotes what it failed on.
FAILING = [
    "select event_message::int from edge_logs",
    "select event_message::timestamptz from edge_logs",
    "select event_message::jsonb from edge_logs",
    "select event_message::uuid from edge_logs",
    "select event_message::inet from edge_logs",
    "select (metadata -> 0 ->> 'text')::numeric from edge_logs",
    "select 'x' ~ (event_message || '(') from edge_logs",
    "select jsonb_path_query(metadata, event_message::jsonpath) from edge_logs",
    "select to_timestamp(event_message, 'YYYY') from edge_logs",
    "select to_date(event_message, 'J') from edge_logs",
    "select decode(event_message, 'hex') from edge_logs",
    "select format('%' || event_message, 1) from edge_logs",
    "select ('{' || event_message)::text[] from edge_logs",
    "select ('[' || event_message)::int4range from edge_logs",
    "select array_fill(1, array[1, 2], array[length(event_message)]) from edge_logs",
    "select * from json_to_record((select to_json(event_message) from edge_logs)) as r (a int)",
]


@pytest.fixture
def server_log(superuser: psycopg.Connection[Any]) -> Path:
    """The file that the test's PostgreSQL writes to."""
    row = superuser.execute("SHOW data_directory").fetchone()
    assert row is not None
    log = Path(row[0]).parent / "postgres.log"
    if not log.is_file():
        pytest.skip("the log of this PostgreSQL is not within reach")
    return log


def test_no_value_of_a_row_gets_into_the_servers_log(
    superuser: psycopg.Connection[Any], server_log: Path, insert_rows: Any
) -> None:
    value, literal, control = (f"{name}{uuid4().hex}" for name in ("value", "literal", "control"))
    insert_rows(
        "edge_logs",
        [
            {
                "project": "acme",
                "timestamp": datetime(2025, 6, 2, tzinfo=UTC),
                "event_message": value,
                "metadata": [{"text": value}],
            }
        ],
    )
    session = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="acme")
    for sql in [*FAILING, f"select '{literal}'::int", f"select {literal} from edge_logs"]:
        with pytest.raises(StatementFailed):
            run_statement(Statement(sql), session, max_rows=1)
    with pytest.raises(StatementFailed):
        run_statement(Statement("select ($1::text)::int", (literal,)), session, max_rows=1)
    with pytest.raises(psycopg.DataError):
        superuser.execute(f"SELECT '{control}'::int")
    text = server_log.read_text(encoding="utf-8", errors="replace")
    assert control in text  # others' errors are there: it is the right file, and it is read behind them
    assert value not in text
    assert literal not in text
