"""Creates the twins of `guard_definitions` in schema log_functions, where only the readers may call them."""

from __future__ import annotations

from typing import Any, Final

from psycopg import Connection, sql

from logsources.function_rights import FunctionName
from logsources.guard_definitions import DOMAINS, FUNCTIONS, LARGEST_VALUE_FUNCTION, OPERATORS
from logsources.roles import READERS

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
    readers = sql.SQL(", ").join(map(sql.Identifier, READERS))
    with conn.transaction():
        conn.execute(LARGEST_VALUE_FUNCTION.create())  # the domains call it
        for name, (type_, check) in DOMAINS.items():
            _ensure_domain(conn, name, type_, check)
        for function in FUNCTIONS:
            conn.execute(function.create())
        for made in sorted(GUARD_FUNCTIONS, key=str):
            conn.execute(sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(made.signature()))
            conn.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(made.signature(), readers))
        for operator in OPERATORS:
            exists = conn.execute(
                "SELECT 1 FROM pg_operator WHERE oprnamespace = 'log_functions'::regnamespace AND oprname = %s"
                " AND oprleft = %s::regtype AND oprright = %s::regtype",
                (operator.name, operator.left, operator.right),
            ).fetchone()
            if exists is None:
                conn.execute(operator.create())


def _ensure_domain(conn: Connection[Any], name: str, type_: str, check: str) -> None:
    domain = sql.Identifier("log_functions", name)
    if conn.execute("SELECT to_regtype(%s)", (f"log_functions.{name}",)).fetchone() == (None,):
        conn.execute(sql.SQL("CREATE DOMAIN {} AS {}").format(domain, sql.SQL(type_)))
    conn.execute(sql.SQL("ALTER DOMAIN {} DROP CONSTRAINT IF EXISTS {}").format(domain, sql.Identifier("size")))
    conn.execute(
        sql.SQL("ALTER DOMAIN {} ADD CONSTRAINT {} CHECK ({})").format(domain, sql.Identifier("size"), sql.SQL(check))
    )
