"""A read-only transaction in one round trip: libpq's pipeline mode (PostgreSQL manual, "Pipeline Mode"), by hand.

psycopg's own pipeline does the same at more than twice the cost in Python, which is most of a call with a small result.

    BEGIN READ ONLY  SHOW <mark>  [DEALLOCATE …]  [prepare]  arming  [prepare]  statement  ROLLBACK  sync

Everything is sent before anything is awaited; an error skips what follows up to the sync. Rows come in chunks (manual,
"Retrieving Query Results in Chunks"), so that a result over its budget is given up while it arrives.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, product, starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import psycopg
from psycopg import abc
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.pq import ExecStatus
from psycopg.waiting import Ready, Wait

from endpoints.log_database.gate import GateConnection, KeptStatements
from endpoints.results.encoding import CHUNK_ROWS, register_loaders
from endpoints.results.outcomes import BoundValue, ColumnType, OverBudget
from logsources.session_marks import SHOW_MARK

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Parameters = Sequence[BoundValue | bytes]  # as texts, encoded or not
_FAILED: Final = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)
_ARRAY_SPECIAL: Final = re.compile(r'(["\\])')


class Keeping(NamedTuple):
    """The set of prepared statements in which a statement is kept, and its key there."""

    among: KeptStatements
    key: Hashable


class Transaction(NamedTuple):
    """A transaction that is over: the first value that its arming statement returned, and what its statement returned.

    The result has the columns and no rows: these are in `rows`.
    """

    armed: bytes
    result: PGresult
    rows: FetchedRows


def run_transaction(
    connection: GateConnection,
    arming: tuple[str, Parameters],
    statement: tuple[str, Parameters],
    *,
    keep: Keeping | None = None,
    budget: FetchBudget | None = None,
) -> Transaction:
    """Run the arming statement and then the other one in a transaction of their own.

    With `keep` the statement stays prepared for the connection. Raises psycopg.Error, and OverBudget for rows beyond
    the budget: the state of the transaction is then in doubt.
    """
    trip = RoundTrip(connection)
    trip.send(*arming, keep=Keeping(connection.kept_statements, arming[0]))
    armed = trip.sent - 1
    trip.send(*statement, keep=keep)
    fetching = _Fetching(of=trip.sent - 1, budget=budget)
    trip.send_plain(b"ROLLBACK")
    results = trip.receive(fetching)
    return Transaction(results[armed].get_value(0, 0) or b"", results[fetching.of], FetchedRows(tuple(fetching.chunks)))


def column_names(result: PGresult) -> tuple[str, ...]:
    return tuple((result.fname(index) or b"").decode() for index in range(result.nfields))


def column_types(result: PGresult) -> Sequence[ColumnType]:
    """Return the types of the columns; for a domain, PostgreSQL names the type under it."""
    oid_of, modifier_of = result.ftype, result.fmod
    return [(oid_of(index), modifier_of(index)) for index in range(result.nfields)]


class FetchBudget(NamedTuple):
    """The limits of a result while it arrives; libpq takes 16 bytes for a value, plus its text.

    `text_bytes` is None if the statement itself counts them, as with `limit_bytes`.
    """

    values: int
    text_bytes: int | None


class FetchedRows(Sequence[tuple[Any, ...]]):
    """Rows as libpq holds them: each iteration, in any thread, loads them a chunk at a time.

    If they were loaded all at once, narrow rows would take ten times as much memory.
    """

    __slots__ = ("_chunks", "_count")

    def __init__(self, chunks: tuple[PGresult, ...], count: int | None = None) -> None:
        self._chunks = chunks
        self._count = sum(chunk.ntuples for chunk in chunks) if count is None else count

    def first(self, count: int) -> FetchedRows:
        return FetchedRows(self._chunks, min(count, self._count))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return islice(chain.from_iterable(map(load_rows, self._chunks)), self._count)

    @overload
    def __getitem__(self, index: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Any, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Any, ...] | list[tuple[Any, ...]]:
        if isinstance(index, slice):
            return list(islice(self, *index.indices(self._count)))
        return list(self)[index]

    def is_null(self, column: int) -> bool:
        """Tell whether the column, by its index, is NULL in every row; it loads nothing, and looks up to a value."""
        places = ((chunk, row) for chunk in self._chunks for row in range(chunk.ntuples))
        return all(chunk.get_value(row, column) is None for chunk, row in islice(places, self._count))

    def texts(self, row: int, columns: Iterable[int]) -> tuple[str | None, ...]:
        """Return values of one row as PostgreSQL's text."""
        for chunk in self._chunks:
            if row < chunk.ntuples:
                values = (chunk.get_value(row, column) for column in columns)
                return tuple(None if value is None else value.decode() for value in values)
            row -= chunk.ntuples
        raise IndexError("no such row")


def null_columns(rows: Sequence[Sequence[Any]], columns: Sequence[int]) -> list[int]:
    """Return those of the columns, by their indexes, that are NULL in every row."""
    if isinstance(rows, FetchedRows):
        return [column for column in columns if rows.is_null(column)]
    return [column for column in columns if all(row[column] is None for row in rows)]


def first_rows(rows: Sequence[Sequence[Any]], count: int) -> Sequence[Sequence[Any]]:
    """Return the first rows; those that libpq holds are not loaded."""
    return rows.first(count) if isinstance(rows, FetchedRows) else rows[:count]


def texts_of_row(rows: Sequence[Sequence[Any]], row: int, columns: Iterable[int]) -> tuple[str | None, ...]:
    """Return the values of columns of type text in one row; of rows that libpq holds no other row is loaded."""
    if isinstance(rows, FetchedRows):
        return rows.texts(row, columns)
    return tuple(rows[row][column] for column in columns)


class _Loaders(threading.local):
    """A thread's loaders for the types that it has met."""

    def __init__(self) -> None:
        adapters = AdaptersMap(psycopg.adapters)
        register_loaders(adapters)
        self.transformer: abc.Transformer = Transformer(adapters)


_loaders = _Loaders()


def load_rows(result: PGresult) -> list[tuple[Any, ...]]:
    """Return the rows of a result, in any thread; `register_loaders` has the forms of their values."""
    transformer = _loaders.transformer
    transformer.set_pgresult(result)
    try:
        return transformer.load_rows(0, result.ntuples, tuple)
    finally:
        transformer.set_pgresult(None)  # a result may be large


@dataclass(slots=True)
class _Fetching:
    """The rows of one command of a round trip, known by its number, as they arrive."""

    of: int
    budget: FetchBudget | None
    chunks: list[PGresult] = field(default_factory=list)
    values: int = 0
    text_bytes: int = 0

    def take(self, chunk: PGresult) -> None:
        """Keep a chunk. Raises OverBudget.

        The first one, which is all of most results, is not weighed: it is in memory already.
        """
        if self.chunks and self.budget is not None:
            self._weigh(chunk, self.budget)
        self.chunks.append(chunk)

    def _weigh(self, chunk: PGresult, budget: FetchBudget) -> None:
        self.values += chunk.ntuples * chunk.nfields
        if budget.text_bytes is not None:
            places = product(range(chunk.ntuples), range(chunk.nfields))
            self.text_bytes += sum(map(len, filter(None, starmap(chunk.get_value, places))))
        if self.values > budget.values or (budget.text_bytes is not None and self.text_bytes > budget.text_bytes):
            raise OverBudget


class RoundTrip:
    """The commands of one read-only transaction, sent before one sync, and their results."""

    def __init__(self, connection: GateConnection) -> None:
        self._connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._prepared: dict[int, tuple[Keeping, bytes]] = {}  # by the index of the result that reports it
        self.sent = 0
        self._pgconn.enter_pipeline_mode()
        self.send_plain(b"BEGIN READ ONLY")
        self.send_plain(SHOW_MARK)
        for name in (*connection.kept_statements.give_up(), *connection.kept_queries.give_up()):
            self.send_plain(b"DEALLOCATE " + name)

    def send_plain(self, command: bytes) -> None:
        self._pgconn.send_query_params(command, None)
        self.sent += 1

    def send(self, sql: str, parameters: Parameters, *, keep: Keeping | None) -> None:
        values = [value if value is None or isinstance(value, bytes) else _text(value) for value in parameters]
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

    def receive(self, fetching: _Fetching) -> list[PGresult]:
        """Return one result for each command sent. Raises psycopg.Error for the first that failed, and OverBudget."""
        self._pgconn.pipeline_sync()
        results: list[PGresult] = self._connection.wait(_exchange(self._pgconn, fetching))
        self._pgconn.exit_pipeline_mode()
        for index, result in enumerate(results):
            if index == 1:  # after BEGIN
                self._connection.require_own_session(result)
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
            if index in self._prepared:
                (kept, key), name = self._prepared[index]
                kept.keep(key, name)
        return results


def send_queued(pgconn: PGconn) -> Generator[Wait, Ready, None]:
    """Send what is queued, for `Connection.wait`."""
    while pgconn.flush():
        while not (ready := (yield Wait.RW)):
            continue
        if ready & Ready.R:
            pgconn.consume_input()


def _exchange(pgconn: PGconn, fetching: _Fetching) -> Generator[Wait, Ready, list[PGresult]]:
    """Send what is queued and read up to the sync, for `Connection.wait`."""
    yield from send_queued(pgconn)
    results: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            while not (yield Wait.R):
                continue
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:  # between two commands
            # After a failed command the others have no results that could come in chunks.
            if len(results) == fetching.of and results[-1].status not in _FAILED:
                pgconn.set_chunked_rows_mode(CHUNK_ROWS)
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            return results
        if result.status == ExecStatus.TUPLES_CHUNK:
            fetching.take(result)
        else:
            results.append(result)


def _text(value: str | Sequence[str]) -> bytes:
    return (value if isinstance(value, str) else array_literal(value)).encode()


def array_literal(values: Sequence[str]) -> str:
    """Return PostgreSQL's text of an array (manual, "Array Input and Output Syntax"), every element quoted."""
    # ["a", 'b"c']  ->  {"a","b\"c"}
    elements = (_ARRAY_SPECIAL.sub(r"\\\1", value) for value in values)
    return "{" + ",".join(f'"{element}"' for element in elements) + "}"
