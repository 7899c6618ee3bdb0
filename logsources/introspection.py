"""The content of the log tables: their columns, their partitions, and the actual paths of recent metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from psycopg import Connection, sql

from logsources.partitions import default_partition_name
from logsources.roles import LOGS_SCHEMA
from logsources.shards import Piece, filled_partitions, query_pieces
from logsources.topology import read_topology

# --- Metadata paths ---------------------------------------------------------------------------------------------------
# The paths of sampled metadata: the dotted keys, how often they occur, and the types there. Pure.
MAX_DEPTH: Final = 6
MAX_PATHS: Final = 300
MAX_VALUES_PER_ROW: Final = 500  # keys to look at: a row with thousands of keys reveals nothing more
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class MetadataPath:
    """A path such as ``request.url``, the commonest type of its values, and the number of rows that have it.

    `steps` is the path as ``->`` and ``#>`` take it, with the first element of each array: 0, request, 0, url.
    """

    path: str
    type: str
    rows: int
    steps: tuple[str, ...]


def common_paths(samples: Iterable[Any]) -> tuple[MetadataPath, ...]:
    """Return the paths of sampled metadata, the commonest first, at most MAX_PATHS.

    It looks into arrays, as a lax jsonpath does; keys that do not fit into a dotted path are left out.
    """
    # [{"request": [{"method": "GET"}]}]  ->  request: object, request.method: text
    rows: Counter[str] = Counter()
    types: dict[str, Counter[str]] = {}
    steps: dict[str, tuple[str, ...]] = {}
    for sample in samples:
        found = {".".join(keys): (type_, way) for keys, type_, way in _paths(sample)}
        rows.update(found.keys())
        for path, (type_, way) in found.items():
            types.setdefault(path, Counter())[type_] += 1
            steps.setdefault(path, way)
    commonest = sorted(rows.items(), key=lambda item: (-item[1], item[0]))[:MAX_PATHS]
    return tuple(MetadataPath(path, types[path].most_common(1)[0][0], count, steps[path]) for path, count in commonest)


def _paths(sample: Any) -> Iterator[tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """Yield the keys of each path, the type of its value, and its steps."""
    pending: list[tuple[tuple[str, ...], Any, tuple[str, ...]]] = [((), sample, ())]
    looked_at = 0
    while pending and looked_at < MAX_VALUES_PER_ROW:
        keys, value, steps = pending.pop(0)
        looked_at += 1
        if isinstance(value, list):
            pending.extend((keys, element, (*steps, "0")) for element in value[:1])
            continue
        if keys:
            yield keys, _type(value), steps
        if isinstance(value, dict) and len(keys) < MAX_DEPTH:
            pending.extend(((*keys, key), part, (*steps, key)) for key, part in value.items() if _KEY.fullmatch(key))


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return "object"


# --- Catalogue --------------------------------------------------------------------------------------------------------
SAMPLE_ROWS: Final = 200
SAMPLE_MILLISECONDS: Final = 500  # a table that takes longer shows no paths
# Of 8 kB, with the rows loaded last: COPY extends a table by up to 64 pages at once, of which some stay empty.
_PAGES_FROM_THE_END: Final = 100
_MOST_PARTITIONS: Final = 3  # partitions with rows to look into
_LOADED_PARTITIONS: Final = 31  # that may have the rows loaded last: producers that were away send older days
_NOTHING: Final = object()


def partitions_by_table(conn: Connection[Any]) -> dict[str, tuple[str, ...]]:
    """Return the names of the partitions of every log table."""
    found = conn.execute(
        "SELECT parent.relname, array_agg(child.relname::text ORDER BY child.relname)"
        " FROM pg_inherits JOIN pg_class AS parent ON parent.oid = inhparent"
        " JOIN pg_class AS child ON child.oid = inhrelid"
        " WHERE parent.relkind = 'p' AND parent.relnamespace = to_regnamespace(%s) GROUP BY 1",
        [LOGS_SCHEMA],
    ).fetchall()
    return {table: tuple(partitions) for table, partitions in found}


def columns_by_table(conn: Connection[Any]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return name and type of the columns of every log table, in order."""
    columns: dict[str, list[tuple[str, str]]] = {}
    found = conn.execute(
        "SELECT relname, attname, format_type(atttypid, atttypmod)"
        " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped"
        " WHERE relkind = 'p' AND relnamespace = to_regnamespace(%s) ORDER BY relname, attnum",
        [LOGS_SCHEMA],
    )
    for table, column, type_ in found:
        columns.setdefault(table, []).append((column, type_))
    return {table: tuple(of_table) for table, of_table in columns.items()}


def recent_metadata(conn: Connection[Any], table: str, partitions: Sequence[str]) -> list[Any]:
    """Return the metadata of up to SAMPLE_ROWS rows from the ends of the newest partitions with rows.

    Only pages at the end of each are read, so the size of the table does not matter. Raises psycopg.Error, including
    QueryCanceled if it takes too long.
    """
    samples: list[Any] = []
    topology = read_topology(conn)
    with _in_short(conn):
        for partition in _newest_first(table, filled_partitions(conn, topology, partitions), most=_MOST_PARTITIONS):
            tail = partial(
                read_tail,
                query=sql.SQL("SELECT metadata FROM tail"),
                last_pages=_PAGES_FROM_THE_END,
                rows=SAMPLE_ROWS - len(samples),
            )
            # Each shard has other projects, so every one is heard before one has its second turn.
            shards = (values for _, values in query_pieces(conn, topology, [partition], tail))
            turns = zip_longest(*shards, fillvalue=_NOTHING)
            samples += [metadata for turn in turns for metadata in turn if metadata is not _NOTHING]
            if len(samples) >= SAMPLE_ROWS:
                break
    return samples[:SAMPLE_ROWS]


def sample_rows(conn: Connection[Any], table: str, partitions: Sequence[str], *, rows: int) -> list[dict[str, Any]]:
    """Return the rows that were loaded last as JSON, the last one first, at most `rows`.

    Only pages at the end of the newest partitions with rows are read, so the size of the table does not matter; rows
    that were loaded into older days are not seen. The transactions of a cluster's workers do not follow one another:
    there the rows that were loaded last into each shard are compared by their timestamps. Raises psycopg.Error.
    """
    topology = read_topology(conn)
    last = partial(_loaded_last, rows=rows)
    with _in_short(conn):
        newest = list(_newest_first(table, filled_partitions(conn, topology, partitions), most=_LOADED_PARTITIONS))
        by_partition: dict[str, list[Any]] = {partition: [] for partition in newest}
        for partition, found in query_pieces(conn, topology, newest, last):
            by_partition[partition] += found
    loaded = [one for found in by_partition.values() for one in found]
    if topology.is_distributed:
        loaded.sort(key=lambda one: datetime.fromisoformat(one["row"]["timestamp"]), reverse=True)
    else:
        loaded.sort(key=lambda one: int(one["transaction"]), reverse=True)
    return [one["row"] for one in loaded[:rows]]


def _loaded_last(table: Piece, *, rows: int) -> sql.Composed:
    # A row has the number of the transaction that stored it ("System Columns"), and within one its place. Numbers begin
    # again after four billion transactions, and rows from before that then seem new; no function says better: hardening
    # takes age(xid) from everybody.
    return sql.SQL(
        "WITH last AS MATERIALIZED (SELECT ctid AS place, xmin::text::bigint AS transaction FROM {table}"
        " WHERE ctid >= (SELECT ('(' || greatest(0,"
        " pg_relation_size({literal}) / current_setting('block_size')::int - {last_pages}) || ',0)')::tid)"
        " ORDER BY transaction DESC, place DESC LIMIT {rows})"
        " SELECT jsonb_build_object('transaction', transaction, 'row', to_jsonb(stored))"
        " FROM last JOIN {table} AS stored ON stored.ctid = last.place ORDER BY transaction DESC, place DESC"
    ).format(
        table=table.name,
        literal=table.literal,
        last_pages=sql.Literal(_PAGES_FROM_THE_END),
        rows=sql.Literal(rows),
    )


@contextmanager
def _in_short(conn: Connection[Any]) -> Iterator[None]:
    with conn.transaction():
        conn.execute("SELECT set_config('statement_timeout', %s, true)", [f"{SAMPLE_MILLISECONDS}ms"])
        yield


def _newest_first(table: str, partitions: Sequence[str], *, most: int) -> Iterator[str]:
    default = default_partition_name(table)
    days = sorted((name for name in partitions if name != default), reverse=True)
    yield from [*days, *(name for name in partitions if name == default)][:most]


def read_tail(table: Piece, *, query: sql.Composable, last_pages: int, rows: int = SAMPLE_ROWS) -> sql.Composed:
    """Return the query over `tail`, rows of the last pages; a range of ctid is read directly ("TID Range Scan")."""
    return sql.SQL(
        "WITH tail AS (SELECT * FROM {table} WHERE ctid >= (SELECT ('(' || greatest(0,"
        " pg_relation_size({literal}) / current_setting('block_size')::int - {last_pages}) || ',0)')::tid)"
        " LIMIT {rows}) {query}"
    ).format(
        table=table.name,
        literal=table.literal,
        last_pages=sql.Literal(last_pages),
        rows=sql.Literal(rows),
        query=query,
    )
