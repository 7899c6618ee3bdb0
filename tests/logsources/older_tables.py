"""Log tables as an earlier version made them: project generated from metadata or NULL, and another key."""

from __future__ import annotations

from datetime import date
from typing import Any

from psycopg import Connection, sql

from logsources import tables
from logsources.partitions import default_partition_name

# What generated the column, for a path of one key.
PROJECT = """
    CASE WHEN length(jsonb_path_query_first(metadata, {path}, '{{}}', true) #>> '{{}}') <= 255
    THEN jsonb_path_query_first(metadata, {path}, '{{}}', true) #>> '{{}}' END"""
GUARD = ' ? (@.type() == "string" || @.type() == "number" && @.floor() == @ && @.abs() < 1000000000000000000)'


def generated_project(*keys: str) -> sql.Composed:
    """Return the expression that read the project from `metadata`."""
    path = "lax $" + "".join(f'."{key}"' for key in keys) + GUARD
    return sql.SQL(PROJECT).format(path=sql.Literal(path))


def make_older_table(logs: Connection[Any], name: str, project_path: str | None, *days: date) -> None:
    """Create the table with partitions for these days, with everything that `tables.create_table` gives it."""
    if project_path is None:
        project: sql.Composable = sql.SQL("text")
    else:
        expression = generated_project(*project_path.split("."))
        project = sql.SQL("text GENERATED ALWAYS AS ({}) STORED").format(expression)
    table, default = tables.parent(name), tables.parent(default_partition_name(name))
    statements = [
        sql.SQL(
            "CREATE TABLE {} (id text NOT NULL, project {}, timestamp timestamptz NOT NULL,"
            " event_message text NOT NULL, metadata jsonb NOT NULL, PRIMARY KEY (id, timestamp))"
            " PARTITION BY RANGE (timestamp)"
        ).format(table, project),
        sql.SQL("COMMENT ON COLUMN {}.project IS {}").format(table, sql.Literal(project_path or tables.ROW_FIELD)),
        sql.SQL("CREATE INDEX ON {} (project, timestamp DESC)").format(table),
        sql.SQL("CREATE INDEX ON {} USING brin (timestamp) WITH (autosummarize = on)").format(table),
        sql.SQL("CREATE TABLE {} PARTITION OF {} DEFAULT WITH ({})").format(default, table, tables.ROW_STORAGE),
        *tables.close_partition(default_partition_name(name)),
        *tables.secure_table(name),
    ]
    for day in days:
        statements += [*tables.create_day_table(name, day), tables.attach_day_table(name, day)]
    for statement in statements:
        logs.execute(statement)
