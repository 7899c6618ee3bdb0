"""Stores prepared rows in a log table, each batch in a savepoint, and counts the fate of every row.

Rows are copied straight into the log table. If PostgreSQL refuses a batch, it is rolled back and goes through a staging
table: rows that already exist count as duplicates, and a row that cannot be stored is found by halving and handed back
with the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import Connection, errors, sql

from logsources import tables
from logsources.partitions import DAYS_BACK_WITHOUT_RETENTION, partition_window, utc_day
from logsources.rolling import RolledSource
from logsources.rows import Row
from logsources.tables import BASE_COLUMNS, ROW_FIELD, TableShape

# --- Copying ----------------------------------------------------------------------------------------------------------
# Writes rows to PostgreSQL by COPY in binary format, into the log table itself or through a staging table.
#
# Binary, because the server then neither scans for line ends nor undoes escapes, and reads a timestamp as a number:
# over 20,000 rows of 2 kB it took 45 us a row against 51 us for the text format. PostgreSQL's "COPY" reference page
# describes the format: a header, then for each row the number of fields, and each field after its length in bytes.
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_TRAILER: Final = struct.pack("!h", -1)
# PostgreSQL counts microseconds from here in a timestamptz ("Date/Time Types").
_POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_JSONB_VERSION: Final = 1  # the first byte of a jsonb field; its text follows

_pack_start = struct.Struct("!hi").pack  # number of fields, length of the first
_length = struct.Struct("!i")
_pack_timestamp = struct.Struct("!iqi").pack  # 8, the timestamp, length of the next field
_pack_jsonb = struct.Struct("!ib").pack

# Sent at a time: the server stores these rows while we read the next ones.
_CHUNK_BYTES: Final = 64 * 1024

# The comment that `tables.create_table` has written.
_PROJECT_PLACE: Final = """
    SELECT col_description(attrelid, attnum) FROM pg_attribute
    WHERE attrelid = {}::regclass AND attname = 'project'"""


def encode_row(row: Row) -> bytes:
    """Return the row in the form for COPY, with the columns of `tables.BASE_COLUMNS`."""
    row_id, project, message = row.id.encode(), row.project.encode(), row.event_message.encode()
    metadata = row.metadata_json
    moment = (row.timestamp - _POSTGRES_EPOCH) // _MICROSECOND
    return b"".join(
        (
            _pack_start(5, len(row_id)),
            row_id,
            _length.pack(len(project)),
            project,
            _pack_timestamp(8, moment, len(message)),
            message,
            _pack_jsonb(len(metadata) + 1, _JSONB_VERSION),
            metadata,
        )
    )


class ProjectMoved(Exception):
    """The project of the rows was read from another place than the table's: the log source was changed."""


class TableCopy:
    """Writes encoded rows into one log table over one connection, inside the caller's transaction.

    That transaction holds the table (`tables.hold_table`). Making one raises psycopg.Error, such as UndefinedTable,
    and ProjectMoved.
    """

    def __init__(self, conn: Connection[Any], shape: TableShape) -> None:
        self._conn = conn
        self._table = tables.parent(shape.name)
        place = sql.Literal(self._table.as_string(None))
        if conn.execute(sql.SQL(_PROJECT_PLACE).format(place)).fetchone() != (shape.project_path or ROW_FIELD,):
            raise ProjectMoved
        self._columns = sql.SQL(", ").join(map(sql.Identifier, BASE_COLUMNS))
        self._staging = sql.Identifier("pg_temp", "staged_rows")
        self._has_staging = False

    def copy(self, encoded_rows: Iterable[bytes]) -> None:
        """Add the rows; if one already exists, adds none and raises psycopg.errors.UniqueViolation."""
        self._copy_into(self._table, encoded_rows)

    def make_staging(self) -> None:
        """Create the staging table if it is missing; outside a savepoint, whose rollback would remove it."""
        if not self._has_staging:
            self._conn.execute(
                sql.SQL("CREATE TEMPORARY TABLE staged_rows ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                    self._columns, self._table
                )
            )
            self._has_staging = True

    def copy_new(self, encoded_rows: Iterable[bytes]) -> int:
        """Add the rows that the log table does not have yet, through the staging table; return their number."""
        self._copy_into(self._staging, encoded_rows)
        insert = sql.SQL(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging} ON CONFLICT DO NOTHING RETURNING 1"
        ).format(table=self._table, columns=self._columns, staging=self._staging)
        # The rows that come back are counted: Citus may report another number than it inserted.
        added = len(self._conn.execute(insert).fetchall())
        self._conn.execute(sql.SQL("TRUNCATE {}").format(self._staging))
        return added

    def _copy_into(self, target: sql.Identifier, encoded_rows: Iterable[bytes]) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(target, self._columns)
        with self._conn.cursor().copy(statement) as copy:
            chunk = bytearray(_SIGNATURE)
            for encoded in encoded_rows:
                chunk += encoded
                if len(chunk) >= _CHUNK_BYTES:
                    copy.write(chunk)
                    chunk = bytearray()
            copy.write(chunk + _TRAILER)


# --- Storing ----------------------------------------------------------------------------------------------------------
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

    `refuse` gets the number of each row that PostgreSQL refuses or that is too old for a source without retention, and
    why; any exception it raises ends the batch.
    """

    def __init__(self, conn: Connection[Any], source: RolledSource, refuse: Callable[[int, str], None]) -> None:
        self._conn = conn
        self._table = TableCopy(conn, source.shape)
        window = partition_window(utc_day(datetime.now(UTC)), source.retention_days)
        self._first_day = window.first if source.retention_days is None else date.min
        self._refuse = refuse
        self._expects_duplicates = False
        self.loaded = 0
        self.duplicates = 0

    def store(self, rows: Iterable[PreparedRow]) -> None:
        """Store a batch; raises psycopg.Error for an error that no single row causes."""
        rows = self._late_enough(rows)
        if self._expects_duplicates:
            self._store_apart(list(rows))
            return
        batch: list[PreparedRow] = []
        try:
            with self._conn.transaction():
                self._table.copy(_remembered(rows, batch))
        # InternalError: as the coordinator of a cluster reports what a worker refused. Staged rows fail for themselves.
        except (*_ROW_FAULTS, errors.InternalError_):
            self._store_apart(batch)
        else:
            self.loaded += len(batch)

    def _late_enough(self, rows: Iterable[PreparedRow]) -> Iterator[PreparedRow]:
        for row in rows:
            if row.day >= self._first_day:
                yield row
            else:
                self._refuse(row.number, f"timestamp is more than {DAYS_BACK_WITHOUT_RETENTION} days ago")

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
