"""Our own functions in the log database, for results that PostgreSQL's own cannot give without failing on some row.

They have their own schema and belong to the owner; only sandbox_reader and query_reader may call them. The checker of
sandbox queries pins their names to this schema, as it pins PostgreSQL's own to pg_catalog. Each computes its
result only from its argument, with the caller's rights, and uses nothing that sandbox_reader may not call itself.

``RETURN`` and ``BEGIN ATOMIC`` bodies are parsed when the function is created: their names keep that meaning under any
later search path. So they need no SET clause, which would prevent inlining by PostgreSQL (optimizer/util/clauses.c);
inlined, they cost as much as the expression. The PL/pgSQL functions catch errors and are never inlined; a SET
search_path costs them almost nothing. Before PostgreSQL 17 a subtransaction cannot start in a parallel worker, so they
are not marked parallel safe.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, LiteralString

from psycopg import Connection, sql

import googlesql
from logsources.allowed_functions import GOOGLESQL_SIGNATURES
from logsources.function_rights import FunctionName
from logsources.guard_definitions import DOMAINS, FUNCTIONS, LARGEST_VALUE_FUNCTION, OPERATORS, STORED_SIZE_FUNCTION
from logsources.roles import READERS, VIEW_OWNERS

FUNCTION_SCHEMA: Final = "log_functions"

# The form of a number, and how long its text may be: numeric has room for far more digits.
_NUMBER: Final[LiteralString] = r"'^\s*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?\s*$'"
_MOMENT: Final[LiteralString] = (
    r"'^\d{4}-\d\d?-\d\d?([Tt ]([01]?\d|2[0-3]):\d\d?(:\d\d?(\.\d{1,9})?)?"
    r"(Z|z|UTC|[+-](14(:?00)?|(0?\d|1[0-3])(:?[0-5]\d)?)| [A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+){0,2})?)?$'"
)
_DEFINITIONS: Final[dict[tuple[LiteralString, LiteralString], LiteralString]] = {
    # Of an array its elements, of an object the object itself, of anything else nothing.
    ("json_elements", "jsonb"): """
        CREATE OR REPLACE FUNCTION log_functions.json_elements(value jsonb) RETURNS SETOF jsonb
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        BEGIN ATOMIC
            SELECT element FROM jsonb_array_elements(
                CASE jsonb_typeof(value) WHEN 'array' THEN value WHEN 'object' THEN jsonb_build_array(value) END
            ) AS element;
        END""",
    ("try_number", "text"): f"""
        CREATE OR REPLACE FUNCTION log_functions.try_number(value text) RETURNS numeric
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE WHEN length(value) <= 300 AND value ~ {_NUMBER} THEN value::numeric END""",
    # A text that is a number counts as a number: several producers write numbers in quotes.
    ("try_number", "jsonb"): """
        CREATE OR REPLACE FUNCTION log_functions.try_number(value jsonb) RETURNS numeric
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE jsonb_typeof(value) WHEN 'number' THEN value::numeric
            WHEN 'string' THEN log_functions.try_number(value #>> '{}') END""",
    ("try_integer", "numeric"): """
        CREATE OR REPLACE FUNCTION log_functions.try_integer(value numeric) RETURNS bigint
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE WHEN round(value) BETWEEN -9223372036854775808 AND 9223372036854775807
            THEN round(value)::bigint END""",
    ("hexadecimal", "text"): """
        CREATE OR REPLACE FUNCTION log_functions.hexadecimal(value text) RETURNS bigint
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN (SELECT log_functions.try_integer(CASE WHEN value ~ '-' THEN -1 ELSE 1 END
                * sum(strpos('123456789abcdef', digit) * 16::numeric ^ (n - 1)))
            FROM unnest(string_to_array(reverse(split_part(lower(btrim(value)), 'x', 2)), NULL)) WITH ORDINALITY
            AS t(digit, n))""",
    ("try_integer", "text"): r"""
        CREATE OR REPLACE FUNCTION log_functions.try_integer(value text) RETURNS bigint
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE WHEN value ~ '^\s*[-+]?\d{1,18}\s*$' THEN value::bigint
            WHEN value ~* '^\s*[-+]?0x[0-9a-f]{1,40}\s*$' THEN log_functions.hexadecimal(value)
            WHEN length(value) <= 300 AND value ~ '^\s*[-+]?\d+\s*$'
                AND value::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN value::bigint END""",
    # What double precision has no room for is infinite or 0. PL/pgSQL, because inlined they took a megabyte a call.
    ("try_float", "numeric"): """
        CREATE OR REPLACE FUNCTION log_functions.try_float(value numeric) RETURNS double precision
        LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog
        AS $$
        BEGIN
            RETURN CASE WHEN abs(value) BETWEEN 5e-324 AND 1.7976931348623157e308 THEN value::double precision
                WHEN value > 1 THEN 'Infinity'
                WHEN value < -1 THEN '-Infinity'
                ELSE value * 0 END;
        END $$""",
    ("try_float", "text"): r"""
        CREATE OR REPLACE FUNCTION log_functions.try_float(value text) RETURNS double precision
        LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog
        AS $$
        BEGIN
            RETURN CASE WHEN value ~* '^\s*([-+]?inf(inity)?|nan)\s*$' THEN value::double precision
                WHEN value ~* '^\s*[-+]?0x' THEN log_functions.try_integer(value)
                ELSE log_functions.try_float(log_functions.try_number(value)) END;
        END $$""",
    ("try_integer", "jsonb"): """
        CREATE OR REPLACE FUNCTION log_functions.try_integer(value jsonb) RETURNS bigint
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE jsonb_typeof(value) WHEN 'number' THEN log_functions.try_integer(value::numeric)
            WHEN 'string' THEN log_functions.try_integer(value #>> '{}')
            WHEN 'boolean' THEN value::boolean::integer END""",
    ("try_boolean", "text"): r"""
        CREATE OR REPLACE FUNCTION log_functions.try_boolean(value text) RETURNS boolean
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE lower(value) WHEN 'true' THEN true WHEN 'false' THEN false END""",
    # Most log messages are not JSON: a text that cannot begin a JSON value costs no subtransaction.
    ("try_json", "text"): r"""
        CREATE OR REPLACE FUNCTION log_functions.try_json(value text) RETURNS jsonb
        LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog
        AS $$
        BEGIN
            IF value !~ '^[\s]*[{["0-9tfn-]' THEN
                RETURN NULL;
            END IF;
            RETURN value::jsonb;
        EXCEPTION WHEN data_exception OR program_limit_exceeded OR statement_too_complex THEN
            RETURN NULL;
        END $$""",
    # Immutable, although text -> timestamptz is not: a text without a zone is UTC, whatever the session's settings.
    ("try_timestamp", "text"): rf"""
        CREATE OR REPLACE FUNCTION log_functions.try_timestamp(value text) RETURNS timestamptz
        LANGUAGE plpgsql IMMUTABLE STRICT
        SET search_path = pg_catalog SET "TimeZone" = 'UTC' SET "DateStyle" = 'ISO, YMD'
        AS $$
        DECLARE
            moment timestamptz;
        BEGIN
            IF value !~ {_MOMENT} THEN RETURN NULL; END IF;
            value := regexp_replace(value, '(\.\d{{6}})\d+', '\1');
            -- Not as an argument: inlined, a cast that is planned with its value would need the right to cstring_out().
            moment := CASE WHEN strpos(substr(value, 12), ' ') = 0 THEN value::timestamptz
                ELSE log_functions.zoned_moment(substring(value, '^(.*) ')::timestamp, substring(value, '\S+$')) END;
            RETURN log_functions.in_range(moment, false);
        EXCEPTION WHEN data_exception THEN RETURN NULL;
        END $$""",
    ("try_date", "text"): r"""
        CREATE OR REPLACE FUNCTION log_functions.try_date(value text) RETURNS date
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE WHEN value ~ '^\d{4}-\d\d?-\d\d?$'
            THEN (log_functions.try_timestamp(value) AT TIME ZONE 'UTC')::date END""",
}

LOG_FUNCTIONS: Final = frozenset(
    FunctionName(FUNCTION_SCHEMA, name, tuple(("pg_catalog", argument) for argument in arguments))
    for name, arguments in (*((name, types.split(", ")) for name, types in _DEFINITIONS), *GOOGLESQL_SIGNATURES)
)


def ensure_log_functions(conn: Connection[Any]) -> None:
    """Create or update the schema and its functions as defined here; repeatable. `conn` is the owner's."""
    schema = sql.Identifier(FUNCTION_SCHEMA)
    readers = sql.SQL(", ").join(map(sql.Identifier, READERS))
    views = sql.SQL(", ").join(map(sql.Identifier, VIEW_OWNERS))
    with conn.transaction():
        conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        conn.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM PUBLIC, {}").format(schema, views))
        conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, readers))
        # A body is checked when it is created, and may name another of these functions.
        for definition in _DEFINITIONS.values():
            conn.execute(definition)
        conn.execute(googlesql.FUNCTIONS.read_bytes())
        _allow_readers(conn, LOG_FUNCTIONS)


def _allow_readers(conn: Connection[Any], functions: Iterable[FunctionName]) -> None:
    readers = sql.SQL(", ").join(map(sql.Identifier, READERS))
    for function in sorted(functions, key=str):
        conn.execute(sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(function.signature()))
        conn.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(function.signature(), readers))


# --- Guard functions --------------------------------------------------------------------------------------------------
# Creates the twins of `guard_definitions` in schema log_functions, where only the readers may call them.
_TYPE_NAMES: Final = {"integer": "int4", "text[]": "_text"}
GUARD_FUNCTIONS: Final = frozenset(
    FunctionName(
        "log_functions",
        function.name.strip('"'),
        tuple(("pg_catalog", _TYPE_NAMES.get(argument, argument)) for argument in function.arguments),
    )
    for function in FUNCTIONS
)


def ensure_guard_functions(conn: Connection[Any]) -> None:
    """Create the domains, functions and operators in log_functions; repeatable. `conn` is the owner's."""
    with conn.transaction():
        for called_by_domains in (LARGEST_VALUE_FUNCTION, STORED_SIZE_FUNCTION):
            conn.execute(called_by_domains.create())
        for name, (type_, check) in DOMAINS.items():
            _ensure_domain(conn, name, type_, check)
        for function in FUNCTIONS:
            conn.execute(function.create())
        _allow_readers(conn, GUARD_FUNCTIONS)
        for operator in OPERATORS:
            exists = conn.execute(
                "SELECT 1 FROM pg_operator WHERE oprnamespace = 'log_functions'::regnamespace AND oprname = %s"
                " AND oprleft = %s::regtype AND oprright = %s::regtype",
                (operator.name, operator.left, operator.right),
            ).fetchone()
            if exists is None:
                conn.execute(operator.create())
            elif operator.options:
                conn.execute(operator.alter())


def _ensure_domain(conn: Connection[Any], name: str, type_: str, check: str) -> None:
    domain = sql.Identifier("log_functions", name)
    if conn.execute("SELECT to_regtype(%s)", (f"log_functions.{name}",)).fetchone() == (None,):
        conn.execute(sql.SQL("CREATE DOMAIN {} AS {}").format(domain, sql.SQL(type_)))
    conn.execute(sql.SQL("ALTER DOMAIN {} DROP CONSTRAINT IF EXISTS {}").format(domain, sql.Identifier("size")))
    conn.execute(
        sql.SQL("ALTER DOMAIN {} ADD CONSTRAINT {} CHECK ({})").format(domain, sql.Identifier("size"), sql.SQL(check))
    )
