"""One batch of rows from a shipper: it is stored whole or not at all, and only once however often it is sent.

A shipper that got no answer sends exactly the same body again, so its rows must be recognised:

    the row has           its key in the table (id, project, timestamp)
    id and timestamp      both as sent
    timestamp             an id made from the body and the row's place in it
    id                    the time of its arrival: it is the same row if its id arrived within RETRY_HOURS for the
                          same project
    neither               an id made from the body and the row's place, then as above

Equal rows in one body stay separate, and so do those of different bodies: an id is made from the whole body, never from
one row's content, because two equal lines of a log are two lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, Final, Protocol

import psycopg
from psycopg import Connection, sql

from logsources import partitions, rolling, tables
from logsources.databases import LockSpace
from logsources.json_batches import MAX_ROWS, read_rows
from logsources.ndjson import BadJSON
from logsources.otlp.records import BadOTLP
from logsources.roles import LOGS_SCHEMA
from logsources.rolling import RolledSource
from logsources.rows import MAX_ROW_BYTES, BadRow, read_row
from logsources.storing import PreparedRow, RowStore, encode_row
from logsources.topology import Topology

MAX_BAD_ROWS_LISTED: Final = 100
# A row without a timestamp is recognised by its id within this time. Shippers try again within a minute; an hour covers
# an outage that began just after the rows were stored.
RETRY_HOURS: Final = 1
_UNREADABLE: Final = (BadJSON, BadOTLP)
_NODES: Final = 2**48  # different last parts of a UUID
_MOST_ROWS: Final = 2**32  # more than any body has
LOCK_TIMEOUT: Final = "5s"  # for an earlier sending of the same rows, or for an ALTER of the table
STATEMENT_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class BadRowAt:
    """A row that cannot be stored: its index in the batch, from 0, and why. The reason contains none of its values."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class BadRows:
    """The number of rows in a batch that cannot be stored, and the first 100 of them."""

    count: int
    listed: tuple[BadRowAt, ...]


class BatchRefused(Exception):
    """A batch has rows that cannot be stored, so nothing of it was stored."""

    def __init__(self, bad_rows: BadRows, *, rows: int) -> None:
        self.bad_rows = bad_rows
        self.rows = rows
        super().__init__(f"{bad_rows.count} of {rows} rows cannot be stored")


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The result of a committed batch; `without_timestamp` of its new rows have the time of their arrival.

    In `with_replacements` of its rows U+FFFD stands for what text cannot hold.
    """

    loaded: int
    already_there: int
    bad_rows: BadRows
    without_timestamp: int = 0
    with_replacements: int = 0


class RowReader(Protocol):
    """A form of body: its raw rows in order, and a BadJSON or BadOTLP in place of each that cannot be read.

    Raises TooManyRows, and BadJSON or BadOTLP if the body cannot be read as rows at all.
    """

    def __call__(self, body: bytes, *, max_rows: int) -> Iterable[Any]: ...


@dataclass(slots=True)
class Batch:
    """The rows of one body in their stored form; `bad_rows` are those without one."""

    arrived_at: datetime
    size: int = 0
    with_replacements: int = 0
    rows: list[PreparedRow] = field(default_factory=list)
    # Indexes by id and project, for rows without a timestamp.
    untimed: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    bad_rows: list[BadRowAt] = field(default_factory=list)

    @property
    def days(self) -> set[date]:
        return {row.day for row in self.rows}


def read_batch(
    body: bytes,
    *,
    project_path: str | None,
    now: datetime,
    default_project: str = "",
    sending: str = "",
    max_rows: int = MAX_ROWS,
    max_row_bytes: int = MAX_ROW_BYTES,
    reader: RowReader = read_rows,
) -> Batch:
    """Return the rows of a body; raises what the reader of its form raises.

    `default_project` is the project of rows that name none; `sending` distinguishes equal bodies that are meant to be
    stored twice.
    """
    batch = Batch(arrived_at=now)
    ids = _MadeIds(body, sending)
    for index, raw in enumerate(reader(body, max_rows=max_rows)):
        batch.size += 1
        if raw.__class__ in _UNREADABLE:
            batch.bad_rows.append(BadRowAt(index, raw.reason))
            continue
        ids.index = index
        try:
            row = read_row(
                raw,
                project_path=project_path,
                now=now,
                default_project=default_project,
                new_id=ids.make,
                max_bytes=max_row_bytes,
            )
        except BadRow as fault:
            batch.bad_rows.append(BadRowAt(index, fault.reason))
            continue
        batch.with_replacements += row.has_replacements
        if not row.has_own_time:
            batch.untimed.setdefault((row.id, row.project), []).append(index)
        batch.rows.append(PreparedRow(index, row.timestamp.date(), encode_row(row)))
    return batch


def load_batch(
    conn: Connection[Any],
    source: RolledSource,
    batch: Batch,
    *,
    skip_bad_rows: bool,
    topology: Topology,
) -> BatchReport:
    """Store a batch, commit it to disk and return the result. `conn` is in autocommit.

    Raises BatchRefused if there are bad rows and they are not to be skipped, ProjectMoved, and psycopg.Error; nothing
    is stored then. Partitions for the rows' days are created first, and stay.
    """
    bad_rows = list(batch.bad_rows)
    if bad_rows and not skip_bad_rows:
        raise BatchRefused(_listed(bad_rows), rows=batch.size)
    if not batch.rows:
        return BatchReport(0, 0, _listed(bad_rows))
    _prepare_days(conn, source, batch.days)
    with _armed(conn, _arming(source.shape.name, topology, LOCK_TIMEOUT, waits=bool(batch.untimed))):
        arrived = _arrived_before(conn, source.shape.name, batch)
        new = [row for row in batch.rows if row.number not in arrived] if arrived else batch.rows
        store = RowStore(conn, source, _noted_in(bad_rows))
        store.store(new)
        if bad_rows and not skip_bad_rows:
            raise BatchRefused(_listed(bad_rows), rows=batch.size)
    # Of rows with one id and project, one at most is new.
    others = arrived.union(bad_row.index for bad_row in bad_rows)
    untimed = sum(not others.issuperset(indexes) for indexes in batch.untimed.values())
    already_there = store.duplicates + len(arrived)
    return BatchReport(store.loaded, already_there, _listed(bad_rows), untimed, batch.with_replacements)


class _MadeIds:
    """Ids for rows without one, the same each time the same body arrives (UUID version 8, RFC 9562).

    Those of one body ascend, so that rows of one moment keep their order, and follow one another, because an index
    takes neighbours faster than ids from everywhere.
    """

    def __init__(self, body: bytes, sending: str) -> None:
        self._body = body
        self._sending = sending
        self.index = 0

    @cached_property
    def _beginning(self) -> tuple[str, int]:
        person = blake2b(self._sending.encode(), digest_size=16).digest()
        digits = blake2b(self._body, digest_size=16, person=person).hexdigest()
        variant = "89ab"[int(digits[16], 16) & 3]
        first = min(int(digits[20:], 16), _NODES - _MOST_ROWS)  # or the ids of the last rows would begin anew at 0
        return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-", first

    def make(self) -> str:
        beginning, first = self._beginning
        return f"{beginning}{first + self.index:012x}"


def _prepare_days(conn: Connection[Any], source: RolledSource, days: set[date]) -> None:
    name = source.shape.name
    missing = conn.execute(
        "SELECT EXISTS (SELECT 1 FROM unnest(%s::text[]) AS partition"
        " WHERE to_regclass(format('%%I.%%I', %s::text, partition)) IS NULL)",
        ([partitions.partition_name(name, day) for day in days], LOGS_SCHEMA),
    ).fetchone()
    if missing is not None and missing[0]:
        rolling.prepare_days(conn, source, days=days, today=partitions.utc_day(datetime.now(UTC)))


@contextmanager
def _armed(conn: Connection[Any], arming: Sequence[bytes]) -> Iterator[None]:
    """Do what is inside in a transaction that begins with these texts: a round trip is a twentieth of a small load."""
    try:
        for text in arming:
            conn.execute(text)
        yield
    except BaseException:
        with suppress(psycopg.Error):  # the connection may be gone, and the transaction with it
            conn.rollback()
        raise
    conn.commit()


@lru_cache(maxsize=256)
def _arming(name: str, topology: Topology, lock_timeout: str, *, waits: bool) -> tuple[bytes, ...]:
    """Return what begins a load's transaction.

    It holds the table, makes success mean "on disk", even if the server commits without waiting for the disk, and
    `waits` for other loads of rows without timestamps into this log source.
    """
    # Not set_config(): the workers of a cluster hear of SET LOCAL alone.
    statements = [
        sql.SQL("BEGIN"),
        sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(lock_timeout)),
        sql.SQL("SET LOCAL statement_timeout = {}").format(sql.Literal(f"{STATEMENT_TIMEOUT_SECONDS}s")),
        tables.hold_table(name, topology),
        sql.SQL(
            "SELECT CASE WHEN current_setting('synchronous_commit') = 'off'"
            " THEN set_config('synchronous_commit', 'on', true) END"
        ),
    ]
    if waits:
        lock = sql.SQL("SELECT pg_advisory_xact_lock({}, hashtext({}))")
        statements.append(lock.format(sql.Literal(LockSpace.UNTIMED_ROWS.value), sql.Literal(name)))
    texts = tuple(statement.as_bytes(None) for statement in statements)
    # One round trip. Not on a cluster: Citus repeats SET LOCAL at the workers with the whole text that contains it.
    return texts if topology.is_distributed else (b"; ".join(texts),)


def _arrived_before(conn: Connection[Any], name: str, batch: Batch) -> set[int]:
    """Return the indexes of rows without timestamps that came before; other loads of such rows wait for us."""
    if not batch.untimed:
        return set()
    window = timedelta(hours=RETRY_HOURS)
    found = conn.execute(
        # With an end, so that partitions created ahead are not searched; clocks of web hosts may differ a little.
        # By id alone: every id with every project of a large batch would be too many pairs to look up.
        sql.SQL("SELECT id, project FROM {} WHERE id = ANY(%s) AND timestamp >= %s AND timestamp <= %s").format(
            tables.parent(name)
        ),
        ([row_id for row_id, _ in batch.untimed], batch.arrived_at - window, batch.arrived_at + window),
    )
    return {index for key in found for index in batch.untimed.get(key, ())}


def _noted_in(bad_rows: list[BadRowAt]) -> Callable[[int, str], None]:
    def note(index: int, reason: str) -> None:
        bad_rows.append(BadRowAt(index, reason))

    return note


def _listed(bad_rows: list[BadRowAt]) -> BadRows:
    first = sorted(bad_rows, key=lambda bad_row: bad_row.index)[:MAX_BAD_ROWS_LISTED]
    return BadRows(len(bad_rows), tuple(first))
