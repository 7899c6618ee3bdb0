"""The content of the log tables: their columns, their partitions, and the actual paths of recent metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import product, zip_longest
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
_PAGES_FROM_THE_END: Final = 100  # of 8 kB, with the rows that were loaded last
# The fewer, the newer are the first SAMPLE_ROWS of them. But COPY extends a table by up to 64 pages at once, and those
# at the end may be empty.
_LAST_PAGES: Final = (10, _PAGES_FROM_THE_END)
_MOST_PARTITIONS: Final = 3  # partitions with rows to look into
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
        for partition in _newest_first(table, filled_partitions(conn, topology, partitions)):
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
    """Return some recently loaded rows of the newest partition with rows, newest first, as JSON.

    They are read in the same way as in `recent_metadata`, so some of the newest rows may be missing. Raises
    psycopg.Error.
    """
    topology = read_topology(conn)
    newest = sql.SQL("SELECT to_jsonb(tail) FROM tail ORDER BY timestamp DESC LIMIT {}").format(sql.Literal(rows))
    with _in_short(conn):
        filled = filled_partitions(conn, topology, partitions)
        for partition, last_pages in product(_newest_first(table, filled), _LAST_PAGES):
            tail = partial(read_tail, query=newest, last_pages=last_pages)
            found = [row for _, rows_of_one in query_pieces(conn, topology, [partition], tail) for row in rows_of_one]
            if found:
                return sorted(found, key=lambda row: datetime.fromisoformat(row["timestamp"]), reverse=True)[:rows]
    return []


@contextmanager
def _in_short(conn: Connection[Any]) -> Iterator[None]:
    with conn.transaction():
        conn.execute("SELECT set_config('statement_timeout', %s, true)", [f"{SAMPLE_MILLISECONDS}ms"])
        yield


def _newest_first(table: str, partitions: Sequence[str]) -> Iterator[str]:
    default = default_partition_name(table)
    days = sorted((name for name in partitions if name != default), reverse=True)
    yield from [*days, *(name for name in partitions if name == default)][:_MOST_PARTITIONS]


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
