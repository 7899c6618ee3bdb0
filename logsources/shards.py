"""Reads the partitions of log tables where their rows are: in the log database itself, or on the workers of a cluster.

Citus refuses recursive queries over all shards of a table, and the size, pages and statistics of a partition are those
of the coordinator's own table, which is empty. So each worker reads its own shards, over a new connection that Citus
opens as the owner. It does not see the rows of a transaction that has not ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection, sql

from logsources.roles import LOGS_SCHEMA
from logsources.topology import Topology

_SHARDS: Final[LiteralString] = """
WITH shards (partition, shard) AS (
    SELECT relname::text, to_regclass(shard_name(logicalrelid, shardid))
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_local_group USING (groupid)
    JOIN pg_class ON pg_class.oid = logicalrelid
    WHERE relnamespace = to_regnamespace({schema}) AND relname = ANY ({partitions}::text[])
) {query}"""
_ANSWERS: Final[LiteralString] = """
    SELECT jsonb_agg(jsonb_build_array(partition, logs_private.answers(format({query}, shard)))) FROM shards"""
_FILLED_SHARDS: Final[LiteralString] = (
    "SELECT jsonb_agg(DISTINCT partition) FROM shards WHERE pg_relation_size(shard) > 0"
)
_FILLED_PARTITIONS: Final[LiteralString] = """
SELECT partition FROM unnest(%s::text[], %s::text[]) AS known (partition, qualified)
WHERE pg_relation_size(to_regclass(qualified)) > 0"""


class WorkerFailed(psycopg.OperationalError):
    """A worker of the cluster could not be reached, or refused a query; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A table with rows: a partition, or one of its shards; `literal` is its name in quotes, for `regclass`."""

    name: sql.Composable
    literal: sql.Composable


_SHARD: Final = Piece(sql.SQL("%1$s"), sql.SQL("%1$L"))  # for format() on the worker, which knows the names

PieceQuery = Callable[[Piece], sql.Composed]


def query_pieces(
    conn: Connection[Any], topology: Topology, partitions: Sequence[str], query: PieceQuery
) -> list[tuple[str, list[Any]]]:
    """Run a query of one column over each partition and return its values; on a cluster over each shard by itself.

    So a partition may be there once, several times, or not at all. The query's text has no ``%``; it returns JSON or
    text, because workers answer in JSON. Raises psycopg.Error, such as WorkerFailed.
    """
    if topology.is_distributed:
        over_shard = sql.Literal(query(_SHARD).as_string(conn))
        answers = query_workers(conn, partitions, sql.SQL(_ANSWERS).format(query=over_shard))
        return [(partition, values) for partition, values in answers]
    pieces = []
    for partition in partitions:
        name = sql.Identifier(LOGS_SCHEMA, partition)
        whole = Piece(name, sql.Literal(name.as_string(conn)))
        pieces.append((partition, [value for (value,) in conn.execute(query(whole))]))
    return pieces


def filled_partitions(conn: Connection[Any], topology: Topology, partitions: Sequence[str]) -> list[str]:
    """Return those of the partitions that have pages on disk. Raises psycopg.Error, such as WorkerFailed."""
    if topology.is_distributed:
        filled = set(query_workers(conn, partitions, sql.SQL(_FILLED_SHARDS)))
        return [partition for partition in partitions if partition in filled]
    qualified = [sql.Identifier(LOGS_SCHEMA, partition).as_string(conn) for partition in partitions]
    return [name for (name,) in conn.execute(_FILLED_PARTITIONS, [list(partitions), qualified])]


def query_workers(conn: Connection[Any], partitions: Sequence[str], query: sql.Composable) -> list[Any]:
    """Run a query on every worker at once and return the elements of the JSON array that each answers.

    The query reads the table ``shards (partition, shard)``, the worker's own ones of these partitions. Raises
    WorkerFailed and other psycopg.Error.
    """
    command = sql.SQL(_SHARDS).format(
        schema=sql.Literal(LOGS_SCHEMA), partitions=sql.Literal(list(partitions)), query=query
    )
    found = conn.execute(
        "SELECT nodename, nodeport, success, result FROM run_command_on_workers(%s)", [command.as_string(conn)]
    )
    elements: list[Any] = []
    for host, port, is_answered, result in found:
        if not is_answered:
            raise WorkerFailed(f"The worker {host}:{port} did not answer: {result}")
        elements += json.loads(result or "null") or []
    return elements
