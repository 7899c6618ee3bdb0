"""The functions of PostgreSQL that each role may call once the log database is hardened.

=================  ===================================================================================================
role               may call
=================  ===================================================================================================
catalog_users      exactly the functions that PUBLIC could; its members are the owner and monitoring
sandbox_reader     the allowlist of sandbox queries, and the functions that PostgreSQL calls for operators, casts and
                   hashing
query_reader       functions that only compute: all of those above, and every function of PUBLIC that leaves no effect
                   and looks at no other session, file or server; `SIDE_EFFECT_FREE` names those that PostgreSQL calls
                   volatile
the gate           set_config, by which the service says whom a transaction serves
=================  ===================================================================================================

PostgreSQL asks for EXECUTE on the functions behind operators, casts and hashed IN lists (executor/execExpr.c), and on
input and output functions if a constant is cast while planning (optimizer/util/clauses.c). It does not ask for the
functions behind comparison in ORDER BY or inside aggregates, so nobody gets those.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import Connection, sql

from logsources.topology import TYPED_ARGUMENTS, read_topology

CATALOG_USERS: Final = "catalog_users"

# Volatile or pg_*, but harmless in stored queries, which operators write: clocks, chance, waiting, sizes.
SIDE_EFFECT_FREE: Final = (
    "clock_timestamp", "timeofday", "random", "random_normal", "gen_random_uuid", "uuidv4", "uuidv7",
    "pg_sleep", "pg_sleep_for", "pg_sleep_until",
    "pg_typeof", "pg_column_size", "pg_size_pretty", "pg_size_bytes", "pg_input_is_valid", "pg_collation_for",
)  # fmt: skip
# Prefixes of functions that reveal the server, its roles, sessions and catalogs, or run SQL made from names.
_SERVER_FUNCTIONS: Final = r"^(pg_|has_|to_reg|txid_|binary_upgrade_|row_security_)|_to_xml"
# A value of these types names something in the server; age(xid) and max(pg_lsn) show why names are not enough.
_SERVER_TYPES: Final = (
    "oid", "xid", "xid8", "cid", "tid", "pg_lsn", "pg_snapshot", "txid_snapshot", "aclitem", "refcursor", "cstring",
    "internal", "pg_ddl_command",
)  # fmt: skip

# Types whose values are read and written as text. Only array_in of their input functions also reads other types,
# including names of roles and tables.
_TEXT_FORMS: Final = (
    r"^_?(bool|int2|int4|int8|float4|float8|numeric|text|varchar|bpchar|bytea|uuid|json|jsonb|jsonpath|inet|cidr|macaddr"
    r"|date|time|timetz|timestamp|timestamptz|interval|(int4|int8|num|ts|tstz|date)range)$"
)

_OPEN: Final[LiteralString] = """
    p.pronamespace = 'pg_catalog'::regnamespace AND NOT p.prosecdef AND EXISTS (
        SELECT 1 FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
        WHERE a.grantee = 0 OR a.grantee = to_regrole('catalog_users'))"""
_COMPUTES: Final[LiteralString] = """
    NOT EXISTS (
        SELECT 1 FROM pg_type AS t WHERE (t.oid = p.prorettype OR t.oid = ANY (p.proargtypes::oid[]))
        AND t.typnamespace = 'pg_catalog'::regnamespace AND (t.typname = ANY (%(server_types)s) OR t.typname ~ '^reg'))
    AND (p.proname = ANY (%(allowed)s) OR p.provolatile <> 'v' AND (
        p.oid IN (SELECT oprcode FROM pg_operator) OR p.oid IN (SELECT amproc FROM pg_amproc)
        OR p.oid IN (SELECT castfunc FROM pg_cast)))"""
_READS_AND_WRITES_TEXT: Final[LiteralString] = """
    p.proname <> 'array_in' AND p.oid IN (
        SELECT unnest(ARRAY[t.typinput, t.typoutput]) FROM pg_type AS t
        WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typname ~ %(text_forms)s)"""
_STORED_QUERIES: Final[LiteralString] = """
    p.proname = ANY (%(side_effect_free)s) OR p.provolatile <> 'v' AND p.proname !~ %(server_functions)s"""

# Citus calls them as the reader: a part of a query that was computed first is read like a table.
_CITUS_CALLS: Final[LiteralString] = "p.proname IN ('read_intermediate_result', 'read_intermediate_results')"


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function in the form for GRANT: schema, name and the types of its arguments, each (schema, name)."""

    schema: str
    name: str
    arguments: tuple[tuple[str, str], ...]

    def signature(self) -> sql.Composed:
        # "pg_catalog"."abs"("pg_catalog"."int4")
        types = sql.SQL(", ").join(sql.Identifier(*argument) for argument in self.arguments)
        return sql.SQL("{}({})").format(sql.Identifier(self.schema, self.name), types)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(name for _, name in self.arguments)})"


# What tells sandbox_reader its own arguments and project; the nodes of a cluster call it by name.
SETTING_FUNCTIONS: Final = frozenset(
    FunctionName("logs_private", name, (("pg_catalog", "text"),) if takes_text else ())
    for name, takes_text in (
        *((name, True) for name in TYPED_ARGUMENTS.values()),
        ("armed_for", True),
        ("tenant", False),
        ("sees_every_project", False),
    )
)


def _select(conn: Connection[Any], condition: sql.Composable, values: dict[str, Any]) -> set[FunctionName]:
    query = sql.SQL(
        "SELECT n.nspname, p.proname, ARRAY(SELECT ARRAY[tn.nspname, t.typname]"
        " FROM unnest(p.proargtypes) WITH ORDINALITY AS argument (type, position)"
        " JOIN pg_type AS t ON t.oid = argument.type JOIN pg_namespace AS tn ON tn.oid = t.typnamespace"
        " ORDER BY argument.position)"
        " FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE "
    )
    rows = conn.execute(query + condition, values)
    return {FunctionName(schema, name, tuple(map(tuple, arguments))) for schema, name, arguments in rows}


def wanted_functions(
    conn: Connection[Any], *, gate: str, allowed_functions: Collection[str]
) -> dict[str, set[FunctionName]]:
    """Return the functions of schema pg_catalog that each reader and the gate should be able to call, by role."""
    values = {
        "allowed": sorted(allowed_functions),
        "server_types": list(_SERVER_TYPES),
        "side_effect_free": list(SIDE_EFFECT_FREE),
        "server_functions": _SERVER_FUNCTIONS,
        "text_forms": _TEXT_FORMS,
    }

    def functions(condition: LiteralString) -> set[FunctionName]:
        return _select(conn, sql.SQL("{} AND ({})").format(sql.SQL(_OPEN), sql.SQL(condition)), values)

    computing = functions(_COMPUTES) | functions(_READS_AND_WRITES_TEXT)
    if read_topology(conn).is_distributed:
        computing |= functions(_CITUS_CALLS)
        # At the coordinator nobody but Citus itself begins a distributed transaction.
        if conn.execute("SELECT groupid FROM pg_dist_local_group").fetchone() != (0,):
            computing |= functions("p.proname = 'assign_distributed_transaction_id'")
    return {
        "sandbox_reader": computing,
        "query_reader": computing | functions(_STORED_QUERIES),
        gate: functions("p.proname = 'set_config'"),
    }


def public_functions(conn: Connection[Any], schemas: Collection[str]) -> set[FunctionName]:
    """Return the functions of these schemas that everybody may call."""
    condition = sql.SQL(
        "n.nspname = ANY (%(schemas)s)"
        " AND EXISTS (SELECT 1 FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) WHERE grantee = 0)"
    )
    return _select(conn, condition, {"schemas": list(schemas)})


def granted_functions(conn: Connection[Any], role: str, schemas: Collection[str]) -> set[FunctionName]:
    """Return the functions of these schemas granted to the role itself; none if there is no such role."""
    condition = sql.SQL(
        "n.nspname = ANY (%(schemas)s)"
        " AND EXISTS (SELECT 1 FROM aclexplode(p.proacl) WHERE grantee = to_regrole(quote_ident(%(role)s)))"
    )
    return _select(conn, condition, {"schemas": list(schemas), "role": role})


def callable_functions(conn: Connection[Any], role: str) -> set[FunctionName]:
    """Return every function that the role may call by its name, from whatever source the right comes."""
    condition = sql.SQL(
        "has_function_privilege(%(role)s, p.oid, 'EXECUTE') AND has_schema_privilege(%(role)s, n.oid, 'USAGE')"
    )
    return _select(conn, condition, {"role": role})
