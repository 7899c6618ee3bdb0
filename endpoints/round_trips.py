"""A read-only transaction in one round trip: libpq's pipeline mode (PostgreSQL manual, "Pipeline Mode"), by hand.

psycopg's own pipeline does the same at more than twice the cost in Python, which for a small result is most of a call.

    [DEALLOCATE …]  BEGIN READ ONLY  [prepare]  arming  [prepare]  statement  ROLLBACK  sync

Everything is sent before anything is awaited; an error skips what follows up to the sync.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg.pq import ExecStatus
from psycopg.waiting import Ready, Wait

from endpoints.gate import GateConnection
from endpoints.outcomes import BoundValue
from endpoints.prepared_statements import KeptStatements

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Parameters = Sequence[BoundValue]
_TIMESTAMPTZ: Final = 1184  # its oid in every PostgreSQL
_ARRAY_SPECIAL: Final = re.compile(r'(["\\])')


class Keeping(NamedTuple):
    """Among which statements of its connection a statement is kept, and under which key."""

    among: KeptStatements
    key: Hashable


def run_transaction(
    connection: GateConnection,
    arming: tuple[str, Parameters],
    statement: tuple[str, Parameters],
    *,
    keep: Keeping | None = None,
) -> PGresult:
    """Run the arming statement and then the other one in a transaction of their own, and return the latter's result.

    With `keep` the latter stays prepared for the connection. Raises psycopg.Error, the transaction then being in doubt.
    """
    trip = _RoundTrip(connection)
    trip.send_plain(b"BEGIN READ ONLY")
    trip.send(*arming, keep=Keeping(connection.kept_statements, arming[0]))
    trip.send(*statement, keep=keep)
    wanted = trip.sent - 1
    trip.send_plain(b"ROLLBACK")
    return trip.receive()[wanted]


def column_names(result: PGresult) -> tuple[str, ...]:
    return tuple((result.fname(index) or b"").decode() for index in range(result.nfields))


def timestamp_columns(result: PGresult) -> tuple[int, ...]:
    """Return the indexes of the columns of type timestamptz."""
    return tuple(index for index in range(result.nfields) if result.ftype(index) == _TIMESTAMPTZ)


def load_rows(connection: GateConnection, result: PGresult) -> list[tuple[Any, ...]]:
    """Return the rows of a result, loaded by the connection's loaders."""
    transformer = connection.transformer
    transformer.set_pgresult(result)
    try:
        return transformer.load_rows(0, result.ntuples, tuple)
    finally:
        transformer.set_pgresult(None)  # a result may be large


class _RoundTrip:
    """What is sent before one sync, and its results."""

    def __init__(self, connection: GateConnection) -> None:
        self._connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._prepared: dict[int, tuple[Keeping, bytes]] = {}  # by the index of the result that tells
        self.sent = 0
        self._pgconn.enter_pipeline_mode()
        for name in (*connection.kept_statements.give_up(), *connection.kept_queries.give_up()):
            self.send_plain(b"DEALLOCATE " + name)

    def send_plain(self, command: bytes) -> None:
        self._pgconn.send_query_params(command, None)
        self.sent += 1

    def send(self, sql: str, parameters: Parameters, *, keep: Keeping | None) -> None:
        values = [None if value is None else _text(value).encode() for value in parameters]
        name = keep.among.name_of(keep.key) if keep else None
        if keep is None or not (name or keep.among.admits(keep.key)):
            self._pgconn.send_query_params(sql.encode(), values)
            self.sent += 1
            return
        if name is None:
            name = keep.among.new_name()
            self._pgconn.send_prepare(name, sql.encode())
            self._prepared[self.sent] = (keep, name)
            self.sent += 1
        self._pgconn.send_query_prepared(name, values)
        self.sent += 1

    def receive(self) -> list[PGresult]:
        """Return one result for each command sent. Raises psycopg.Error for the first that failed."""
        self._pgconn.pipeline_sync()
        results: list[PGresult] = self._connection.wait(_exchange(self._pgconn))
        self._pgconn.exit_pipeline_mode()
        for index, result in enumerate(results):
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
            if index in self._prepared:
                (kept, key), name = self._prepared[index]
                kept.keep(key, name)
        return results


def _exchange(pgconn: PGconn) -> Generator[Wait, Ready, list[PGresult]]:
    """Send what is queued and read up to the sync, for `Connection.wait`."""
    while pgconn.flush():
        while not (ready := (yield Wait.RW)):
            continue
        if ready & Ready.R:
            pgconn.consume_input()
    results: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            while not (yield Wait.R):
                continue
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:  # between two commands
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


def _text(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else array_literal(value)


def array_literal(values: Sequence[str]) -> str:
    """Return PostgreSQL's text of an array (manual, "Array Input and Output Syntax"), every element quoted."""
    # ["a", 'b"c']  ->  {"a","b\"c"}
    elements = (_ARRAY_SPECIAL.sub(r"\\\1", value) for value in values)
    return "{" + ",".join(f'"{element}"' for element in elements) + "}"
