"""Sandbox schemas: each CTE of a version's stored query as a plain view, the only things sandbox_reader may read.

A version of a sandboxing endpoint is published as the schema ``sandbox_<endpoint id>_<version>`` of the log database.
Its views belong to tenant_views, whose row policy shows one project, where the endpoint names a tenant parameter, else
to all_views; both hold nothing that `logsources.roles` does not describe. ``@name`` reads the session's argument.

Publishing is repeatable: the schema's comment tells from which text it was made, and what fits is left as it is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg import Connection, sql

from config.deadlines import answer_within
from endpoints.definition import Definition, PublishedTable, Version
from endpoints.errors import DatabaseUnavailable
from endpoints.results.outcomes import Column, Statement
from endpoints.sql.composition import replace_parameters
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from endpoints.sql.row_conditions import leaves_out_tenant_and_time_alone, order_by_output
from endpoints.sql.stored_queries import StoredTable, StoredTablesError, stored_tables
from logsources.databases import owner_connection
from logsources.roles import ALL_VIEWS, DRAFT_SCHEMAS, LOGS_SCHEMA, SANDBOX_READER, TENANT_VIEWS
from logsources.topology import FOR_COORDINATOR_ALONE, Topology, read_topology

logger = logging.getLogger(__name__)

TRANSACTION_SECONDS: Final = 60.0  # it waits for several locks, and makes up to dozens of views
LOCK_TIMEOUT: Final = "5s"  # a log table being altered, or a schema being dropped that a call still reads
DEFINITION_REVISION: Final = 2  # raised when the views of the same stored query are to look different
DRAFT_REFRESHED_AFTER: Final = timedelta(minutes=1)
_PUBLISHED: Final = re.compile(r"sandbox_(?P<endpoint>[0-9a-f]{32})_(?P<version>[1-9][0-9]*)")

OwnerConnection = Connection[tuple[Any, ...]]


class PublishingError(ValueError):
    """A stored query whose CTEs cannot be published; `position` is the offset in it, None when nobody knows."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class PublishedSchema:
    """A sandbox schema of the log database; `endpoint_id` is None for a draft that was only tried."""

    name: str
    endpoint_id: uuid.UUID | None
    version: int
    published_at: datetime


def sandbox_schema(endpoint: Version) -> str:
    """Return the name of the schema of this version."""
    return f"sandbox_{endpoint.pk.hex}_{endpoint.version}"


def publish_sandbox(endpoint: Version) -> tuple[PublishedTable, ...]:
    """Make the version's schema what it must be, in one transaction, and return its tables.

    Raises PublishingError, and then nothing has changed, and DatabaseUnavailable.
    """
    schema = sandbox_schema(endpoint)
    return _publish_named(schema, endpoint.sql, endpoint.parameters, tenant_parameter=endpoint.tenant_parameter)[1]


def publish_draft(
    endpoint: Definition, parameters: Sequence[DeclaredParameter]
) -> tuple[str, tuple[PublishedTable, ...]]:
    """Publish an endpoint as drafted and return the schema's name and its tables.

    Drafts with the same CTEs share a schema, which is made once: whoever types in the rest of the query makes no new
    one. The hourly task drops it some time after its last use. Raises as `publish_sandbox` does.
    """
    return _publish_named(None, endpoint.sql, parameters, tenant_parameter=endpoint.tenant_parameter)


def table_statement(name: str) -> Statement:
    """Return the statement that reads a sandbox table whole; which schema it means is the session's search path."""
    return Statement(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)).as_string(None))


def published_schemas() -> list[PublishedSchema]:
    """Return every sandbox schema in the log database, drafts included. Raises psycopg.Error."""
    with owner_connection() as connection:
        found = connection.execute(
            "SELECT nspname, obj_description(oid, 'pg_namespace') FROM pg_namespace"
            " WHERE starts_with(nspname, 'sandbox_') AND pg_has_role(nspowner, 'USAGE')"
        ).fetchall()
    return [schema for name, comment in found if (schema := _described(name, comment)) is not None]


def drop_schemas(names: Iterable[str]) -> int:
    """Drop sandbox schemas and return how many went; one that a call is reading stays for a later time."""
    dropped = 0
    for name in names:
        try:
            with _owner_transaction() as connection:
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
        except psycopg.Error as error:
            logger.warning("The sandbox schema %s is not dropped yet: SQLSTATE %s.", name, error.sqlstate)
        else:
            dropped += 1
    return dropped


def _described(name: str, comment: str | None) -> PublishedSchema | None:
    """Return what a schema says about itself; None for one that is not of this module's making."""
    try:
        published_at = datetime.fromisoformat(json.loads(comment or "")["published_at"])
    except (ValueError, KeyError, TypeError):
        return None
    match = _PUBLISHED.fullmatch(name)
    if match is None:
        return PublishedSchema(name, None, 0, published_at)
    return PublishedSchema(name, uuid.UUID(match["endpoint"]), int(match["version"]), published_at)


@contextmanager
def _owner_transaction() -> Iterator[OwnerConnection]:
    with answer_within(TRANSACTION_SECONDS), owner_connection() as connection, connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        connection.execute(FOR_COORDINATOR_ALONE)
        yield connection


def _publish_named(
    schema: str | None, stored_sql: str, parameters: Sequence[DeclaredParameter], *, tenant_parameter: str
) -> tuple[str, tuple[PublishedTable, ...]]:
    """Publish under this name, or under one that is made of what defines the schema."""
    try:
        tables = stored_tables(stored_sql)
    except StoredTablesError as error:
        raise PublishingError(error.message, error.position) from error
    if not tables:
        message = "sandboxing needs a query that begins with WITH: consumers may read its CTEs"
        raise PublishingError(message, 0)
    owner = TENANT_VIEWS if tenant_parameter else ALL_VIEWS
    types = {parameter.name: parameter.type for parameter in parameters}
    try:
        with _owner_transaction() as connection:
            topology = read_topology(connection)
            definition = _fingerprint(tables, types, owner, tenant_parameter, topology)
            name = schema or f"{DRAFT_SCHEMAS}{definition[:32]}"
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
            found, published_at = _definition(connection, name)
            if found != definition or not _is_whole(connection, name, tables, owner):
                _create_schema(connection, name, definition)
                for number, table in enumerate(tables):
                    barrier = _needs_barrier(table, tenant_parameter, earlier=tables[:number])
                    _create_view(connection, name, table, types, barrier=barrier, topology=topology)
                _hand_over(connection, name, tables, owner)
            elif schema is None and datetime.now(UTC) - published_at > DRAFT_REFRESHED_AFTER:
                _comment(connection, name, definition)  # it is in use: the hourly task leaves it
            return name, _describe(connection, name, tables)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable from error
    except psycopg.Error as error:
        raise PublishingError(f"the log database's owner cannot publish the CTEs: {_reason(error)}") from error


def _reason(error: psycopg.Error) -> str:
    return error.diag.message_primary or "PostgreSQL gives no reason"


def _fingerprint(
    tables: Sequence[StoredTable],
    types: dict[str, ParameterType],
    owner: str,
    tenant_parameter: str,
    topology: Topology,
) -> str:
    declared = sorted((name, type_.value) for name, type_ in types.items())
    ctes = [(table.name, table.columns, table.sql) for table in tables]
    parts = [DEFINITION_REVISION, topology.name, ctes, declared, owner, tenant_parameter]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _definition(connection: OwnerConnection, schema: str) -> tuple[str | None, datetime]:
    """Return the fingerprint in the comment of a schema, None without one, and when it was published."""
    row = connection.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [schema]
    ).fetchone()
    try:
        comment = json.loads(row[0] or "") if row else {}
        return comment["definition"] or None, datetime.fromisoformat(comment["published_at"])
    except (ValueError, KeyError, TypeError):
        return None, datetime.min.replace(tzinfo=UTC)


def _is_whole(connection: OwnerConnection, schema: str, tables: Sequence[StoredTable], owner: str) -> bool:
    """Tell whether a schema with its comment also has what a restore may lose: its views, their owner and rights."""
    names = [table.name for table in tables]
    row = connection.execute(
        "SELECT has_schema_privilege(%(reader)s, n.oid, 'USAGE') AND cardinality(%(names)s::text[]) = (SELECT count(*)"
        " FROM pg_class AS c WHERE relnamespace = n.oid AND relname = ANY (%(names)s)"
        " AND relowner = to_regrole(%(owner)s) AND has_table_privilege(%(reader)s, c.oid, 'SELECT'))"
        " FROM pg_namespace AS n WHERE nspname = %(schema)s",
        {"reader": SANDBOX_READER, "owner": owner, "names": names, "schema": schema},
    ).fetchone()
    return row is not None and bool(row[0])


def _comment(connection: OwnerConnection, schema: str, definition: str) -> None:
    comment = json.dumps({"definition": definition, "published_at": datetime.now(UTC).isoformat()})
    connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(schema), sql.Literal(comment)))


def _create_schema(connection: OwnerConnection, schema: str, definition: str) -> None:
    name = sql.Identifier(schema)
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
    _comment(connection, schema, definition)
    # A name without schema means what it means in the stored query: an earlier CTE, then what query_reader would find.
    path = sql.SQL(", ").join(map(sql.Identifier, (schema, "pg_catalog", LOGS_SCHEMA, "pg_temp")))
    connection.execute(sql.SQL("SET LOCAL search_path = {}").format(path))


def _needs_barrier(table: StoredTable, tenant_parameter: str, *, earlier: Sequence[StoredTable]) -> bool:
    """Tell whether the CTE hides rows that a reader's failing condition could tell of.

    Row security is a barrier in itself, and one that leaves indexes usable; the time window is tried before whatever a
    reader asks. All else, and every CTE of an endpoint without a tenant, needs one of its own.
    """
    return not tenant_parameter or not leaves_out_tenant_and_time_alone(
        table.sql, tenant_parameter=tenant_parameter, earlier=[one.name for one in earlier]
    )


def _create_view(
    connection: OwnerConnection,
    schema: str,
    table: StoredTable,
    types: dict[str, ParameterType],
    *,
    barrier: bool,
    topology: Topology,
) -> None:
    """Make the view of a CTE, which shows its rows to sessions armed for this schema alone.

    Behind a barrier no condition of a reader is tried on rows that the CTE leaves out. The CTE stands in a subquery of
    the view: PostgreSQL takes a view that is a UNION ALL itself apart, and its barrier with it.
    """

    def argument(name: str) -> str:
        return topology.argument(name, types.get(name, ParameterType.TEXT).postgresql_type)

    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    head = sql.SQL("CREATE VIEW {} {} WITH (security_barrier = {}) AS SELECT * FROM (").format(
        sql.Identifier(schema, table.name),
        sql.SQL("({})").format(columns) if table.columns else sql.Composed([]),
        sql.SQL("true" if barrier else "false"),
    )
    # A condition without columns that is known once a query: if it is false, nothing below it runs at all.
    armed = topology.once(sql.SQL("logs_private.armed_for({})").format(sql.Literal(schema)))
    tail = sql.SQL(") AS cte WHERE {}").format(armed).as_bytes(connection)
    # Behind a barrier the order would be forgotten, and all rows sorted for a reader who wants the first of them.
    order = order_by_output(table.sql) if barrier else ()
    tail += f" ORDER BY {', '.join(order)}".encode() if order else b""
    tail += topology.barrier.encode() if barrier else b""
    # A line break ends a "--" comment that the CTE may end with.
    query = replace_parameters(table.sql, argument) + "\n"
    try:
        connection.execute(head.as_bytes(connection) + query.encode() + tail)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        message = f"the CTE `{table.name}` cannot be a sandbox table: {_reason(error)}"
        raise PublishingError(message, table.position) from error


def _hand_over(connection: OwnerConnection, schema: str, tables: Sequence[StoredTable], owner: str) -> None:
    """Give the views to their owner and SELECT on them to sandbox_reader."""
    names = {"schema": sql.Identifier(schema), "owner": sql.Identifier(owner), "reader": sql.Identifier(SANDBOX_READER)}
    # ALTER … OWNER TO asks that the new owner may create in the schema, for this moment only.
    connection.execute(sql.SQL("GRANT CREATE ON SCHEMA {schema} TO {owner}").format(**names))
    for table in tables:
        view = sql.Identifier(schema, table.name)
        connection.execute(sql.SQL("GRANT SELECT ON {view} TO {reader}").format(view=view, **names))
        connection.execute(sql.SQL("ALTER VIEW {view} OWNER TO {owner}").format(view=view, **names))
    connection.execute(sql.SQL("REVOKE CREATE ON SCHEMA {schema} FROM {owner}").format(**names))
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {reader}").format(**names))


def _describe(connection: OwnerConnection, schema: str, tables: Sequence[StoredTable]) -> tuple[PublishedTable, ...]:
    columns: dict[str, list[Column]] = {table.name: [] for table in tables}
    found = connection.execute(
        "SELECT relname, attname, format_type(atttypid, atttypmod)"
        " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0"
        " WHERE relnamespace = %s::regnamespace ORDER BY relname, attnum",
        [sql.Identifier(schema).as_string(connection)],
    ).fetchall()
    for table, column, type_ in found:
        columns[table].append(Column(column, type_))
    return tuple(PublishedTable(name, tuple(of_table)) for name, of_table in columns.items())
