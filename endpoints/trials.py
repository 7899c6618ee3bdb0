"""Statements tried for an operator: run like those of a call, attended while they run, their columns with types."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import psycopg

from endpoints.describing import Field, fields_of, named_columns
from endpoints.execution import ReaderSession, arming_statement, on_living_connection
from endpoints.gate import GateConnection, gate_pool, roll_back
from endpoints.outcomes import Column, Rows, Statement
from endpoints.round_trips import load_rows, run_transaction, timestamp_columns

# Entered with the connection for as long as the statement runs on it.
Attendance = Callable[[GateConnection], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Trial:
    """What a tried statement returned; `columns` name the types of `rows.columns`."""

    rows: Rows
    columns: tuple[Column, ...]


def try_statement(statement: Statement, session: ReaderSession, *, max_rows: int, attend: Attendance) -> Trial:
    """Run one statement that asks for at most `max_rows + 1` rows and return the first `max_rows`.

    In the one armed, read-only transaction that `run_statement` uses. Raises as `run_statement` does.
    """

    def attempt() -> tuple[list[Field], tuple[int, ...], list[tuple[Any, ...]]]:
        return _run_once(statement, session, attend)

    started = perf_counter()
    fields, timestamps, rows = on_living_connection(attempt, again=attempt, session=session)
    seconds = perf_counter() - started
    return Trial(
        rows=Rows(
            columns=tuple(name for name, _, _ in fields),
            rows=rows[:max_rows],
            truncated=len(rows) > max_rows,
            database_seconds=seconds,
            timestamp_columns=timestamps,
        ),
        columns=named_columns(fields),
    )


def _run_once(
    statement: Statement, session: ReaderSession, attend: Attendance
) -> tuple[list[Field], tuple[int, ...], list[tuple[Any, ...]]]:
    with gate_pool().connection(statement_seconds=session.statement_timeout_seconds) as connection:
        try:
            with attend(connection):
                arming, tried = arming_statement(session), (statement.sql, statement.arguments)
                # Tried once: kept as a prepared statement it would only push out those of calls.
                result = run_transaction(connection, arming, tried)
        except psycopg.Error:
            roll_back(connection)
            raise
        return fields_of(result), timestamp_columns(result), load_rows(connection, result)
