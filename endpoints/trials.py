"""Statements tried for an operator: run like those of a call, attended while they run, their columns with types."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import psycopg

from endpoints.describing import fields_of, named_columns
from endpoints.execution import ReaderSession, arming_statement, fetch_budget, lent_connection, on_living_connection
from endpoints.gate import GateConnection, roll_back
from endpoints.outcomes import Column, OverBudget, Rows, Statement
from endpoints.round_trips import FetchedRows, run_transaction, timestamp_columns

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

# Entered with the connection for as long as the statement runs on it.
Attendance = Callable[[GateConnection], AbstractContextManager[None]]


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
        return _run_once(statement, session, attend, max_bytes)

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


def _run_once(
    statement: Statement, session: ReaderSession, attend: Attendance, max_bytes: int
) -> tuple[PGresult, FetchedRows]:
    with lent_connection(session) as connection:
        try:
            with attend(connection):
                arming, tried = arming_statement(session, statement.sql), (statement.sql, statement.arguments)
                # Tried once: kept as a prepared statement it would only push out those of calls.
                return run_transaction(connection, arming, tried, budget=fetch_budget(session, max_bytes))
        except OverBudget:
            connection.close()  # PostgreSQL stops at once: nobody takes the rest of its rows
            raise
        except psycopg.Error:
            roll_back(connection)
            raise
