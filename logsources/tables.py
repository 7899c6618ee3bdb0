"""The SQL of log tables: the one place where a name becomes SQL.

A log table is partitioned by UTC day, with a default partition for every other day::

    logs.edge_logs                  id, project, timestamp, event_message, metadata, extracted columns
    ├── logs.edge_logs_p20250602    rows of 2 June 2025, UTC
    └── logs.edge_logs_default      rows of days without a partition

Readers have grants only on the parent, whose row policies decide what they see. A partition has no grants, and row
security without a policy, so direct access to it shows nothing.

Extracted columns are generated from metadata through a lax jsonpath, which unwraps arrays: an object and a one-element
array read the same. They hold the first value of the right type at the path, otherwise NULL: no value can fail a load.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final, LiteralString

from psycopg import sql

from logsources.partitions import day_bounds, default_partition_name, partition_name, start_of_day
from logsources.roles import ALL_VIEWS, LOGS_SCHEMA, PRIVATE_SCHEMA, QUERY_READER, SANDBOX_READER, TENANT_VIEWS
from logsources.topology import ONE_SERVER, Topology

BASE_COLUMNS: Final = ("id", "project", "timestamp", "event_message", "metadata")
# A B-tree entry has at most 2,704 bytes (PostgreSQL, "B-Tree Indexes"). id and project are together in the key, so a
# longer value would make the whole load fail. 255 characters are at most 1,020 bytes.
MAX_KEY_CHARACTERS: Final = 255
# id first: it is what queries over every project look rows up by. A cluster that is distributed by project asks only
# that the project is part of the key.
KEY_COLUMNS: Final = ("id", "project", "timestamp")
ROW_FIELD: Final = "row field"  # the comment of a column project that comes from the row; a path contains no space


class ColumnType(StrEnum):
    """The types of an extracted column; each value is also the word that operators choose."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class ExtractedColumnShape:
    """A column filled from metadata: `path` is dotted, `request.url`; keys contain no dot."""

    name: str
    path: str
    type: ColumnType
    indexed: bool = False
    covered: bool = False


@dataclass(frozen=True, slots=True)
class TableShape:
    """The shape of a log table. If `project_path` is None, project is a field of the row, else a path into metadata."""

    name: str
    project_path: str | None
    columns: tuple[ExtractedColumnShape, ...] = ()


_SQL_TYPE: Final[dict[ColumnType, LiteralString]] = {
    ColumnType.TEXT: "text",
    ColumnType.INTEGER: "bigint",
    # double precision has a fixed width, so any value fits an index; numeric may have 131,072 digits.
    ColumnType.NUMBER: "double precision",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.TIMESTAMP: "timestamptz",
}
# The text after `lax $."request"."url"`. `.double()` silently drops values that float8 cannot hold (silent => true).
_GUARD: Final[dict[ColumnType, str]] = {
    ColumnType.TEXT: ' ? (@.type() == "string" || @.type() == "number" || @.type() == "boolean")',
    ColumnType.INTEGER: ' ? (@.type() == "number" && @.floor() == @'
    " && @ >= -9223372036854775808 && @ <= 9223372036854775807)",
    ColumnType.NUMBER: ' ? (@.type() == "number").double()',
    ColumnType.BOOLEAN: ' ? (@.type() == "boolean")',
    ColumnType.TIMESTAMP: ' ? (@.type() == "string")',
}
# text -> timestamptz depends on the session and is not immutable; iso_timestamp reads only ISO 8601, as UTC.
_READ: Final[dict[ColumnType, LiteralString]] = {
    ColumnType.TEXT: "{value} #>> '{{}}'",
    ColumnType.INTEGER: "({value})::bigint",
    ColumnType.NUMBER: "({value})::double precision",
    ColumnType.BOOLEAN: "({value})::boolean",
    ColumnType.TIMESTAMP: "logs_private.iso_timestamp({value} #>> '{{}}')",
}


# Rows that fit a page stay in it whole. With PostgreSQL's own target of 2 kB most gateway rows are cut up and moved to
# the TOAST table: bare COPY of 60,000 of them then took 1.8 times as long and no less space.
# Vacuumed when 2 % are new, not 20 %: an index alone answers only for pages that a vacuum has seen, and a vacuum of
# rows that nobody deletes reads only the new pages.
ROW_STORAGE: Final = sql.SQL("toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.02")


def parent(name: str) -> sql.Identifier:
    """Return the qualified name of a log table."""
    return sql.Identifier(LOGS_SCHEMA, name)


def _format(template: LiteralString, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(template).format(**parts)


def _names(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _jsonpath_value(path: str, guard: str) -> sql.Composed:
    keys = "".join(f".{json.dumps(key)}" for key in path.split("."))
    return _format("jsonb_path_query_first(metadata, {path}, '{{}}', true)", path=sql.Literal(f"lax ${keys}{guard}"))


def _generated(column_type: ColumnType, value: sql.Composed) -> sql.Composed:
    return _format(
        "{type} GENERATED ALWAYS AS ({expression}) STORED",
        type=sql.SQL(_SQL_TYPE[column_type]),
        expression=_format(_READ[column_type], value=value),
    )


def _extracted(column: ExtractedColumnShape) -> sql.Composed:
    value = _jsonpath_value(column.path, _GUARD[column.type])
    return _format("{name} {type}", name=sql.Identifier(column.name), type=_generated(column.type, value))


def covered_names(shape: TableShape) -> tuple[str, ...]:
    """Return the extracted columns that the covering index holds, in the order of their names."""
    return tuple(sorted(column.name for column in shape.columns if column.covered))


# --- Creating, altering, dropping -------------------------------------------------------------------------------------


def create_table(shape: TableShape, topology: Topology = ONE_SERVER) -> list[sql.Composed]:
    """Return the statements that create the table with its default partition, indexes, grants and row policies."""
    table = parent(shape.name)
    default = default_partition_name(shape.name)
    return [
        _format(
            "CREATE TABLE {table} (id text NOT NULL, project text NOT NULL, timestamp timestamptz NOT NULL,"
            " event_message text NOT NULL, metadata jsonb NOT NULL{extracted}, PRIMARY KEY ({key}))"
            " PARTITION BY RANGE (timestamp)",
            table=table,
            key=_names(KEY_COLUMNS),
            extracted=sql.Composed([_format(", {column}", column=_extracted(column)) for column in shape.columns]),
        ),
        _describe_column(shape.name, "project", ROW_FIELD if shape.project_path is None else shape.project_path),
        *(_describe_column(shape.name, column.name, _description(column)) for column in shape.columns),
        _format("CREATE INDEX ON {table} (project, timestamp DESC)", table=table),
        # Tiny, and prunes inside a day; without autosummarize every range reads all pages filled since the last vacuum.
        _format("CREATE INDEX ON {table} USING brin (timestamp) WITH (autosummarize = on)", table=table),
        *(create_index(shape.name, column) for column in shape.columns if column.indexed),
        _format(
            "CREATE TABLE {default} PARTITION OF {table} DEFAULT WITH ({storage})",
            default=parent(default),
            table=table,
            storage=ROW_STORAGE,
        ),
        *close_partition(default),
        *secure_table(shape.name, topology),
    ]


def alter_columns(name: str, *, dropped: Sequence[str], added: Sequence[ExtractedColumnShape]) -> list[sql.Composed]:
    """Return the statements that drop and add extracted columns in one rewrite of the table.

    No CASCADE: a column that a view reads is not dropped; PostgreSQL's error names the view.
    """
    actions = [_format("DROP COLUMN {name}", name=sql.Identifier(column)) for column in dropped]
    actions += [_format("ADD COLUMN {column}", column=_extracted(column)) for column in added]
    if not actions:
        return []
    return [
        _format("ALTER TABLE {table} {actions}", table=parent(name), actions=sql.SQL(", ").join(actions)),
        *(_describe_column(name, column.name, _description(column)) for column in added),
        *(create_index(name, column) for column in added if column.indexed),
    ]


def create_index(name: str, column: ExtractedColumnShape) -> sql.Composed:
    """Return the statement that indexes an extracted column with values of any length.

    Text gets SP-GiST, because a B-tree entry over 2,704 bytes (a long URL) fails the insert. SP-GiST serves =,
    starts_with and LIKE 'prefix%', takes values of any length, and over 200,000 URLs had 40 MB against 59 MB and was
    filled in 0.65 s against 0.77 s. The other types have a fixed width and get a B-tree.
    """
    method = "USING spgist" if column.type is ColumnType.TEXT else "USING btree"
    return _format(
        "CREATE INDEX ON {table} {method} ({column})",
        table=parent(name),
        method=sql.SQL(method),
        column=sql.Identifier(column.name),
    )


def drop_index(index_name: str) -> sql.Composed:
    """Return the statement that drops an index of the parent and of its partitions."""
    return _format("DROP INDEX {index}", index=parent(index_name))


def drop_table(name: str) -> sql.Composed:
    """Return the statement that drops the table with its partitions; a table that a view reads is not dropped."""
    return _format("DROP TABLE IF EXISTS {table}", table=parent(name))


def _description(column: ExtractedColumnShape) -> str:
    return f"{column.type} from {column.path}"


def _describe_column(name: str, column: str, description: str) -> sql.Composed:
    # `table_changes.read_shape` reads this comment back: PostgreSQL rewrites expressions, so they cannot be compared.
    return _format(
        "COMMENT ON COLUMN {column} IS {description}",
        column=sql.Identifier(LOGS_SCHEMA, name, column),
        description=sql.Literal(description),
    )


# --- Who sees what ----------------------------------------------------------------------------------------------------


def row_conditions(topology: Topology) -> dict[str, sql.Composable]:
    """Return each role that reads log tables, and which of their rows it sees.

    The workers of a cluster run the query of a view as its reader, not as its owner.
    """
    schema = sql.Identifier(PRIVATE_SCHEMA)
    tenant = _format("project = {tenant}", tenant=topology.once(_format("{schema}.tenant()", schema=schema)))
    every_project = topology.once(_format("{schema}.sees_every_project()", schema=schema))
    every = _format("{every_project} OR {tenant}", every_project=every_project, tenant=tenant)
    conditions: dict[str, sql.Composable] = {QUERY_READER: every, TENANT_VIEWS: tenant, ALL_VIEWS: sql.SQL("true")}
    return {**conditions, SANDBOX_READER: every} if topology.is_distributed else conditions


def policy_names(topology: Topology) -> list[str]:
    """Return the names of the row policies of a log table, in order."""
    return sorted(f"{reader}_rows" for reader in row_conditions(topology))


def secure_table(name: str, topology: Topology = ONE_SERVER) -> list[sql.Composed]:
    """Return the statements that put row security, the readers' policies and their grants on the parent; repeatable."""
    conditions = row_conditions(topology)
    table = parent(name)
    statements = [
        _format("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", table=table),
        _format("REVOKE ALL ON {table} FROM PUBLIC", table=table),
        _format("GRANT SELECT ON {table} TO {readers}", table=table, readers=_names(list(conditions))),
    ]
    for reader, condition in conditions.items():
        policy = sql.Identifier(f"{reader}_rows")
        statements += [
            _format("DROP POLICY IF EXISTS {policy} ON {table}", policy=policy, table=table),
            _format(
                "CREATE POLICY {policy} ON {table} FOR SELECT TO {reader} USING ({condition})",
                policy=policy,
                table=table,
                reader=sql.Identifier(reader),
                condition=condition,
            ),
        ]
    return statements


def close_partition(partition: str) -> list[sql.Composed]:
    """Return the statements after which only the owner can read a partition by its own name."""
    table = parent(partition)
    everyone = sql.SQL(", ").join([sql.SQL("PUBLIC"), *map(sql.Identifier, (QUERY_READER, TENANT_VIEWS, ALL_VIEWS))])
    return [
        _format("REVOKE ALL ON {table} FROM {everyone}", table=table, everyone=everyone),
        _format("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", table=table),
    ]


# --- Partitions -------------------------------------------------------------------------------------------------------


def create_day_table(name: str, day: date) -> list[sql.Composed]:
    """Return the statements that create a day's table, not yet a partition, with the parent's columns and indexes."""
    partition = partition_name(name, day)
    return [
        _format(
            "CREATE TABLE {day} (LIKE {table} INCLUDING ALL) WITH ({storage})",
            day=parent(partition),
            table=parent(name),
            storage=ROW_STORAGE,
        ),
        *close_partition(partition),
    ]


def attach_day_table(name: str, day: date) -> sql.Composed:
    """Return the statement that makes the day's table a partition."""
    lower, upper = (sql.Literal(bound.isoformat()) for bound in day_bounds(day))
    return _format(
        "ALTER TABLE {table} ATTACH PARTITION {day} FOR VALUES FROM ({lower}) TO ({upper})",
        table=parent(name),
        day=parent(partition_name(name, day)),
        lower=lower,
        upper=upper,
    )


def distribute_table(name: str, topology: Topology) -> list[sql.Composed]:
    """Return the statements that distribute a log table with its partitions, and its rows with them.

    Tables of the same kind of column and number of shards lie together ("colocated"), so joins of one project stay on
    one node. Nothing is to be done on one server.
    """
    if not topology.is_distributed:
        return []
    table = sql.Literal(parent(name).as_string(None))
    return [
        sql.SQL("SELECT create_distributed_table({table}, 'project')").format(table=table),
        *drop_local_rows(name, topology),
    ]


def drop_local_rows(table: str, topology: Topology) -> list[sql.Composed]:
    """Return the statements that delete the original rows of a table whose rows were copied to shards.

    They would stay at the coordinator, where nobody reads them. Nothing is to be done on one server.
    """
    if not topology.is_distributed:
        return []
    regclass = sql.Literal(parent(table).as_string(None))
    return [_format("SELECT truncate_local_data_after_distributing_table({table}::regclass)", table=regclass)]


def drop_day_table(name: str, day: date) -> sql.Composed:
    """Return the statement that drops a day's partition with its rows."""
    return _format("DROP TABLE {day}", day=parent(partition_name(name, day)))


def move_rows(name: str, day: date) -> sql.Composed:
    """Return the statement that moves a day's rows from the default partition into the day's own table."""
    lower, upper = (sql.Literal(bound) for bound in day_bounds(day))
    return _format(
        "WITH moved AS (DELETE FROM {default} WHERE timestamp >= {lower} AND timestamp < {upper} RETURNING {columns})"
        " INSERT INTO {day} ({columns}) SELECT {columns} FROM moved",
        default=parent(default_partition_name(name)),
        lower=lower,
        upper=upper,
        columns=_names(BASE_COLUMNS),
        day=parent(partition_name(name, day)),
    )


def delete_expired_rows(name: str, first_kept: date) -> sql.Composed:
    """Return the statement that deletes the default partition's rows of days before first_kept."""
    return _format(
        "DELETE FROM {default} WHERE timestamp < {start}",
        default=parent(default_partition_name(name)),
        start=sql.Literal(start_of_day(first_kept)),
    )


def hold_table(name: str, topology: Topology = ONE_SERVER) -> sql.Composed:
    """Return the statement after which the table stays as it is until the end of the transaction.

    On a cluster it is held at the coordinator, where every change begins: LOCK would go to every node, and one that is
    down would stop the loads of all projects.
    """
    if topology.is_distributed:
        relation = sql.Literal(parent(name).as_string(None))
        return _format("SELECT lock_relation_if_exists({relation}, 'ACCESS SHARE')", relation=relation)
    # A query over ONLY the parent would do the same, but Citus then locks every partition: no day could be attached.
    return _format("LOCK TABLE ONLY {table} IN ACCESS SHARE MODE", table=parent(name))


def lock_for_partitions(name: str) -> list[sql.Composed]:
    """Return the statements that block other partition changes and new rows of the default partition.

    Readers and loads into other partitions continue. If a load began before a partition was attached and then reaches
    the default partition with a row of that day, it fails with a check violation: it has to run again.
    """
    default = parent(default_partition_name(name))
    return [
        _format("LOCK TABLE ONLY {table} IN SHARE UPDATE EXCLUSIVE MODE", table=parent(name)),
        _format("LOCK TABLE {default} IN SHARE ROW EXCLUSIVE MODE", default=default),
    ]
