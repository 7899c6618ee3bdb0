"""Stores prepared rows in a log table, each batch in a savepoint, and counts the fate of every row.

Rows are copied straight into the log table. If PostgreSQL refuses a batch, it is rolled back and goes through a staging
table: rows that already exist count as duplicates, and a row that cannot be stored is found by halving and handed back
with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import Connection, errors

from logsources.copying import TableCopy

# Errors that a single row can cause: a duplicate, a value, a limit such as the nesting that PostgreSQL can parse.
_ROW_FAULTS: Final = (
    errors.IntegrityError,
    errors.DataError,
    errors.ProgramLimitExceeded,
    errors.StatementTooComplex,
)


class PreparedRow(NamedTuple):
    """A row in the form for COPY, with its number at the sender and its UTC day."""

    number: int
    day: date
    encoded: bytes


class RowStore:
    """Puts batches into one table, inside the caller's transaction.

    `refuse` gets the number of each row that PostgreSQL refuses, and why; any exception it raises ends the batch.
    """

    def __init__(self, conn: Connection[Any], table: TableCopy, refuse: Callable[[int, str], None]) -> None:
        self._conn = conn
        self._table = table
        self._refuse = refuse
        self._expects_duplicates = False
        self.loaded = 0
        self.duplicates = 0

    def store(self, rows: Iterable[PreparedRow]) -> None:
        """Store a batch; raises psycopg.Error for an error that no single row causes."""
        if self._expects_duplicates:
            self._store_apart(list(rows))
            return
        batch: list[PreparedRow] = []
        try:
            with self._conn.transaction():
                self._table.copy(_remembered(rows, batch))
        except _ROW_FAULTS:
            self._store_apart(batch)
        else:
            self.loaded += len(batch)

    def _store_apart(self, batch: Sequence[PreparedRow]) -> None:
        duplicates_before = self.duplicates
        self._table.make_staging()
        self._store_new(batch)
        # A file loaded a second time has only duplicates: straight copying would then fail for every batch.
        self._expects_duplicates = self.duplicates > duplicates_before

    def _store_new(self, batch: Sequence[PreparedRow]) -> None:
        try:
            with self._conn.transaction():
                added = self._table.copy_new(row.encoded for row in batch)
        except _ROW_FAULTS as fault:
            if len(batch) == 1:
                self._refuse(batch[0].number, _refusal(fault))
                return
            middle = len(batch) // 2
            self._store_new(batch[:middle])
            self._store_new(batch[middle:])
        else:
            self.loaded += added
            self.duplicates += len(batch) - added


def _remembered(rows: Iterable[PreparedRow], batch: list[PreparedRow]) -> Iterator[bytes]:
    for row in rows:
        batch.append(row)
        yield row.encoded


def _refusal(fault: psycopg.Error) -> str:
    # The server's own message may quote the value.
    return f"PostgreSQL refuses the row: {type(fault).__name__} (SQLSTATE {fault.sqlstate})"
