"""What the log database is: one server, or a Citus cluster over which the log tables are distributed by project.

The log database tells it by `logs_private.topology()`, which `distribute_logs` changes as its last step. All that is
done differently on a cluster is decided here:

- Citus takes a session's settings to the workers only if they are set by SET LOCAL, so `logs_private.arm` sets them.
- A policy or view that asks for a setting in a subquery goes to every worker, or is refused. On a cluster the functions
  that read settings are IMMUTABLE instead, in spite of what they do: their results are constants of one planning, which
  choose the worker. So nothing may stay prepared there: a kept plan would have the constants of another call.
- The workers have no sandbox schema in the search path, so the session says by a setting for which one it is armed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection, sql

SANDBOX_SCHEMA_SETTING: Final = "logs.sandbox_schema"
# What the following statements of a transaction change. Sandbox views are at the coordinator of a cluster alone, tables
# are not. One server does not know the setting, and keeps it.
FOR_COORDINATOR_ALONE: Final = "SET LOCAL citus.enable_ddl_propagation = off"
FOR_EVERY_NODE: Final = "SET LOCAL citus.enable_ddl_propagation = on"


# Compared as the object that it is: it is part of a key for each call.
@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """The ways of one kind of log database."""

    name: str
    is_distributed: bool
    volatility: LiteralString  # of the functions that read the session's settings
    armed_for: LiteralString  # whether the session is armed for `sandbox_schema`
    barrier: LiteralString  # the end of a view behind which no condition of its reader is tried on rows it leaves out
    setting_for_describing: LiteralString  # with SET LOCAL, before EXPLAIN of a statement that has no arguments yet
    written: LiteralString  # the function that tells how far the write-ahead log is written
    explain: LiteralString  # what goes before a statement to get its plan as JSON
    relation_size: LiteralString  # the function that returns the bytes of a log table's partition

    @property
    def keeps_statements(self) -> bool:
        """Whether a statement may stay prepared for other calls."""
        return not self.is_distributed

    def once(self, call: sql.Composable) -> sql.Composed:
        """Return a call that reads the session's settings as an expression that is computed once in a query."""
        return sql.SQL("{}" if self.is_distributed else "(SELECT {})").format(call)

    def argument(self, name: str, type_name: str) -> str:
        """Return what ``@name`` is in a view, for a name of [A-Za-z0-9_] and a PostgreSQL type.

        It is read once in a query, so that it prunes partitions and finds an index.
        """
        if self.is_distributed:
            return f"logs_private.{TYPED_ARGUMENTS[type_name]}('{name}')"
        # The cast inside runs once and not once a row; the one outside costs nothing and keeps `= ANY (@list)` from
        # being read as a subquery of many rows.
        return f"((select logs_private.argument('{name}')::{type_name})::{type_name})"


ONE_SERVER: Final = Topology(
    name="one server",
    is_distributed=False,
    volatility="STABLE",
    armed_for="pg_catalog.current_schema() OPERATOR(pg_catalog.=) sandbox_schema::name",
    barrier="",  # its option security_barrier
    # A generic plan: NULL must not be computed with, it stands for an argument that is not known yet.
    setting_for_describing="plan_cache_mode = force_generic_plan",
    written="pg_catalog.pg_current_wal_lsn()",
    explain="EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ",
    relation_size="pg_relation_size",
)
CLUSTER: Final = Topology(
    name="cluster",
    is_distributed=True,
    volatility="IMMUTABLE",
    armed_for="pg_catalog.current_setting('logs.sandbox_schema', true) OPERATOR(pg_catalog.=) sandbox_schema",
    # A worker gets the view's query and not the view, so its option is lost.
    barrier=" OFFSET 0",
    # Generic plans are an error there; and workers, asked for their plan, would answer for the NULLs.
    setting_for_describing="citus.explain_distributed_queries = off",
    written="pg_catalog.pg_current_wal_insert_lsn()",
    # Citus runs a statement for ANALYZE by a function that runs any text, which readers may not call.
    explain="EXPLAIN (FORMAT JSON) ",
    relation_size="citus_relation_size",
)
_BY_NAME: Final = {topology.name: topology for topology in (ONE_SERVER, CLUSTER)}

# Casts from text to most types are not IMMUTABLE, so a worker is found only by a function of the very type.
TYPED_ARGUMENTS: Final[dict[str, LiteralString]] = {
    "text": "argument",
    "bigint": "bigint_argument",
    "numeric": "numeric_argument",
    "boolean": "boolean_argument",
    "timestamptz": "timestamptz_argument",
    "date": "date_argument",
    "uuid": "uuid_argument",
    "text[]": "text_array_argument",
}


def read_topology(conn: Connection[Any]) -> Topology:
    """Return the topology of the log database of a connection of the owner, the gate or a superuser.

    One that is not migrated yet is one server. Raises psycopg.Error, and KeyError for a name that is not known here.
    """
    try:
        with conn.transaction():
            row = conn.execute("SELECT logs_private.topology()").fetchone()
    except (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName, psycopg.errors.InsufficientPrivilege):
        return ONE_SERVER
    return ONE_SERVER if row is None else _BY_NAME[row[0]]


# --- Functions --------------------------------------------------------------------------------------------------------
def set_topology(topology: Topology) -> sql.Composed:
    """Return the statement after which `read_topology` returns it."""
    return sql.SQL(
        "CREATE OR REPLACE FUNCTION logs_private.topology() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE"
        " RETURN {name}::text"
    ).format(name=sql.Literal(topology.name))


# SECURITY DEFINER: hardening takes current_setting() from readers. SET search_path: no other schema is searched.
_TYPED_ARGUMENT: Final[LiteralString] = """
    CREATE OR REPLACE FUNCTION logs_private.{function}(name text) RETURNS {type}
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog
    SET "TimeZone" = 'UTC' SET "DateStyle" = 'ISO, YMD'
    AS $$ SELECT CASE WHEN starts_with(v, '=') THEN substr(v, 2)::{type} END
        FROM current_setting('logs.arg_' || name, true) AS v $$"""
# The names and values are the service's own, as those of set_config(), which has no effect on workers.
_ARM: Final[LiteralString] = """
    CREATE OR REPLACE FUNCTION logs_private.arm(names text[], texts text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    AS $$
    BEGIN
        FOR i IN 1 .. pg_catalog.cardinality(names) LOOP
            EXECUTE pg_catalog.format('SET LOCAL %s TO %L', names[i], texts[i]);
        END LOOP;
    END $$"""

# With the rights of its caller, the owner: workers run queries over shards whose names only they know.
_ANSWERS: Final[LiteralString] = """
    CREATE OR REPLACE FUNCTION logs_private.answers(query text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE
    AS $$
    DECLARE answers jsonb;
    BEGIN
        EXECUTE pg_catalog.format('SELECT pg_catalog.jsonb_agg(value) FROM (%s) AS query (value)', query) INTO answers;
        RETURN coalesce(answers, '[]');
    END $$"""


def cluster_functions(*, gate: str, callers: sql.Composable) -> list[sql.SQL | sql.Composed]:
    """Return the statements that create the functions that only a cluster needs; repeatable, for the owner."""
    statements: list[sql.SQL | sql.Composed] = []
    for type_name, function in TYPED_ARGUMENTS.items():
        if function != "argument":
            parts = {"function": sql.Identifier(function), "type": sql.SQL(type_name)}
            statements += [
                sql.SQL(_TYPED_ARGUMENT).format(**parts),
                sql.SQL("REVOKE ALL ON FUNCTION logs_private.{function}(text) FROM PUBLIC").format(**parts),
                sql.SQL("GRANT EXECUTE ON FUNCTION logs_private.{function}(text) TO {callers}").format(
                    callers=callers, **parts
                ),
            ]
    return [
        *statements,
        sql.SQL(_ARM),
        sql.SQL("REVOKE ALL ON FUNCTION logs_private.arm(text[], text[]) FROM PUBLIC"),
        sql.SQL("GRANT EXECUTE ON FUNCTION logs_private.arm(text[], text[]) TO {}").format(sql.Identifier(gate)),
        sql.SQL(_ANSWERS),
        sql.SQL("REVOKE ALL ON FUNCTION logs_private.answers(text) FROM PUBLIC"),
    ]
