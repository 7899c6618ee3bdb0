"""Statements tried for an operator: run like those of a call, attended while they run, their columns with types."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from endpoints.log_database.describing import fields_of, named_columns
from endpoints.log_database.execution import Attendance, ReaderSession, on_living_connection, run_once
from endpoints.log_database.round_trips import FetchedRows, timestamp_columns
from endpoints.results.outcomes import Column, Rows, Statement

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult


@dataclass(frozen=True, slots=True)
class Trial:
    """What a tried statement returned; `columns` name the types of `rows.columns`."""

    rows: Rows
    columns: tuple[Column, ...]


def try_statement(
    statement: Statement, session: ReaderSession, *, max_rows: int, max_bytes: int, attend: Attendance
) -> Trial:
    """Run one statement that asks for at most `max_rows + 1` rows and return the first `max_rows`.

    In the one armed, read-only transaction that `run_statement` uses. Raises as `run_statement` does.
    """

    def attempt() -> tuple[PGresult, FetchedRows]:
        # Tried once: kept as a prepared statement it would only push out those of calls.
        return run_once(statement, session, max_bytes, may_keep=False, attend=attend)

    started = perf_counter()
    result, rows = on_living_connection(attempt, again=attempt, session=session)
    seconds = perf_counter() - started
    fields = fields_of(result)
    return Trial(
        rows=Rows(
            columns=tuple(name for name, _, _ in fields),
            rows=rows.first(max_rows),
            truncated=len(rows) > max_rows,
            database_seconds=seconds,
            timestamp_columns=timestamp_columns(result),
        ),
        columns=named_columns(fields),
    )
